"""Says why the kernel does not start an existing program. The kernel's errors leave out the cause (execve(2))."""

from __future__ import annotations

import errno
import json
import os
import shlex

from capacityd.linux.path_walk import open_file
from capacityd.linux.permissions import owner_and_mode
from capacityd.model.text import printable

_MAX_FIRST_LINE = 256
"""Bytes of a script's first line that the kernel reads (execve(2))."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REMOVE_CARRIAGE_RETURNS = r"s/\r$//"  # a command of sed
_REMOVE_BYTE_ORDER_MARK = r"1s/^\xef\xbb\xbf//"  # a command of sed


def why_not_executable(program: str) -> str:
    """Why this process may not execute a program, with the remedy; "" if it may. Raises OSError if it is missing."""
    status = os.stat(program)
    if os.access(program, os.X_OK):
        return ""
    somebody_may_execute = status.st_mode & 0o111
    if not somebody_may_execute:
        return f"is not executable ({_shell_command('chmod', '+x', program)})"
    if os.statvfs(program).f_flag & os.ST_NOEXEC:
        command = json.dumps(["/bin/sh", printable(program)], ensure_ascii=False)
        return (
            "is on a file system that is mounted with noexec: move it to another one or, if it is a script, name its "
            f"interpreter in the command: {command}"
        )
    return f"may not be executed by this user ({owner_and_mode(status)}, and SELinux or AppArmor may deny it)"


def why_not_started(program: str, code: int | None) -> str:
    """Why an executable program can't be started; "" if the file shows no reason. code: execve(2)'s errno, or None."""
    if code not in (errno.ENOENT, errno.ENOEXEC):
        return ""
    try:
        first_line = read_first_line(program)
    except OSError:
        return ""
    if code == errno.ENOENT:
        return _why_enoent(program, first_line)
    return _why_enoexec(program, first_line)


def _why_enoent(program: str, first_line: bytes) -> str:
    """Why the kernel reports ENOENT for an existing program with this first line; "" if unknown."""
    if first_line.startswith(b"\x7fELF"):
        return f"the dynamic loader that it needs does not exist (`{_shell_command('file', program)}` names it)"
    if first_line.endswith(b"\r\n"):
        remedy = _shell_command("sed", "-i", _REMOVE_CARRIAGE_RETURNS, program)
        return f"its first line ends with a carriage return ({remedy})"
    if first_line.startswith(b"#!"):
        return "the interpreter in its first line does not exist"
    return ""


def _why_enoexec(program: str, first_line: bytes) -> str:
    """Why the kernel reports ENOEXEC, an unknown format, for a program with this first line."""
    if not first_line:
        return "it is empty"
    if first_line.startswith(b"\x7fELF"):
        return f"it is a binary for another architecture than {os.uname().machine}, or damaged"
    if first_line.startswith(_BYTE_ORDER_MARK):
        remedy = _shell_command("sed", "-i", _REMOVE_BYTE_ORDER_MARK, program)
        return f"it begins with a byte order mark ({remedy})"
    if b"\0" in first_line:
        return "it is neither a text nor a binary of Linux"
    is_cut = len(first_line) == _MAX_FIRST_LINE and not first_line.endswith(b"\n")
    if first_line.startswith(b"#!") and is_cut:
        return f"its first line is too long: the kernel reads {_MAX_FIRST_LINE} bytes of it"
    return 'it does not begin with "#!" and an interpreter, such as "#!/bin/sh"; only a shell runs it nevertheless'


def _shell_command(*words: str) -> str:
    """The command with these words, for a message."""
    return shlex.join(map(printable, words))


def read_first_line(program: str) -> bytes:
    """A program's first line with the line feed, up to the length that the kernel reads. Raises OSError."""
    with open(open_file(program), "rb") as file:
        return file.readline(_MAX_FIRST_LINE)
