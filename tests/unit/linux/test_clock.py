"""The time that a process ran."""

from __future__ import annotations

import os
import signal
import time

from capacityd.linux.clock import running_time


def test_a_process_that_runs_is_told_from_one_that_is_blocked() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.1:
            pass
        os.write(writer, b"x")
        signal.pause()
    try:
        os.read(reader, 1)
        ran = running_time(pid)
        assert ran >= 0.05  # the kernel adds it up at ticks
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)
    assert running_time(pid) == 0


def test_the_time_of_a_process_that_is_blocked_does_not_move() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(reader, 1)
        os._exit(0)
    try:
        while _state(pid) != "S":  # it sleeps in nothing but its read
            os.sched_yield()
        before = running_time(pid)
        os.sched_yield()
        assert running_time(pid) == before > 0
    finally:
        os.write(writer, b"x")
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(") ")[2][0]
