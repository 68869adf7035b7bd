"""Follows a path as the kernel does, so that the caller can check each part before the target is opened.

Each part is opened relative to the part before it, so that nobody can exchange a part between its check and its use.
The parts are opened with O_PATH, which has no effect on a device, and does not wait for a pipe.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from capacityd.linux.atomic_file import require_regular
from capacityd.linux.paths import reversed_names

MAX_LINKS = 40
"""The number of links that the kernel follows in a path (path_resolution(7))."""
LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES)
"""The errors of a path that does not exist, or that this process is not allowed to follow."""
_FIND_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class PathPart:
    """A folder or a link on a path, or the path's target. The part stays open as long as this object exists."""

    def __init__(self, path: str, fd: int) -> None:
        """path: the path of this part, without links in the folders above it. fd: from open() with O_PATH."""
        self.path = path
        self.fd = fd
        self.status = os.fstat(fd)

    def __del__(self) -> None:
        os.close(self.fd)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


def walk(path: str) -> Iterator[tuple[PathPart, PathPart]]:
    """Yields the parts of a path from / on, each with the folder that contains the part. / contains itself.

    The last part is the path's target. A relative path begins at the current folder. Raises OSError at the first part
    that can't be opened, and ValueError if the path contains a NUL.
    """
    folder = part = _root()
    yield part, folder
    link_count = 0
    absolute = path if path.startswith("/") else os.path.join(os.getcwd(), path)
    names = reversed_names(absolute)  # the names that are still to follow; the next name is the last in the list
    while names:
        name = names.pop()
        # folder.path contains no links, so dirname() returns the folder that ".." leads to.
        part_path = os.path.dirname(folder.path) if name == ".." else os.path.join(folder.path, name)
        part = PathPart(part_path, _open_entry(name, folder.fd, path_continues=bool(names)))
        yield part, folder
        if not part.is_link:
            folder = part
            continue
        link_count += 1
        if link_count > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        is_in_proc = part.status.st_dev == os.stat("/proc").st_dev
        if is_in_proc:
            # The kernel must follow a link in /proc, because the link's text may not be the path of its target. The
            # target may be an open file, for example.
            target_fd = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder.fd)
            part = PathPart(part_path, target_fd)
            yield part, folder
            folder = part
            continue
        link_target = os.readlink("", dir_fd=part.fd)
        names += reversed_names(link_target)
        if link_target.startswith("/"):
            folder = _root()
    if part.is_link:  # a link to "/" or "." adds no names, so its target is the current folder
        yield folder, folder


def open_file(path: str) -> int:
    """Opens the regular file at a path for reading, and returns its descriptor. Raises the errors of walk(), and
    OSError if the target is not a regular file."""
    for part, _ in walk(path):
        target = part
    return open_regular(target)


def open_regular(part: PathPart) -> int:
    """Opens a file for reading, and returns its descriptor. Raises OSError, also if the part is no regular file."""
    require_regular(part.status, part.path)
    return _reopen(part)


def open_folder(part: PathPart) -> int:
    """Opens a folder, and returns its descriptor. Raises OSError, also if the part is no folder."""
    return _reopen(part, os.O_DIRECTORY)


def _reopen(part: PathPart, flags: int = 0) -> int:
    # The path may lead elsewhere by now, so the file is opened by the descriptor.
    return os.open(f"/proc/self/fd/{part.fd}", os.O_RDONLY | os.O_CLOEXEC | flags)


def _root() -> PathPart:
    return PathPart("/", os.open("/", os.O_PATH | os.O_CLOEXEC))


def _open_entry(name: str, folder: int, *, path_continues: bool) -> int:
    """Opens an entry of a folder, and does not follow a link. path_continues: whether names follow in the path."""
    if path_continues:
        try:
            # Without O_DIRECTORY, the kernel would not mount the file system of an automount point.
            return os.open(name, _FIND_FLAGS | os.O_DIRECTORY, dir_fd=folder)
        except NotADirectoryError:
            pass  # a link, or a file where the path needs a folder
    return os.open(name, _FIND_FLAGS, dir_fd=folder)
