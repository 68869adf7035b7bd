"""Decides which files may decide what root does: configuration, programs, their interpreters, and credentials.

Such a file, and every folder and symbolic link on its path, from / on, must belong to a trusted user, and nobody else
may be able to write it. Trusted users are root and the user who runs the command.

- No group may write, not even root's, because others may be members: sshd demands the same (StrictModes in
  sshd_config(5)). The exceptions are the groups that a Trust lists. An ACL that lets somebody write sets the bit of the
  group in the mode (acl(5)).
- In a folder with the sticky bit, such as /tmp, everybody may create a name, but only the owners of a file and of the
  folder may rename or remove it (unlink(2)). So a trusted user's file is safe there. A file with a second name is not,
  because another user may have made the hard link. A missing name is not, because another user may create it. A program
  is not, because interpreters load what is beside a script: Python looks for modules in its folder first.

The check of a path still holds when the path is used afterwards, because nobody else can change any part of a trusted
path, nor create a part that is missing.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace

from capacityd.linux.permissions import overflow_uid, owner_and_mode

MAX_LINKS = 40
"""Links that the kernel follows in a path (path_resolution(7))."""
_OTHER_FOLDER = "use a different folder, or let only root write this one"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A file, folder or link that somebody else can change, and the command that ends this."""

    path: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path} {self.problem}: {self.remedy}"


class NotTrusted(Exception):
    """Somebody else could change a file, so it is not opened."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(str(flaw))
        self.flaw = flaw


@dataclass(frozen=True, slots=True)
class Trust:
    """The users who may own a file, and the groups that may write it."""

    users: frozenset[int]
    groups: frozenset[int] = frozenset()

    def with_owner_of(self, path: str) -> Trust:
        """Returns a trust that includes the owner and the group of a file that the user has named."""
        return self.with_user_of(path).with_group_of(path)

    def with_user_of(self, path: str) -> Trust:
        """Returns a trust that includes the owner of a file.

        In a user namespace, as of PrivateUsers= (systemd.exec(5)), all users but root may have one uid: not trusted.
        """
        try:
            return replace(self, users=self.users | ({os.stat(path).st_uid} - {overflow_uid()}))
        except OSError:
            return self

    def with_group_of(self, path: str) -> Trust:
        """Returns a trust that includes the group of a file."""
        try:
            return replace(self, groups=self.groups | {os.stat(path).st_gid})
        except OSError:
            return self


def service_trust() -> Trust:
    """The trust of the service, which is root."""
    return Trust(users=frozenset({0}))


def own_trust() -> Trust:
    """The trust of the user who runs this process. The user's private group counts as the user, as in Debian's sshd."""
    user, trust = os.geteuid(), service_trust()
    if user == 0:
        return trust
    return Trust(users=trust.users | {user}, groups=_private_group(user))


def flaw_of(path: str, trust: Trust) -> Flaw | None:
    """The first part of a path that somebody else can change; None if there is none.

    A missing part is a flaw if somebody else can create it. Otherwise neither a missing part nor one that this process
    may not see counts as a flaw, because using the path fails. The owner and the mode of a device or a socket do not
    count, because neither contains anything that somebody has written.
    """
    return _first_flaw(path, trust, in_shared_folder=True, is_shared=True)


def flaw_of_folder(path: str, trust: Trust) -> Flaw | None:
    """As flaw_of(), for a folder in which names are looked up: nobody else may be able to create a file in it."""
    return _first_flaw(path, trust, in_shared_folder=True, is_shared=False)


def flaw_of_program(path: str, trust: Trust) -> Flaw | None:
    """As flaw_of(), for a program, a script, or a folder of them: nobody else may create a file beside it."""
    return _first_flaw(path, trust, in_shared_folder=False, is_shared=False)


def open_trusted(path: str, trust: Trust) -> int:
    """Opens a file for reading, and returns its descriptor. Raises NotTrusted if somebody else could change it.

    Raises OSError before if it is missing or can't be read, and ValueError if it is not a path. Does not wait for the
    writer of a pipe.
    """
    os.stat(path)
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if flaw := flaw_of(path, trust):
        raise NotTrusted(flaw)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name on a path, in its folder. The folder's path contains no links."""

    folder: str
    of_folder: os.stat_result
    path: str
    status: os.stat_result | None
    """None: it does not exist."""
    is_last: bool


