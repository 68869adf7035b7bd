"""Checks that nobody but root can change the files that decide what root does.

These files are the configuration, the kubelet's kubeconfig with the files that it names, and each program with its
interpreter and its arguments. Each file, every symbolic link on its path, and every folder up to / must belong to root
or to the user who runs the command. Neither a group nor other users may write them. sshd demands the same (StrictModes
in sshd_config(5)). An ACL that lets somebody write also sets the group's write bit (acl(5)), so the bits are enough.

In a folder with the sticky bit, such as /tmp, everybody may create a file, but only the owners of the file and of the
folder may remove or rename the file (unlink(2)). So a folder that root owns is safe in /tmp. A program in /tmp is not
safe: an interpreter loads files beside a script, and another user can make a hard link to a file that root owns.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capacityd.linux.path_walk import LEADS_NOWHERE, PathPart, open_folder, open_regular, walk
from capacityd.linux.permissions import owner_and_mode
from capacityd.linux.program_start import read_first_line

_MAX_PROGRAMS = 6
"""How many programs are checked in a row: a script, its interpreter, which may be a script itself, and so on. The
kernel starts at most four scripts in a row."""
_INTERPRETER = re.compile(rb"#![ \t]*([^ \t\n]+)")
"""The start of a script, with the path of its interpreter."""
_REMEDY_FOR_FOLDER = "use a folder that only root may write"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A file, folder or link that somebody else can change."""

    path: str
    problem: str
    remedy: str
    """A command, or advice if no single command is right."""

    def __str__(self) -> str:
        return f"{self.path} {self.problem}: {self.remedy}"


class NotTrusted(Exception):
    """Somebody else could change a file, so it is not used."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(str(flaw))
        self.flaw = flaw


@dataclass(frozen=True, slots=True)
class Trust:
    """Who may be able to change a file."""

    users: frozenset[int]
    """The uids of the users who may own the file."""
    group_may_write: bool = False
    """Whether the file's group may write the file."""
    in_shared_folder: bool = False
    """Whether the file may be in a folder with the sticky bit, in which everybody may create files."""

    def with_owner_of(self, path: str) -> Trust:
        """Returns a trust that includes the owner of a file; the same trust if the file is missing."""
        try:
            return replace(self, users=self.users | {os.stat(path).st_uid})
        except OSError:
            return self


SERVICE_TRUST = Trust(users=frozenset({0}))
"""The trust of the service, which is root."""


def trust_of_current_user() -> Trust:
    """The trust of the user who runs this process. An ordinary user's umask may let the user's own group write."""
    user = os.geteuid()
    return Trust(users=SERVICE_TRUST.users | {user}, group_may_write=user != 0)


def trust_in(path: str) -> Trust:
    """The trust of a user who names a configuration file in a command.

    The file's owner and its group may also be able to change the file. The file may be in a folder such as /tmp.
    """
    return replace(trust_of_current_user().with_owner_of(path), group_may_write=True, in_shared_folder=True)


def find_trusted(path: str, trust: Trust) -> PathPart:
    """Returns the target of a path. Raises NotTrusted if somebody else could change the target or a part of the path.

    A target that is a device, a socket or a folder may belong to anybody, because find_trusted() reads nothing from it.
    Raises OSError if the path leads nowhere, but NotTrusted if somebody else could create what is missing. Raises
    ValueError if the path contains a NUL.
    """
    last_part = None
    try:
        for part, folder in walk(path):
            if last_part:  # the first part is /, which no folder contains
                _require_trusted(folder, trust, sticky_bit_protects=part.is_folder or trust.in_shared_folder)
            has_content = stat.S_ISREG(part.status.st_mode) or stat.S_ISFIFO(part.status.st_mode)
            if part.is_link or has_content:
                _require_trusted(part, trust)
            last_part = part
    except OSError:
        if last_part and last_part.is_folder:  # the missing name was looked up in this folder
            _require_trusted(last_part, trust)
        raise
    return part


