"""Replaces files atomically, so that a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import os
from contextlib import suppress

# Another user may own the folder, and put a link there, or a pipe, on which open() would block.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def replace_file(path: str, content: bytes, mode: int, *, unfinished: str = "", durable: bool = False) -> None:
    """Replaces a file. Raises OSError; then the old file stays, and no unfinished one.

    mode: permissions. unfinished: the path to write to first, in the same folder; that of the file and ".new" if empty.
    durable: the content is on the disk before it replaces the old one, so that it survives a power failure.
    """
    unfinished = unfinished or f"{path}.new"
    fd = os.open(unfinished, _FLAGS, mode)
    try:
        with open(fd, "wb") as f:
            os.fchmod(fd, mode)
            f.write(content)
            if durable:
                f.flush()
                os.fsync(fd)
        os.replace(unfinished, path)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
