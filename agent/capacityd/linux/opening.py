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

from capacityd.linux.permissions import owner_and_mode, owner_name
from capacityd.linux.trust import MAX_LINKS, reversed_names
from capacityd.model.text import printable

_FIND = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK, because open() on a pipe waits for a writer.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class ForeignLink(Exception):
    """Another user has chosen the file that a path leads to. The message names the link, and says how to fix it."""


def open_data_file(path: str) -> int:
    """Opens the file at this path for reading, and returns its descriptor. Raises ForeignLink and OSError.

    A symbolic link is followed if it belongs to root, to the user of this process, or to the owner of the file.
    """
    with ExitStack() as opened:
        return _open(path, opened)


def _open(path: str, opened: ExitStack) -> int:
    """As open_data_file(). opened: closes the folders of the path."""

    def kept(fd: int) -> int:
        opened.callback(os.close, fd)
        return fd

    root = here = kept(os.open("/" if path.startswith("/") else ".", os.O_PATH | os.O_CLOEXEC))
    place, foreign, links = "" if path.startswith("/") else ".", dict[str, int](), 0
    hard_links: list[str] = []
    waiting = reversed_names(path)
    while waiting:
        name = waiting.pop()
        try:
            entry = kept(_find(name, here, in_folder=bool(waiting)))
        except OSError:
            _refuse_foreign_links(foreign, None)
            raise
        status, below = os.fstat(entry), f"{place}/{name}"
        hard_links.append(_foreign_hard_link(below, status, os.fstat(here), place))
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if not _is_ours(status.st_uid):
                foreign[below] = status.st_uid
            if status.st_dev != os.stat("/proc").st_dev:
                target = os.readlink("", dir_fd=entry)
                waiting += reversed_names(target)
                if target.startswith("/"):
                    here, place = root, ""
                continue
            # A link in /proc may lead to an open file or into another file system. Its text does not name the target.
            entry = kept(os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=here))
        here, place = entry, below
    # First, because what follows a link of another user is that user's text.
    _refuse_foreign_links(foreign, os.fstat(here).st_uid)
    if why := next(filter(None, hard_links), ""):
        raise ForeignLink(why)
    # The kernel's link to the open file, because the path may lead to another file by now.
    return os.open(f"/proc/self/fd/{here}", _READ)


def _find(name: str, folder: int, *, in_folder: bool) -> int:
    """Opens an entry of a folder without reading or following it. in_folder: whether it should be a folder."""
    if in_folder:
        try:
            # O_DIRECTORY, because without it the kernel would not mount what an automount point stands for.
            return os.open(name, _FIND | os.O_DIRECTORY, dir_fd=folder)
        except NotADirectoryError:
            pass
    return os.open(name, _FIND, dir_fd=folder)


def _is_ours(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _refuse_foreign_links(links: dict[str, int], owner: int | None) -> None:
    """Raises ForeignLink unless the owner of the file also owns the links.

    links: path -> owner of the link. owner: None if the links lead to no file. The message is the same then, because a
    user must not learn from it which files exist.
    """
    for path, uid in links.items():
        if uid != owner:
            shown = printable(path)
            raise ForeignLink(
                f"{shown} is a symbolic link of {owner_name(uid)} that leads to no file of this user, so it is not "
                f"followed; if the link is right, run: {shlex.join(['chown', '-h', 'root', shown])}"
            )


def _foreign_hard_link(path: str, status: os.stat_result, folder: os.stat_result, place: str) -> str:
    """Why another user may have made this link to a file of root, or of this process's user; "" if nobody can."""
    if stat.S_ISDIR(status.st_mode) or status.st_nlink < 2 or not _is_ours(status.st_uid):
        return ""
    if _is_ours(folder.st_uid) and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return ""
    shown = printable(place) or "/"
    commands = [["chown", "root", shown], ["chmod", "go-w", shown]]
    # Others need the mode of a folder such as /tmp.
    close = "" if folder.st_mode & stat.S_ISVTX else f", or run: {'; '.join(map(shlex.join, commands))}"
    return (
        f"{printable(path)} is a hard link to a file of {owner_name(status.st_uid)}, and others can make links in "
        f"its folder ({owner_and_mode(folder)}); copy the file into another folder{close}"
    )
