"""The names on a path and on the paths of its symbolic links, in the order in which the kernel looks them up."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from capacityd.linux.paths import reversed_names

MAX_LINKS = 40
"""Links that the kernel follows in a path (path_resolution(7))."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """A name on a path, in the folder in which it is looked up. The folder's path contains no links."""

    folder: str
    folder_status: os.stat_result
    path: str
    status: os.stat_result | None
    """Of the entry itself, even if it is a link. None: the entry does not exist."""
    is_last: bool
    """Whether no name follows. If the last name is a link, the last name of its target is also last."""


def path_entries(path: str) -> Iterator[PathEntry]:
    """Yields each name on an absolute path and on the paths of its links, until one is missing. Raises OSError."""
    folder = "/"
    folder_status = os.stat(folder)
    link_count = 0
    names = reversed_names(path)  # still to look up, the next one last
    while names:
        name = names.pop()
        # The folder's path has no links, so ".." is the folder above in the path, too.
        entry_path = os.path.dirname(folder) if name == ".." else os.path.join(folder, name)
        try:
            status: os.stat_result | None = os.lstat(entry_path)
        except FileNotFoundError:
            status = None
        yield PathEntry(folder=folder, folder_status=folder_status, path=entry_path, status=status, is_last=not names)
        if status is None:
            return
        if not stat.S_ISLNK(status.st_mode):
            folder = entry_path
            folder_status = status
            continue
        link_count += 1
        if link_count > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(entry_path)
        names += reversed_names(target)
        if target.startswith("/"):
            folder = "/"
            folder_status = os.stat(folder)
