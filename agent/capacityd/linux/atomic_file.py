"""Replaces files atomically, so that a reader finds the old content or the new one, never a part; and reads them.

Whatever is in their place instead (a folder, a pipe, a device) is an error, and blocks nobody.
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
    """Replaces a file. Raises OSError; then the old file stays, and no unfinished one.

    mode: permissions. durable: the content is on the disk before it replaces the old one, so that it survives a power
    failure. It is written to the path with ".new" at its end first, also over what a killed process left there.
    """
    unfinished = _write_unfinished(path, content, mode, durable)
    try:
        os.replace(unfinished, path)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def reserve_room(path: str, size: int) -> None:
    """Makes sure that replace_file() can write so many bytes there later. Raises OSError if it could not.

    They take their room in the unfinished file until then.
    """
    _write_unfinished(path, bytes(size), 0o600, durable=False)


def _write_unfinished(path: str, content: bytes, mode: int, durable: bool) -> str:
    """Writes the file that is to replace another. Returns its path; leaves none if it raises OSError."""
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

    What is no regular file is not opened (a device may do something when it is), and is an error, as is what has more
    than MAX_BYTES.
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
    """The errno with which files in a folder can't be written, as far as that shows without trying; 0: none."""
    try:
        found = os.statvfs(folder)
    except OSError as e:
        return e.errno or errno.EIO
    if found.f_flag & os.ST_RDONLY:
        return errno.EROFS
    # With what is reserved for root, who writes. Some file systems count no files.
    full = not found.f_bfree or (found.f_files and not found.f_ffree)
    return errno.ENOSPC if full else 0
