"""Finds and kills child processes, including orphaned descendants."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE = 0.001  # seconds between two attempts to kill; each pause is twice as long as the one before
_LONGEST_PAUSE = 0.5


def become_subreaper() -> None:
    """Makes this process the parent of its orphaned descendants from now on, so that it can kill and reap them."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid: int) -> list[int]:
    """PIDs of a process's children, running or not yet reaped."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # the kernel lists the children of each thread
            with open(f"/proc/{pid}/task/{thread}/children") as f:
                found += [int(child) for child in f.read().split()]
    except OSError:
        pass  # the process or one of its threads has ended
    return found


def has_ended(pid: int) -> bool:
    """Whether a process has ended, although its parent may not have reaped it yet (proc_pid_stat(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            _, _, after_name = file.read().rpartition(b") ")  # the name in parentheses may contain any byte
    except OSError:
        return True
    return after_name.startswith(b"Z")  # the state "zombie"


def kill_children(deadline: float, spared: Collection[int] = ()) -> dict[int, int]:
    """Kills and reaps this process's children until no child is left, or until the deadline (time.monotonic()).

    A child in an uninterruptible sleep may still exist at the deadline. spared: the PIDs of children that must not be
    killed. Returns PID -> status from wait(2), for the children that have ended.
    """
    statuses: dict[int, int] = {}
    pause = _FIRST_PAUSE
    while True:
        remaining = [child for child in children(os.getpid()) if child not in spared]
        for child in remaining:
            with suppress(OSError):  # the child has exited
                os.kill(child, signal.SIGKILL)
            with suppress(OSError):  # the child has already been reaped
                reaped, status = os.waitpid(child, os.WNOHANG)  # reaped is 0 if the child still runs
                if reaped:
                    statuses[child] = status
        now = time.monotonic()
        if not remaining or now >= deadline:
            return statuses
        all_are_reaped = all(child in statuses for child in remaining)
        if all_are_reaped:
            continue  # the children of the reaped children may be this process's children now
        time.sleep(min(pause, deadline - now))
        pause = min(2 * pause, _LONGEST_PAUSE)
