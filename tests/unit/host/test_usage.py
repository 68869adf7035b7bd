"""What status reports of the memory and processor time that the service takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from capacityd.host.cpu_memory import usage
from capacityd.model.errors import HostError

BUSY = "import time\nwhile time.process_time() < 0.1: pass"


def test_memory_is_what_is_resident() -> None:
    before = usage(os.getpid()).memory
    held = bytearray(64 << 20)
    held[::4096] = b"x" * len(held[::4096])
    assert usage(os.getpid()).memory - before > 60 << 20
    del held


def test_the_time_of_children_that_have_ended_counts() -> None:
    """The service's work is done by its workers."""
    before = usage(os.getpid()).cpu
    subprocess.run([sys.executable, "-S", "-c", BUSY], check=True)
    assert usage(os.getpid()).cpu - before >= 0.08


def test_a_process_that_has_ended_has_no_usage() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(HostError, match=f"of process {ended.pid} could not be read: NoSuchProcess"):
        usage(ended.pid)
