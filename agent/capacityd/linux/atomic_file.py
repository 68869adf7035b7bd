"""Reads files, and replaces them atomically: a reader gets either the old or the new content, never a part."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

MAX_BYTES = 16 * 1024 * 1024
"""The limit for reading a file. A configuration with a thousand resources needs a hundredth of this limit."""

# Another user may own the folder, and create a link at the path. With O_EXCL, open() fails if the path already exists.
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: str, content: bytes, mode: int) -> None:
    """Replaces a file. If it raises OSError, the old file is unchanged, and no unfinished file remains.

    mode: the new file's permissions. The content is first written to the file PATH.new beside the old file. An earlier
    PATH.new, which a killed process has left, is deleted.
    """
    unfinished = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(unfinished)
    fd = os.open(unfinished, _NEW_FILE_FLAGS, mode)
    try:
        with open(fd, "wb") as f:
            os.fchmod(fd, mode)
            f.write(content)
        os.replace(unfinished, path)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def read_regular_file(path: str) -> bytes:
    """Returns the content of a regular file of at most MAX_BYTES. Raises FileNotFoundError if the file does not exist,
    and another OSError if it can't be read, is not a regular file, or is too large.

    Only a regular file is opened, because open() can have an effect on a device.
    """
    require_regular(os.stat(path), path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # O_NONBLOCK: does not wait for a FIFO's writer
    with open(fd, "rb") as f:
        require_regular(os.fstat(fd), path)  # somebody may have replaced the file before it was opened
        content = f.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return content


def require_regular(status: os.stat_result, path: str) -> None:
    """Raises OSError if the file with this status is not a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def write_error(folder: str) -> int:
    """Returns the errno with which a write to a folder would fail; 0 if no reason is known. Writes nothing."""
    try:
        status = os.statvfs(folder)
    except OSError as e:
        return e.errno or errno.EIO
    if status.f_flag & os.ST_RDONLY:
        return errno.EROFS
    # The writer is root, so the blocks that are reserved for root count as free (f_bfree, not f_bavail). f_files is 0
    # if the file system does not count inodes.
    no_block_free = status.f_bfree == 0
    no_inode_free = status.f_files > 0 and status.f_ffree == 0
    return errno.ENOSPC if no_block_free or no_inode_free else 0
