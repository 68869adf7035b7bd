"""The machine's uptime, and the time for which a process was busy."""

from __future__ import annotations

import time

BOOT_SECONDS = 180.0
"""Seconds of uptime during which drivers and devices may still appear."""


def uptime() -> float:
    """Seconds since the machine booted, including the time that it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def busy_time(pid: int) -> float:
    """Seconds for which a process's first thread ran or waited for a processor; 0 if the kernel does not report it.

    The rest of the time, the thread slept, or waited for hardware, a server or a disk.
    """
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as f:
            running_nanoseconds, waiting_nanoseconds, _ = map(int, f.read().split())
    except (OSError, ValueError):
        return 0.0
    return (running_nanoseconds + waiting_nanoseconds) / 1e9