def _first_flaw(path: str, trust: Trust, *, in_shared_folder: bool, is_shared: bool) -> Flaw | None:
    """in_shared_folder: whether the file may be in a folder in which others may create files. is_shared: whether the
    file may be such a folder."""
    if not path.startswith("/"):
        try:
            path = os.path.join(os.getcwd(), path)
        except OSError:  # the kernel still follows ".." there
            return Flaw(path, "is relative to a folder that was removed", "write the absolute path")
    here = "/"
    try:
        status = os.stat(here)
        for entry in _entries(path):
            if flaw := _flaw_of_entry(entry, trust, in_shared_folder=in_shared_folder or not entry.is_last):
                return flaw
            if entry.status is None:
                return None
            here, status = entry.path, entry.status
    except OSError:
        return None
    return None if _is_no_file(status.st_mode) else _flaw_of_part(here, status, trust, sticky=is_shared)


def _entries(path: str) -> Iterator[_Entry]:
    """Yields each name on an absolute path and on the paths of its links, until one is missing. Raises OSError."""
    here, status, links = "/", os.stat("/"), 0
    names = reversed_names(path)
    while names:
        below = _below(here, names.pop())
        try:
            entry = os.lstat(below)
        except FileNotFoundError:
            yield _Entry(here, status, below, None, is_last=True)
            return
        yield _Entry(here, status, below, entry, is_last=not names)
        if not stat.S_ISLNK(entry.st_mode):
            here, status = below, entry
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(below)
        names += reversed_names(target)
        if target.startswith("/"):
            here, status = "/", os.stat("/")


def _flaw_of_entry(entry: _Entry, trust: Trust, *, in_shared_folder: bool) -> Flaw | None:
    """The flaw of an entry's folder, or of the entry itself if it is a link."""
    if flaw := _flaw_of_part(entry.folder, entry.of_folder, trust, sticky=True):
        return flaw
    shared = _flaw_of_part(entry.folder, entry.of_folder, trust, sticky=False)
    if entry.status is None:
        return shared
    if shared and not stat.S_ISDIR(entry.status.st_mode):
        if not in_shared_folder:
            return shared
        if entry.status.st_nlink > 1:
            why = "may be a hard link that another user has made"
            return Flaw(entry.path, why, "copy it into a folder that only root may write")
    is_link = stat.S_ISLNK(entry.status.st_mode)
    return _flaw_of_part(entry.path, entry.status, trust, sticky=True) if is_link else None


def reversed_names(path: str) -> list[str]:
    """The names in a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _below(folder: str, name: str) -> str:
    # The path up to here has no links, so ".." is the folder's parent.
    return os.path.dirname(folder) if name == ".." else os.path.join(folder, name)


def _is_no_file(mode: int) -> bool:
    """Whether this is a device, which only root can create, or a socket, which can't be opened."""
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode)


def _flaw_of_part(path: str, status: os.stat_result, trust: Trust, *, sticky: bool) -> Flaw | None:
    """sticky: whether the sticky bit of a folder is enough, because the next part of the path is checked as well."""
    state, mode, is_link = f"({owner_and_mode(status)})", status.st_mode, stat.S_ISLNK(status.st_mode)
    if status.st_uid not in trust.users:
        command = ["chown", *(["-h"] if is_link else []), "root", path]
        return Flaw(path, f"does not belong to root {state}", shlex.join(command))
    is_sticky = stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX)
    if is_link or (sticky and is_sticky):
        return None
    if mode & stat.S_IWOTH:
        classes = "o" if status.st_gid in trust.groups else "go"
        why = f"is writable by everybody {state}"
    elif mode & stat.S_IWGRP and status.st_gid not in trust.groups:
        classes, why = "g", f"is writable by its group {state}"
    else:
        return None
    # Others need the mode of a folder such as /tmp.
    return Flaw(path, why, _OTHER_FOLDER if is_sticky else shlex.join(["chmod", f"{classes}-w", path]))


def _private_group(user: int) -> frozenset[int]:
    """The group that has the user's name and no other member; empty if there is none."""
    try:
        account = pwd.getpwuid(user)
        group = grp.getgrgid(account.pw_gid)
    except KeyError:
        return frozenset()
    is_private = group.gr_name == account.pw_name and set(group.gr_mem) <= {account.pw_name}
    return frozenset({group.gr_gid}) if is_private else frozenset()
