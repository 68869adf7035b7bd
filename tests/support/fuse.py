"""FUSE file systems without a server. A process that opens a file there waits in the kernel, and no signal ends it."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_DETACH = 2  # MNT_DETACH


@contextmanager
def mounted(point: str, kind: int = stat.S_IFDIR) -> Iterator[int]:
    """Mounts a FUSE file system in this mount namespace. Yields the descriptor from which a server reads requests.

    kind: the file type of the mount point (default: a directory).
    """
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode={kind:o},user_id=0,group_id=0"
    if libc.mount(b"x", os.fsencode(point), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    try:
        # Answer the kernel's first request: before that, SIGKILL still ends a process that waits for a file.
        question = os.read(fd, 1 << 16)
        (unique,) = struct.unpack_from("Q", question, 8)
        # struct fuse_init_out of linux/fuse.h: version 7.31, writes of at most 64 KiB, times in ns, and no features
        answer = struct.pack("IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 1 << 16, 1, 0, 0, 0)
        os.write(fd, struct.pack("IiQ", 16 + len(answer), 0, unique) + answer)
        yield fd
    finally:
        libc.umount2(os.fsencode(point), _DETACH)
        os.close(fd)  # ends all requests
