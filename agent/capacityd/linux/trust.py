"""Decides which files may decide what root does: configuration, programs, their interpreters, and credentials.

Such a file, and every folder and symbolic link on its path, from / on, must belong to a trusted user, and nobody else
may be able to write it. Trusted users are root and the user who runs the command.

- No group may write, not even root's, because others may be members: sshd demands the same (StrictModes in
  sshd_config(5)). The exceptions are the groups that a Trust lists. An ACL that lets somebody write sets the bit of the
  group in the mode (acl(5)).
- In a folder with the sticky bit, such as /tmp, everybody may create a name, but only the owners of a file and of the
  folder may rename or remove it (unlink(2)). So a trusted user's file in such a folder is safe. A search for a name in
  such a folder is not, because another user may create the name first.

The check of a path still holds when the path is used, because nobody else can change any part of a trusted path.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass, replace

from capacityd.linux.permissions import overflow_uid, owner_and_mode

MAX_LINKS = 40
"""Links that the kernel follows in a path (path_resolution(7))."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A file, folder or link that somebody else can change, and the command that ends this."""

    path: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path} {self.problem}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Trust:
    """The users who may own a file, and the groups that may write it."""

    users: frozenset[int]
    groups: frozenset[int] = frozenset()

    def with_owner_of(self, path: str) -> Trust:
        """Returns a trust that includes the owner and the group of a file that the user has named.

        In a user namespace, such as that of PrivateUsers= (systemd.exec(5)), all users but root may have the same uid.
        This uid is not trusted.
        """
        try:
            status = os.stat(path)
        except OSError:
            return self
        return replace(self, users=self.users | ({status.st_uid} - {overflow_uid()})).with_group_of(path)

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

    Neither a missing file nor a part that this process may not see counts as a flaw, because using the path fails.
    """
    return _first_flaw(path, trust, may_create=True)


def flaw_of_folder(path: str, trust: Trust) -> Flaw | None:
    """As flaw_of(), for a folder in which names are looked up: nobody else may be able to create a file in it."""
    return _first_flaw(path, trust, may_create=False)


def _first_flaw(path: str, trust: Trust, *, may_create: bool) -> Flaw | None:
    """may_create: whether others may create files in the last existing folder of the path."""
    here, links = "/", 0
    if not path.startswith("/"):
        try:
            path = os.path.join(os.getcwd(), path)
        except OSError:  # the kernel still follows ".." there
            return Flaw(path, "is relative to a folder that was removed", "write the absolute path")
    names = reversed_names(path)
    try:
        status = os.stat("/")
        while names:
            if flaw := _flaw_of_part(here, status, trust, sticky=True):
                return flaw
            below = _below(here, names.pop())
            try:
                status = os.lstat(below)
            except FileNotFoundError:
                return None if may_create else _flaw_of_part(here, status, trust, sticky=False)
            if not stat.S_ISLNK(status.st_mode):
                here = below
                continue
            if flaw := _flaw_of_part(below, status, trust, sticky=True):
                return flaw
            links += 1
            if links > MAX_LINKS:
                return None
            target = os.readlink(below)
            names += reversed_names(target)
            here = "/" if target.startswith("/") else here
            status = os.stat(here)
    except OSError:
        return None
    return _flaw_of_part(here, status, trust, sticky=may_create)


def reversed_names(path: str) -> list[str]:
    """The names in a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _below(folder: str, name: str) -> str:
    # The path up to here has no links, so ".." is the folder's parent.
    return os.path.dirname(folder) if name == ".." else os.path.join(folder, name)


def _flaw_of_part(path: str, status: os.stat_result, trust: Trust, *, sticky: bool) -> Flaw | None:
    """sticky: whether the sticky bit of a folder is enough, because the next part of the path is checked as well."""
    state, mode, is_link = f"({owner_and_mode(status)})", status.st_mode, stat.S_ISLNK(status.st_mode)
    if status.st_uid not in trust.users:
        return Flaw(path, f"does not belong to root {state}", f"chown {'-h ' if is_link else ''}root {path}")
    if is_link or (sticky and stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None
    if mode & stat.S_IWOTH:
        classes = "o" if status.st_gid in trust.groups else "go"
        return Flaw(path, f"is writable by everybody {state}", f"chmod {classes}-w {path}")
    if mode & stat.S_IWGRP and status.st_gid not in trust.groups:
        return Flaw(path, f"is writable by its group {state}", f"chmod g-w {path}")
    return None


def _private_group(user: int) -> frozenset[int]:
    """The group that has the user's name and no other member; empty if there is none."""
    try:
        account = pwd.getpwuid(user)
        group = grp.getgrgid(account.pw_gid)
    except KeyError:
        return frozenset()
    is_private = group.gr_name == account.pw_name and set(group.gr_mem) <= {account.pw_name}
    return frozenset({group.gr_gid}) if is_private else frozenset()
