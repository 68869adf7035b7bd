"""Killing all children: orphaned descendants, many children at once, and a child that the kernel does not release."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from capacityd.linux.subreaper import become_subreaper, children, kill_children
from tests.support.forked import can_be_alone, forked, run_alone

HANGING = """
import json, os, signal, sys, tempfile, time
from capacityd.linux.subreaper import children, kill_children
from tests.support.fuse import mounted

point = tempfile.mkdtemp()
with mounted(point) as server:
    child = os.fork()
    if child == 0:
        os.close(server)  # what it held itself would never be closed
        os.stat(f"{point}/x")
        os._exit(0)
    os.read(server, 1 << 18)  # its question is now the server's, and so it waits whatever signal comes
    opened = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event in ("open", "os.listdir") else None)
    ended = kill_children(time.monotonic() + 1.0)
    read_paths = [path for path in opened if path.startswith("/proc")]
    alive = children(os.getpid()) == [child]
print(json.dumps([ended, alive, read_paths]))
(status,) = kill_children(time.monotonic() + 20).values()
print(os.WTERMSIG(status))
"""


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
        ended = kill_children(time.monotonic() + 20)
        assert len(ended) == 6
        assert children(os.getpid()) == []

    forked(test)


@pytest.mark.slow
@pytest.mark.skipif(not can_be_alone() or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse")
def test_while_a_child_hangs_little_is_read() -> None:
    """Each attempt reads two files, and there are few attempts. The child ends when the kernel releases it."""
    first, last = run_alone("true", HANGING).splitlines()
    ended, alive, read_paths = json.loads(first)
    assert (ended, alive) == ({}, True)
    assert 2 <= len(read_paths) <= 30
    assert int(last) == signal.SIGKILL
