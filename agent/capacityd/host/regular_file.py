"""Reads regular files of this machine, and makes text of the content of live and recorded files.

HostErrors name the path. Content is decoded with surrogateescape: a byte that is not UTF-8 becomes a surrogate.
text_of(), stripped_lines() and nonempty_lines() return printable text.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable

from capacityd.linux.opening import UntrustedLink
from capacityd.model.errors import Cause, HostError
from capacityd.model.text import printable

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO)
"""The errors that show that a path does not exist, or that its device or driver has gone."""
MAX_ATTRIBUTE_BYTES = 65536
"""The limit for a small file, such as an attribute in /sys. The kernel limits attributes to a page, 4 to 64 KiB."""
MAX_TABLE_BYTES = 16 * 1024 * 1024
"""The limit for a file of many lines, such as the mount table of a node with many pods."""


def read_text(path: str, limit: int) -> str:
    """The content of a regular file. A byte that is not UTF-8 becomes a surrogate. Raises HostError."""
    content, _ = read_regular(path, limit)
    return content.decode("utf-8", "surrogateescape")


def read_optional_text(path: str, limit: int) -> str | None:
    """The text that read_text() returns; None if the file does not exist, or is a folder."""
    try:
        return read_text(path, limit)
    except HostError as e:
        if e.errno in (*ABSENT, errno.EISDIR):
            return None
        raise


def _open(path: str) -> int:
    # O_NONBLOCK, because open() on a FIFO waits for a writer.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def read_regular(path: str, limit: int, opener: Callable[[str], int] = _open) -> tuple[bytes, float]:
    """The content of a regular file, and its modification time in seconds since the epoch.

    Raises HostError, with EFBIG if the file is longer than limit bytes. opener: opens the path; may raise UntrustedLink
    (linux/opening.py).
    """
    try:
        fd = opener(path)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
                raise HostError(f"{path} is not a regular file", code)
            content = _read(fd, path, limit + 1)  # one byte more than the limit, to notice a longer file
        finally:
            os.close(fd)
    except UntrustedLink as e:
        raise HostError(f"{path} could not be read: {e}", cause=Cause.NOT_TRUSTED) from e
    except OSError as e:
        raise unreadable(path, e) from e
    if len(content) > limit:
        raise HostError(f"{path} is longer than {limit} bytes", errno.EFBIG)
    return content, status.st_mtime


def _read(fd: int, path: str, size: int) -> bytes:
    """At most size bytes from the beginning of an open file. Raises OSError."""
    content = os.read(fd, size)
    # An attribute has less than a page, so the first read returns all of it. A second read may return the end of a new
    # value, if the value has changed in the meantime (sysfs_kf_read() in fs/sysfs/file.c).
    if path.startswith("/sys/") and len(content) < mmap.PAGESIZE:
        return content
    piece = content
    while piece and len(content) < size:
        piece = os.read(fd, size - len(content))
        content += piece
    return content


def unreadable(path: str, e: OSError) -> HostError:
    """The error for a path that could not be read."""
    if e.errno == errno.ENOENT:
        return HostError(f"{path} does not exist", e.errno)
    is_denied = e.errno in (errno.EACCES, errno.EPERM)
    hint = " (run as root?)" if is_denied and os.geteuid() != 0 else ""
    return HostError(f"{path} could not be read: {e.strerror}{hint}", e.errno)


def text_of(content: str) -> str:
    """The text of a small file, without surrounding white space, and without NULs at its end."""
    return printable(content.lstrip(" \t\n").rstrip(" \t\n\0"))


def stripped_lines(content: str) -> tuple[str, ...]:
    """The lines of a file. Tabs become spaces.

    Removes the white space before and after the whole text, and at the end of each line.
    """
    text = content.removeprefix("\ufeff")  # the byte order mark that Windows programs write before a text
    lines = text.replace("\t", " ").strip(" \r\n").split("\n")
    return tuple(printable(line.rstrip(" \r")) for line in lines)


def nonempty_lines(content: str) -> list[str]:
    """The lines of a file that are not empty. Tabs become spaces.

    A NUL also ends a line, because it ends each string of a list in /proc/device-tree.
    """
    lines = content.replace("\0", "\n").replace("\t", " ").split("\n")
    return [printable(line) for line in lines if line]
