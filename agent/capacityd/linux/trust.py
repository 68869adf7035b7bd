"""Finds files that others could change, of those that decide what root does: configuration, programs and credentials.

Such a file, and every folder and symbolic link on its path, from / on, must belong to a trusted user, and nobody else
may be able to write it. Trusted users are root and the user who runs the command.

- No group may write, not even root's, because others may be members: sshd demands the same (StrictModes in
  sshd_config(5)). The exceptions are the groups that a Trust lists. An ACL that lets somebody write sets the bit of the
  group in the mode (acl(5)).
- In a folder with the sticky bit, such as /tmp, everybody may create a name, but only the owners of a file and of the
  folder may rename or remove it (unlink(2)). So a trusted user's file is safe there. A file with a second hard link is
  not safe, because another user may have made the link. A missing name is not safe, because another user may create it.
  A program is not safe, because interpreters load what is beside a script: Python looks for modules in the script's
  folder first.

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
from dataclasses import dataclass, replace

from capacityd.linux.path_entries import PathEntry, path_entries
from capacityd.linux.permissions import overflow_uid, owner_and_mode

_OTHER_FOLDER = "use a different folder, or let only root write this one"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A file, folder or link that somebody else can change."""

    path: str
    problem: str
    remedy: str
    """A command, or an advice if no command alone is right."""

    def __str__(self) -> str:
        return f"{self.path} {self.problem}: {self.remedy}"


class NotTrusted(Exception):
    """Somebody else could change a file, so it is not opened."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(str(flaw))
        self.flaw = flaw


@dataclass(frozen=True, slots=True)
class Trust:
    """The users who may own a file, and the groups that may write it, by uid and gid."""

    users: frozenset[int]
    groups: frozenset[int] = frozenset()

    def with_owner_of(self, path: str) -> Trust:
        """Returns a trust that includes the owner and the group of a file that the user has named."""
        return self.with_user_of(path).with_group_of(path)

    def with_user_of(self, path: str) -> Trust:
        """Returns a trust that includes the owner of a file.

        Does not trust the uid that stands for all other users in a user namespace, such as that of PrivateUsers=
        (systemd.exec(5)).
        """
        try:
            owner = os.stat(path).st_uid
            if owner == overflow_uid():
                return self
        except OSError:  # the owner is unknown, so no further user is trusted
            return self
        return replace(self, users=self.users | {owner})

    def with_group_of(self, path: str) -> Trust:
        """Returns a trust that includes the group of a file."""
        try:
            return replace(self, groups=self.groups | {os.stat(path).st_gid})
        except OSError:  # as in with_user_of()
            return self


def service_trust() -> Trust:
    """The trust of the service, which is root."""
    return Trust(users=frozenset({0}))


def own_trust() -> Trust:
    """The trust of the user who runs this process. The user's private group counts as the user, as in Debian's sshd."""
    user = os.geteuid()
    if user == 0:
        return service_trust()
    return Trust(users=service_trust().users | {user}, groups=_private_group(user))


def flaw_of(path: str, trust: Trust) -> Flaw | None:
    """The first part of a path that somebody else can change; None if there is none.

    A missing part is a flaw if somebody else can create it. Otherwise a missing part is no flaw, because using the path
    fails. Of a part that this process may not see, only the folder that hides the part is checked. The owner and the
    mode of a device or a socket do not count, because neither contains anything that somebody has written.
    """
    return _first_flaw(path, trust, may_be_in_shared_folder=True, may_be_shared_folder=True)


def flaw_of_folder(path: str, trust: Trust) -> Flaw | None:
    """The flaw of a folder in which names are looked up. Nobody else may be able to create a file in the folder."""
    return _first_flaw(path, trust, may_be_in_shared_folder=True, may_be_shared_folder=False)


def flaw_of_program(path: str, trust: Trust) -> Flaw | None:
    """The flaw of a program, a script or a folder of them. Nobody else may be able to create a file beside it."""
    return _first_flaw(path, trust, may_be_in_shared_folder=False, may_be_shared_folder=False)


def open_trusted(path: str, trust: Trust) -> int:
    """Opens a file for reading, and returns its descriptor. Raises NotTrusted if somebody else could change it.

    Raises OSError if the file is missing or can't be read, which is checked first. Raises ValueError if the path
    contains a NUL. Does not wait for the writer of a pipe.
    """
    # O_PATH, because opening a device has effects. By the descriptor, because the path may lead nowhere by now.
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        is_readable = os.access(f"/proc/self/fd/{found}", os.R_OK)
    finally:
        os.close(found)
    if not is_readable:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if flaw := flaw_of(path, trust):
        raise NotTrusted(flaw)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def _first_flaw(path: str, trust: Trust, *, may_be_in_shared_folder: bool, may_be_shared_folder: bool) -> Flaw | None:
    """The flaw that flaw_of() returns. A shared folder is one with the sticky bit in which others may create files.

    may_be_in_shared_folder: whether the last part of the path may be in a shared folder. may_be_shared_folder: whether
    the last part may be one itself.
    """
    if not path.startswith("/"):
        try:
            path = os.path.join(os.getcwd(), path)
        except OSError:
            # The current folder has no path any more, but ".." still leads out of it, so the file may exist.
            return Flaw(path, "is relative to a folder that was removed", remedy="write the absolute path")
    reached = "/"
    try:
        status = os.stat(reached)
    except OSError:
        return None
    try:
        for entry in path_entries(path):
            entry_may_be_in_shared_folder = may_be_in_shared_folder or not entry.is_last
            if flaw := _flaw_of_entry(entry, trust, may_be_in_shared_folder=entry_may_be_in_shared_folder):
                return flaw
            if entry.status is None:
                return None
            reached = entry.path
            status = entry.status
    except PermissionError:  # of the folder that was reached, which another user may own
        return _flaw_of_part(reached, status, trust, sticky_bit_suffices=True)
    except OSError:
        return None
    if _has_no_content(status.st_mode):
        return None
    return _flaw_of_part(reached, status, trust, sticky_bit_suffices=may_be_shared_folder)


def _flaw_of_entry(entry: PathEntry, trust: Trust, *, may_be_in_shared_folder: bool) -> Flaw | None:
    """The flaw of an entry's folder, or of the entry itself if it is a link."""
    if flaw := _flaw_of_part(entry.folder, entry.folder_status, trust, sticky_bit_suffices=True):
        return flaw
    # The folder has no other flaw, so it has one now only if it is shared. A folder in a shared folder is no flaw: no
    # other user can replace it or make a hard link to it, and it is itself checked as the folder of the next entry.
    flaw_of_shared_folder = _flaw_of_part(entry.folder, entry.folder_status, trust, sticky_bit_suffices=False)
    if entry.status is None:
        return flaw_of_shared_folder
    if flaw_of_shared_folder and not stat.S_ISDIR(entry.status.st_mode):
        if not may_be_in_shared_folder:
            return flaw_of_shared_folder
        if entry.status.st_nlink > 1:
            why = "may be a hard link that another user has made"
            return Flaw(entry.path, why, remedy="copy it into a folder that only root may write")
    if not stat.S_ISLNK(entry.status.st_mode):
        return None  # checked as the folder of the next entry, or at the end of the path
    return _flaw_of_part(entry.path, entry.status, trust, sticky_bit_suffices=True)


