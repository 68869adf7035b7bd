"""Finds each file that a command runs, and checks it with the rule of trust.py.

A command runs its program, the interpreter in the program's first line, the program that env(1) looks up in PATH, and
each script or binary among its arguments, as in ["/usr/bin/python3", "/opt/count.py"].
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capacityd.linux.trust import Flaw, Trust, flaw_of, flaw_of_folder

_MAX_DEPTH = 5
"""How many scripts are followed, each the interpreter of the one before. The kernel gives up after four (execve(2))."""
_MAX_FIRST_LINE = 256
"""Bytes of a script's first line that the kernel reads (execve(2))."""
_SCRIPT_SUFFIXES = (".awk", ".jar", ".js", ".lua", ".php", ".pl", ".py", ".rb", ".sh")


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What env(1) runs: a command whose program may be a name, and the PATH in which the name is looked up."""

    command: Sequence[str]
    search_path: str


def flaw_of_command(command: Sequence[str], search_path: str, trust: Trust) -> Flaw | None:
    """The first flaw of a command that is started in the folder /; None if there is none.

    command: the program's path and its arguments. search_path: the command's PATH.
    """
    return _flaw_of_command(command, search_path, trust, _MAX_DEPTH)


def flaw_of_name(name: str, search_path: str, trust: Trust) -> Flaw | None:
    """The flaw of the folders in which a program's name is looked up, until it is found; None if there is none."""
    found = shutil.which(name, path=search_path)
    for folder in search_path.split(os.pathsep):
        if flaw := flaw_of_folder(folder or "/", trust):
            # Other programs need the mode of a shared folder such as /tmp, so the remedy is not to change it.
            remedy = "write the absolute path of the program instead"
            return replace(flaw, remedy=remedy) if _is_shared(flaw.path) else flaw
        if found == os.path.join(folder, name):
            break
    return None


def _is_shared(path: str) -> bool:
    """Whether this is a folder in which each user may create files; False if it has disappeared."""
    try:
        return bool(os.stat(path).st_mode & stat.S_ISVTX)
    except OSError:
        return False


def _flaw_of_command(command: Sequence[str], search_path: str, trust: Trust, depth: int) -> Flaw | None:
    program, *arguments = command
    if (flaw := flaw_of(program, trust)) or not depth:
        return flaw
    if "env" in (os.path.basename(program), os.path.basename(os.path.realpath(program))):
        return _flaw_of_lookup(program, arguments, search_path, trust, depth)
    if interpreter := _interpreter(program):
        if not interpreter[0].startswith("/"):
            return Flaw(program, "has an interpreter without an absolute path", "write its absolute path")
        if flaw := _flaw_of_command(interpreter, search_path, trust, depth - 1):
            return flaw
    scripts = (path for argument in arguments if _is_program(path := os.path.join("/", argument)))
    flaws = (_flaw_of_command([path], search_path, trust, depth - 1) for path in scripts)
    return next(filter(None, flaws), None)


def _flaw_of_lookup(env: str, arguments: Sequence[str], search_path: str, trust: Trust, depth: int) -> Flaw | None:
    lookup = _lookup(arguments, search_path)
    if lookup is None:
        return Flaw(env, "has options that are not supported here", "write the absolute path of the program instead")
    if not lookup.command:
        return None
    name, *rest = lookup.command
    if "/" in name:
        return _flaw_of_command([os.path.join("/", name), *rest], lookup.search_path, trust, depth - 1)
    if flaw := flaw_of_name(name, lookup.search_path, trust):
        return flaw
    found = shutil.which(name, path=lookup.search_path)
    return _flaw_of_command([found, *rest], lookup.search_path, trust, depth - 1) if found else None


def _lookup(arguments: Sequence[str], search_path: str) -> _Lookup | None:
    """What env(1) runs with these arguments; None for options that are not supported here."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-", "-i", "-v", "-iv", "-vi", "--ignore-environment", "--debug"):
            continue
        if option in ("-u", "--unset") and words:
            words.pop(0)
        elif option.startswith(("-S", "-vS")):
            text = option.partition("S")[2] or (words.pop(0) if words else "")
            words = [*_split(text), *words]
        elif option == "--":
            break
        else:
            return None
    while words and "=" in words[0]:
        variable, _, value = words.pop(0).partition("=")
        search_path = value if variable == "PATH" else search_path
    # env -S replaces ${NAME} by a variable that is not known here.
    return None if any("$" in word for word in words[:1]) else _Lookup(words, search_path)


def _interpreter(program: str) -> list[str]:
    """The interpreter in a script's first line, and its argument; empty if the file is no script."""
    try:
        with open(program, "rb", opener=_open_without_waiting) as file:
            first = file.read(_MAX_FIRST_LINE).split(b"\n")[0]
    except OSError:  # a script that can't be read can't be run, either
        return []
    if not first.startswith(b"#!"):
        return []
    return os.fsdecode(first[2:].strip(b" \t")).split(maxsplit=1)


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote is not closed
        return text.split()


def _is_program(path: str) -> bool:
    """Whether an argument is the path of a script or a binary, not of data."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb", opener=_open_without_waiting) as file:
            start = file.read(4)
    except (OSError, ValueError):
        return False
    return start.startswith(b"#!") or start == b"\x7fELF" or path.endswith(_SCRIPT_SUFFIXES)
