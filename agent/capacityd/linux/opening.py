"""Opens a data file by its path. Follows no link with which another user would choose one of root's files.

The kernel's own checks (protected_symlinks and protected_hardlinks, proc_sys_fs(5)) cover only some folders, and may be
switched off. Each part of a path is opened relative to the one before it, so the opened file is the checked one.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from contextlib import ExitStack

from capacityd.linux.path_entries import MAX_LINKS
from capacityd.linux.paths import reversed_names
from capacityd.linux.permissions import owner_and_mode, owner_name
from capacityd.model.text import printable

_FIND_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK, because open() on a pipe waits for a writer.
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class ForeignLink(Exception):
    """Another user has chosen the file that a path leads to. The message names the link, and says how to fix it."""


def open_data_file(path: str) -> int:
    """Opens the file at this path for reading, and returns its descriptor. Raises ForeignLink and OSError.

    A symbolic link is followed if it belongs to root, to the user of this process, or to the owner of the file.
    """
    with ExitStack() as descriptors:
        return _open(path, descriptors)


def _open(path: str, descriptors: ExitStack) -> int:
    """Opens the file as open_data_file() does. descriptors: closes the descriptors of everything on the path."""

    def close_at_end(fd: int) -> int:
        descriptors.callback(os.close, fd)
        return fd

    is_absolute = path.startswith("/")
    # The descriptor of the last entry so far: a folder or, at the end of the path, the file.
    reached = close_at_end(os.open("/" if is_absolute else ".", os.O_PATH | os.O_CLOEXEC))
    reached_path = "" if is_absolute else "."
    foreign_symlinks: dict[str, int] = {}  # path of a symbolic link of another user -> owner of the link
    foreign_hard_link = ""  # why another user may have made a hard link on the path
    link_count = 0
    names = reversed_names(path)  # still to follow, the next one last
    while names:
        name = names.pop()
        try:
            entry = close_at_end(_find(name, folder=reached, expect_folder=bool(names)))
        except OSError:  # behind another user's link, this error would show which files exist
            _refuse_foreign_symlinks(foreign_symlinks, file_owner=None)
            raise
        entry_path = f"{reached_path}/{name}"
        status = os.fstat(entry)
        foreign_hard_link = foreign_hard_link or _foreign_hard_link(
            entry_path, status, folder_path=reached_path, folder_status=os.fstat(reached)
        )
        if stat.S_ISLNK(status.st_mode):
            link_count += 1
            if link_count > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if not _is_trusted_user(status.st_uid):
                foreign_symlinks[entry_path] = status.st_uid
            is_in_proc = status.st_dev == os.stat("/proc").st_dev
            if not is_in_proc:
                target = os.readlink("", dir_fd=entry)
                names += reversed_names(target)
                if target.startswith("/"):
                    reached = close_at_end(os.open("/", os.O_PATH | os.O_CLOEXEC))
                    reached_path = ""
                continue
            # A link in /proc may lead to an open file or into another file system, and its text does not name the
            # target. So the kernel follows this link.
            entry = close_at_end(os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=reached))
        reached = entry
        reached_path = entry_path
    # Symbolic links come before hard links: the rest of a path behind another user's link is that user's text, and must
    # not appear in a message.
    _refuse_foreign_symlinks(foreign_symlinks, file_owner=os.fstat(reached).st_uid)
    if foreign_hard_link:
        raise ForeignLink(foreign_hard_link)
    # The kernel's link to the open file, because the path may lead to another file by now.
    return os.open(f"/proc/self/fd/{reached}", _READ_FLAGS)


def _find(name: str, folder: int, *, expect_folder: bool) -> int:
    """Opens an entry of a folder without reading or following it. expect_folder: whether the path continues in it."""
    if expect_folder:
        try:
            # O_DIRECTORY, because without it the kernel would not mount the file system of an automount point.
            return os.open(name, _FIND_FLAGS | os.O_DIRECTORY, dir_fd=folder)
        except NotADirectoryError:
            pass  # a link, or a file where the path needs a folder
    return os.open(name, _FIND_FLAGS, dir_fd=folder)


def _is_trusted_user(uid: int) -> bool:
    """Whether this is root, or the user of this process."""
    return uid in (0, os.geteuid())


def _refuse_foreign_symlinks(links: dict[str, int], *, file_owner: int | None) -> None:
    """Raises ForeignLink unless the owner of the file also owns the symbolic links.

    links: path -> owner of the link. file_owner: None if the links lead to no file. The message does not depend on
    file_owner, because a user must not learn which files exist.
    """
    for path, uid in links.items():
        if uid != file_owner:
            shown = printable(path)
            raise ForeignLink(
                f"{shown} is a symbolic link of {owner_name(uid)} that leads to no file of this user, so it is not "
                f"followed; if the link is right, run: {shlex.join(['chown', '-h', 'root', shown])}"
            )


def _foreign_hard_link(path: str, status: os.stat_result, *, folder_path: str, folder_status: os.stat_result) -> str:
    """Why another user may have made this hard link to a file of root, or of this process's user; "" if nobody can.

    path, status: of the link. folder_path, folder_status: of the folder that contains the link.
    """
    has_other_links = not stat.S_ISDIR(status.st_mode) and status.st_nlink >= 2
    if not has_other_links or not _is_trusted_user(status.st_uid):
        return ""
    others_may_write = bool(folder_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if _is_trusted_user(folder_status.st_uid) and not others_may_write:
        return ""
    shown_folder = printable(folder_path) or "/"
    commands = [["chown", "root", shown_folder], ["chmod", "go-w", shown_folder]]
    # Other users need the mode of a folder with the sticky bit, such as /tmp.
    is_sticky = folder_status.st_mode & stat.S_ISVTX
    close_folder = "" if is_sticky else f", or run: {'; '.join(map(shlex.join, commands))}"
    return (
        f"{printable(path)} is a hard link to a file of {owner_name(status.st_uid)}, and others can make links in "
        f"its folder ({owner_and_mode(folder_status)}); copy the file into another folder{close_folder}"
    )
