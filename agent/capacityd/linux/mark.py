"""Marks a process and all processes that it starts, so that they can still be found after the process has ended.

The mark is RLIMIT_LOCKS, a limit that Linux has ignored since 2.4.25 (getrlimit(2)). A process that a program starts
inherits the limits, even if it has another session, environment, standard input or name.
"""

from __future__ import annotations

import resource
from binascii import crc32
from contextlib import suppress

_RLIMIT_LOCKS = 10
"""Its number on all architectures. Source: include/uapi/asm-generic/resource.h in the kernel's source."""
_NAME_IN_PROC = b"Max file locks"


def mark_this_process(name: str) -> None:
    """Marks this process. name: what the mark stands for."""
    with suppress(OSError, ValueError):  # the process has inherited a smaller limit, and may not raise it
        resource.setrlimit(_RLIMIT_LOCKS, (mark(name), mark(name)))


def mark(name: str) -> int:
    """The mark that stands for this name."""
    return crc32(name.encode())


def mark_of(pid: int) -> int | None:
    """The mark of a process; None if it has no mark, or has ended."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            (soft_limit,) = (line.split()[3] for line in file if line.startswith(_NAME_IN_PROC))
            return int(soft_limit)
    except (OSError, ValueError):  # the limit is "unlimited"
        return None
