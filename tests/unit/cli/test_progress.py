"""The line that tells what a slow command does: only on a terminal, and gone at the end.

In a process of its own, because the time limits of the tests use the same timer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest

from capacityd.cli import run
from tests import ROOT

CODE = """
import signal
from capacityd.cli.output.progress import progress

with progress("reading the devices", first={first}, every=60.0):
    if {first} < 1.0 and {terminal}:
        signal.pause()
assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
"""


def shown(*, first: float, terminal: bool) -> bytes:
    """What the line's code prints on standard error. first: as in progress()."""
    command = [sys.executable, "-c", CODE.format(first=first, terminal=terminal)]
    if not terminal:
        return subprocess.run(command, stderr=subprocess.PIPE, check=True, timeout=60).stderr
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as ours_file, os.fdopen(theirs, "wb") as theirs_file:
        subprocess.run(command, stderr=theirs_file, check=True, timeout=60)
        os.write(theirs_file.fileno(), b".")
        output = b""
        while not output.endswith(b"."):  # a read of a terminal may return a part
            output += ours_file.read(1000)
        return output


def test_a_slow_command_says_what_it_does() -> None:
    assert shown(first=0.01, terminal=True) == b"\r\x1b[Kreading the devices (0 s)\r\x1b[K."


def test_a_fast_command_says_nothing() -> None:
    assert shown(first=1000.0, terminal=True) == b"."


def test_without_a_terminal_no_progress_is_shown() -> None:
    assert shown(first=0.01, terminal=False) == b""


@pytest.mark.parametrize(
    ("module", "command", "task"),
    [
        ("devices", ["devices", "usb"], "reading the devices"),
        ("probe", ["probe", "--config", "/dev/null"], "reading the resources"),
        ("publish", ["plan", "--config", "/dev/null", "--node-file", "/dev/null"], "reading the resources"),
        ("record", ["record", "copy.json"], "recording the machine"),
    ],
)
def test_each_command_that_reads_the_machine_names_its_task(
    module: str, command: list[str], task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[str] = []

    def progress(task: str) -> nullcontext[None]:
        tasks.append(task)
        return nullcontext()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module(f"capacityd.cli.commands.{module}"), "progress", progress)
    run([*command, "--machine", str(ROOT / "conf/examples/tour/machine.json")])
    assert tasks == [task]
