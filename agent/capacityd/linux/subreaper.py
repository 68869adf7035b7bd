"""Kills the children of a process, including orphaned descendants."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_BACKOFF, _BACKOFF_MAX = 0.001, 0.5  # seconds between attempts to kill: the first and the longest pause


def become_subreaper() -> None:
    """Makes this process the parent of orphaned descendants from now on, so that it can kill and reap them."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(process: int) -> list[int]:
    """PIDs of a process's children, running or not yet reaped. The kernel lists them by thread."""
    pids = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children") as f:
                pids += [int(child) for child in f.read().split()]
    except OSError:
        pass
    return pids


def kill_children(deadline: float, spared: int = 0) -> dict[int, int]:
    """Kills and reaps children until none is left, or until the deadline (time.monotonic()).

    Does not wait longer for a child in an uninterruptible sleep. spared: the PID of a child that lives on; 0 for none.
    Returns PID -> status from wait(2).
    """
    statuses: dict[int, int] = {}
    backoff = _BACKOFF
    while True:
        left = [child for child in children(os.getpid()) if child != spared]
        for child in left:
            with suppress(OSError):  # the child has exited
                os.kill(child, signal.SIGKILL)
            with suppress(OSError):
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    statuses[pid] = status
        if not left or (now := time.monotonic()) >= deadline:
            return statuses
        if statuses.keys() >= set(left):
            continue  # their own children may be this process's now
        time.sleep(min(backoff, deadline - now))
        backoff = min(2 * backoff, _BACKOFF_MAX)
