"""Killing all children: orphaned descendants, many children at once, and a child that the kernel does not release."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest

from capacityd.linux import subreaper
from capacityd.linux.subreaper import become_subreaper, children, kill_children
from tests.support.forked import forked


def test_descendants_that_outlive_their_parent_are_killed_too() -> None:
    def test() -> None:
        become_subreaper()
        reads, writes = os.pipe()
        for _ in range(3):
            if os.fork() == 0:
                if os.fork() == 0:
                    os.write(writes, b"x")
                    signal.pause()
                os._exit(7)
        for _ in range(3):
            os.read(reads, 1)
        assert len(kill_children(time.monotonic() + 20)) == 6  # three children and three grandchildren
        assert children(os.getpid()) == []

    forked(test)


def test_while_a_child_hangs_the_attempts_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/unit/discovery/test_hanging_programs.py has a child that really fake_os in the kernel."""
    now, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds
        pauses.append(seconds)

    fake_os = SimpleNamespace(getpid=os.getpid, kill=lambda *_: None, waitpid=lambda *_: (0, 0), WNOHANG=os.WNOHANG)
    monkeypatch.setattr(subreaper, "os", fake_os)
    monkeypatch.setattr(subreaper, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now[0]))
    monkeypatch.setattr(subreaper, "children", lambda _: [12345])
    assert kill_children(5.0) == {}
    assert now == [pytest.approx(5.0)]
    assert pauses[:3] == [0.001, 0.002, 0.004]
    assert max(pauses) == 0.5
