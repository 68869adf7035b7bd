"""What status reports of the memory and processor time that the service takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capacityd.host.cpu_memory import usage
from capacityd.model.errors import HostError
from tests.support.terminals import Case, in_files

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


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
    assert usage(os.getpid()).cpu - before >= 0.25


def test_a_process_that_is_gone_has_none() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(HostError, match=f"of process {ended.pid} could not be read: NoSuchProcess"):
        usage(ended.pid)


def _just_begun(folder: Path) -> None:
    """The service has only just begun: it holds its lock, and has written nothing yet."""
    (folder / "run/service.lock").touch()


def test_without_a_process_id_nothing_is_reported() -> None:
    as_json, text = in_files([Case("status --json", _just_begun), Case("status", _just_begun)])
    found = json.loads(as_json[: as_json.rindex("}") + 1])
    assert found["service"] == {"pid": "?", "memory_bytes": None, "cpu_seconds": None}
    assert "MiB" not in text