def _has_no_content(mode: int) -> bool:
    """Whether this is a device, which only root can create, or a socket, which can't be opened."""
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode)


def _flaw_of_part(path: str, status: os.stat_result, trust: Trust, *, sticky_bit_suffices: bool) -> Flaw | None:
    """The flaw in the owner or in the mode of one part of a path.

    sticky_bit_suffices: whether others may write a folder with the sticky bit, because the next part of the path is
    checked as well.
    """
    shown_mode = f"({owner_and_mode(status)})"
    mode = status.st_mode
    is_link = stat.S_ISLNK(mode)
    if status.st_uid not in trust.users:
        if _is_home_of(status.st_uid, path):  # the user must stay the owner
            return Flaw(path, f"is the home of another user {shown_mode}", remedy="use a different folder")
        command = ["chown", "-h", "root", path] if is_link else ["chown", "root", path]
        return Flaw(path, f"does not belong to root {shown_mode}", remedy=shlex.join(command))
    is_sticky_folder = stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX)
    if is_link:
        return None  # nobody can write a link
    if is_sticky_folder and sticky_bit_suffices:
        return None
    is_trusted_group = status.st_gid in trust.groups
    if mode & stat.S_IWOTH:
        why = f"is writable by everybody {shown_mode}"
        denied_classes = "o" if is_trusted_group else "go"
    elif mode & stat.S_IWGRP and not is_trusted_group:
        why = f"is writable by its group {shown_mode}"
        denied_classes = "g"
    else:
        return None
    if is_sticky_folder:  # other users need the mode of a folder such as /tmp
        return Flaw(path, why, remedy=_OTHER_FOLDER)
    return Flaw(path, why, remedy=shlex.join(["chmod", f"{denied_classes}-w", path]))


def _is_home_of(user: int, path: str) -> bool:
    """Whether a path is the home folder of a user."""
    try:
        return pwd.getpwuid(user).pw_dir == path
    except KeyError:
        return False


def _private_group(user: int) -> frozenset[int]:
    """The group that has the user's name and no other member; empty if there is none."""
    try:
        account = pwd.getpwuid(user)
        group = grp.getgrgid(account.pw_gid)
    except KeyError:
        return frozenset()
    is_private = group.gr_name == account.pw_name and set(group.gr_mem) <= {account.pw_name}
    return frozenset({group.gr_gid}) if is_private else frozenset()
