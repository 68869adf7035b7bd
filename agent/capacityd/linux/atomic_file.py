"""Reads files, and replaces them atomically, so that a reader gets the old content or the new one, never a part.

If there is something else in the place of a file (a folder, a pipe, a device), that is an error, and blocks nobody.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

MAX_BYTES = 16 << 20
"""The most that is read of a file: a hundred times what a thousand resources need."""

# Another user may own the folder, and put a link there, or a pipe, on which open() would block.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def replace_file(path: str, content: bytes, mode: int, *, durable: bool = False) -> None:
    """Replaces a file. Raises OSError; then the old file is unchanged, and no unfinished one remains.

    mode: permissions. durable: whether the content is on the disk before it replaces the old one, so that it survives a
    power failure. It is first written to the path with ".new" at its end, also over what a killed process left there.
    """
    unfinished = _write_unfinished(path, content, mode, durable=durable)
    try:
        os.replace(unfinished, path)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def reserve_room(path: str, size: int) -> None:
    """Makes sure that replace_file() can later write so many bytes to this path. Raises OSError if it can't.

    Until then, the unfinished file takes up this room.
    """
    _write_unfinished(path, bytes(size), 0o600, durable=False)


def _write_unfinished(path: str, content: bytes, mode: int, *, durable: bool) -> str:
    """Writes the file that is to replace another, and returns its path. If it raises OSError, no such file remains."""
    unfinished = f"{path}.new"
    fd = os.open(unfinished, _FLAGS, mode)
    try:
        with open(fd, "wb") as f:
            os.fchmod(fd, mode)
            f.write(content)
            if durable:
                f.flush()
                os.fsync(fd)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
    return unfinished


def read_regular_file(path: str) -> bytes:
    """The content of a file. Raises FileNotFoundError if there is none, another OSError if it can't be read.

    A path that is not a regular file is an error, and is not opened, because that can have an effect on a device. A
    file of more than MAX_BYTES is also an error.
    """
    _require_regular(os.stat(path), path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
        _require_regular(os.fstat(f.fileno()), path)
        content = f.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return content


def _require_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def write_error(folder: str) -> int:
    """The errno with which files in a folder can't be written, as far as that can be told without writing; 0: none."""
    try:
        status = os.statvfs(folder)
    except OSError as e:
        return e.errno or errno.EIO
    if status.f_flag & os.ST_RDONLY:
        return errno.EROFS
    # f_bfree includes what is reserved for root, which is who writes. Some file systems do not count files.
    full = not status.f_bfree or (status.f_files and not status.f_ffree)
    return errno.ENOSPC if full else 0
