"""Runs part of a test in a process of its own: it may kill all its children there, and change what it sees as /sys."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import psutil

import capacityd

Result = TypeVar("Result")

_ENDED = 20.0  # seconds within which what has been killed must have ended


def forked(function: Callable[[], Result]) -> Result:
    """What the function returns in a forked child; an exception in it fails the test with its traceback."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            try:
                outcome: Any = (function(), None)
            except BaseException:  # noqa: BLE001  # the parent reports it
                outcome = (None, traceback.format_exc())
            with open(theirs, "wb") as f:
                pickle.dump(outcome, f)
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as f:
        data = f.read()
    os.waitpid(pid, 0)
    result, failure = pickle.loads(data)
    assert failure is None, failure
    return result  # type: ignore[no-any-return]


ALONE = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-mn", "--propagation", "private"]
"""Begins a command line: with mounts and a network of its own, as root of them."""


@cache
def can_be_alone() -> bool:
    """Whether this machine lets us have namespaces of our own."""
    try:
        return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run_alone(mounting: str, program: str, *arguments: str) -> str:
    """What a Python program prints after the shell commands have prepared its namespaces."""
    script = f'set -e; {mounting}; exec "$PYTHON" -c "$PROGRAM" "$@"'
    agent = os.path.dirname(os.path.dirname(capacityd.__file__ or ""))
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PROGRAM": program,
        "PYTHONPATH": f"{agent}:{here}",
        "SYSTEMD_DEVICE_VERIFY_SYSFS": "0",  # else libudev wants a real sysfs and finds nothing
    }
    command = [*ALONE, "sh", "-c", script, "sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def open_files() -> set[str]:
    """What this process has open, as far as it can leak."""
    return {f"{fd}: {os.readlink(f'/proc/self/fd/{fd}')}" for fd in os.listdir("/proc/self/fd") if _is_open(fd)}


def has_children() -> bool:
    """Whether this process has children, running or not yet reaped."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def still_alive(marker: str) -> list[str]:
    """The command lines that hold this text of processes that don't end, though they have been killed or are to be.

    What is killed is there for a moment more. This process and its parent don't count.
    """
    deadline = time.monotonic() + _ENDED
    while (pids := _alive(marker)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return pids


def _alive(marker: str) -> list[str]:
    others = (p for p in psutil.process_iter(["cmdline"]) if p.pid not in (os.getpid(), os.getppid()))
    return [line for other in others if marker in (line := " ".join(other.info["cmdline"] or ()))]


def _is_open(fd: str) -> bool:
    try:
        os.fstat(int(fd))
    except OSError:
        return False  # the listing's own
    return True
