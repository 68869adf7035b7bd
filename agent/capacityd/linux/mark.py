"""Marks a process with a number, so that later processes can recognize it and the processes that it has started.

A process that hangs in the kernel can't be killed. Each process that reads a resource is marked. So the next pass can
recognize a process that still hangs, and does not start another process for the same resource.

The mark is stored as the process's limit RLIMIT_LOCKS, for three reasons. Linux has ignored this limit since 2.4.25
(getrlimit(2)), so its value has no effect. Other processes can read it in /proc/PID/limits. A process that the marked
process starts inherits the limit, even if it has another session, environment, standard input or name.
"""

from __future__ import annotations

import resource
from binascii import crc32
from contextlib import suppress

_RLIMIT_LOCKS = 10
"""The number of the limit on all architectures. Python's module resource lacks this number. Source: the kernel's
include/uapi/asm-generic/resource.h."""
_NAME_IN_PROC = b"Max file locks"


def mark_this_process(name: str) -> None:
    """Marks this process as one that reads the resource with this name."""
    soft_limit = hard_limit = mark(name)
    with suppress(OSError, ValueError):  # the process has inherited a smaller limit, and may not raise it
        resource.setrlimit(_RLIMIT_LOCKS, (soft_limit, hard_limit))


def mark(name: str) -> int:
    """The mark for the resource with this name: a checksum, because a limit is a number."""
    return crc32(name.encode())


def mark_of(pid: int) -> int | None:
    """The mark of a process; None if it has no mark, or has ended."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            (limit_line,) = [line for line in file if line.startswith(_NAME_IN_PROC)]
        limits = limit_line.removeprefix(_NAME_IN_PROC).split()  # the soft limit, the hard limit and their unit
        return int(limits[0])
    except (OSError, ValueError):  # the process has ended, or has the default limit, "unlimited"
        return None
