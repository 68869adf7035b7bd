"""Ends what is left below a process: children, and what outlived its parent. Light: the service keeps it loaded."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on what outlives its parent, below this process, becomes our child: then it can be ended and reaped."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(deadline: float) -> dict[int, int]:
    """Kills and reaps all children until none is left, or until the deadline (time.monotonic()).

    One in an uninterruptible sleep ends when the kernel lets it; we don't wait for that. Returns how each ended, as
    wait(2) tells it.
    """
    ended = {}
    while True:
        for child in _children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended[found[0]] = found[1]
        except ChildProcessError:
            return ended
        if time.monotonic() >= deadline:
            return ended
        select.select([], [], [], 0.005)


def _children() -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as f:
                    parent = int(f.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == os.getpid():
                found.append(int(entry))
    return found