def _require_trusted(part: PathPart, trust: Trust, *, sticky_bit_protects: bool = False) -> None:
    """Raises NotTrusted if somebody else could change a part of a path.

    sticky_bit_protects: whether a folder with the sticky bit is safe, although everybody may create files in it.
    """
    status = part.status
    if status.st_uid not in trust.users:
        problem = f"does not belong to root ({owner_and_mode(status)})"
        raise NotTrusted(Flaw(part.path, problem, _remedy_for_owner(part)))
    is_sticky = part.is_folder and bool(status.st_mode & stat.S_ISVTX)
    if part.is_link or (is_sticky and sticky_bit_protects):  # nobody can write a link
        return
    writable_by_everybody = status.st_mode & stat.S_IWOTH
    writable_by_group = status.st_mode & stat.S_IWGRP
    if writable_by_everybody:
        writers = "everybody"
    elif writable_by_group and not trust.group_may_write:
        writers = "its group"
    else:
        return
    # Not chmod for a folder such as /tmp, because other users need to write it.
    remedy = _REMEDY_FOR_FOLDER if is_sticky else shlex.join(["chmod", "go-w", part.path])
    raise NotTrusted(Flaw(part.path, f"is writable by {writers} ({owner_and_mode(status)})", remedy))


def _remedy_for_owner(part: PathPart) -> str:
    """What to do if a part of a path belongs to another user."""
    if part.is_folder:  # not chown: the folder may be the home of its owner
        return _REMEDY_FOR_FOLDER
    options = ["-h"] if part.is_link else []
    return shlex.join(["chown", *options, "root", part.path])


def open_trusted(path: str, trust: Trust) -> int:
    """Opens a regular file for reading, and returns its descriptor. Raises the errors of find_trusted()."""
    return open_regular(find_trusted(path, trust))


def trusted_names(folder: str, trust: Trust) -> list[str]:
    """The names in a folder. Raises the errors of find_trusted(); also NotTrusted if others can create a name."""
    target = find_trusted(folder, trust)
    _require_trusted(target, trust)
    fd = open_folder(target)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def flaw_of_command(command: Sequence[str], trust: Trust) -> Flaw | None:
    """The first flaw of the files in a command; None if they have no flaw.

    Checks the program, the interpreters in the first lines, and each argument that is an absolute path. Does not check
    other files that the program runs or reads. A missing file is no flaw if nobody else can create it.
    """
    program, *arguments = command
    if flaw := _flaw_of_program(program, trust):
        return flaw
    paths = [argument for argument in arguments if argument.startswith("/")]
    for path in paths:
        if flaw := flaw_of(path, trust):
            return flaw
    return None


def flaw_of(path: str, trust: Trust) -> Flaw | None:
    """The flaw of a path's target, or of a part of the path; None if they have no flaw, or the path leads nowhere."""
    try:
        find_trusted(path, trust)
    except NotTrusted as e:
        return e.flaw
    except ValueError:  # no file has a NUL in its path
        return None
    except OSError as e:
        if e.errno not in LEADS_NOWHERE:  # another process may be able to open the path, for example after EMFILE
            return Flaw(path, f"can't be checked ({e.strerror})", "try again")
    return None


def _flaw_of_program(program: str, trust: Trust) -> Flaw | None:
    """The flaw of a program, or of its interpreters."""
    for _ in range(_MAX_PROGRAMS):
        if flaw := flaw_of(program, trust):
            return flaw
        try:
            interpreter = _INTERPRETER.match(read_first_line(program))
        except PermissionError:
            # The kernel starts the interpreter even of a script that this process can't read.
            remedy = shlex.join(["chmod", "u+r", program])
            return Flaw(program, "can't be read, so its interpreter is not known", remedy)
        except (OSError, ValueError):  # the program is missing, so it can't be run
            return None
        if interpreter is None:
            return None
        # The kernel looks up an interpreter without an absolute path in the program's current folder, which is /.
        program = os.path.join("/", os.fsdecode(interpreter[1]))
    return None
