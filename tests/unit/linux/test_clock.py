"""The time for which a process was busy."""

from __future__ import annotations

import os
import signal
import time

import psutil

from capacityd.linux.clock import busy_time


def test_the_time_that_a_process_runs_counts_and_the_time_that_it_is_blocked_does_not() -> None:
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.1:
            pass
        signal.pause()
    try:
        while psutil.Process(pid).status() != psutil.STATUS_SLEEPING:  # it sleeps only in signal.pause()
            os.sched_yield()
        before = busy_time(pid)
        os.sched_yield()
        assert busy_time(pid) == before
        assert before >= 0.05  # nearly the 0.1 s above: the kernel counts the time in ticks
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert busy_time(pid) == 0, "the process has ended"
