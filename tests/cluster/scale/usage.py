"""The CPU time and memory that processes have used, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_time(pids: Iterable[int]) -> float:
    """Seconds that these have used, with those of their children that they have waited for (proc_pid_stat(5))."""
    seconds = 0.0
    for pid in pids:
        try:
            _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
        except OSError:
            continue  # it has ended; its parent has its time
        seconds += sum(map(int, fields.split()[11:15])) / _TICKS
    return seconds


def peak_memory(pid: int) -> int:
    """The most memory that it has had, in KiB; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
