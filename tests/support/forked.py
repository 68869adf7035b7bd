"""Runs a part of a test in its own process, which may kill all its children, and mount another /sys for itself."""

from __future__ import annotations

import gc
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

_ENDED = 20.0  # seconds within which a killed process must have ended


def forked(function: Callable[[], Result]) -> Result:
    """Runs the function in a forked child, and returns its result. If it raises, the test fails with the traceback."""
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


ALONE = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-imn", "--propagation", "private"]
"""The start of a command line that runs as root in new mount, network and IPC namespaces."""


@cache
def can_be_alone() -> bool:
    """Whether this machine lets this user create namespaces."""
    try:
        return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run_alone(mounting: str, program: str, *arguments: str) -> str:
    """The output of a Python program that runs in new namespaces, after these shell commands have set up its mounts."""
    script = f'set -e; {mounting}; exec "$PYTHON" -c "$PROGRAM" "$@"'
    agent = os.path.dirname(os.path.dirname(capacityd.__file__ or ""))
    project = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PROGRAM": program,
        "PYTHONPATH": f"{agent}:{project}",
        "SYSTEMD_DEVICE_VERIFY_SYSFS": "0",  # otherwise libudev requires a real sysfs and finds nothing
    }
    command = [*ALONE, "sh", "-c", script, "sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def open_files() -> set[str]:
    """The open file descriptors of this process, each with the file that it refers to."""
    gc.collect()  # exceptions that earlier tests have caught may keep files open
    return {f"{fd}: {os.readlink(f'/proc/self/fd/{fd}')}" for fd in os.listdir("/proc/self/fd") if _is_open(fd)}


def has_children() -> bool:
    """Whether this process has children, including children that ended but were not yet reaped."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def still_alive(marker: str) -> list[str]:
    """The command lines with this marker whose processes do not end within some seconds.

    A killed process may remain for a moment. This process and its parent do not count.
    """
    deadline = time.monotonic() + _ENDED
    while (command_lines := _alive(marker)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return command_lines


def _alive(marker: str) -> list[str]:
    others = (p for p in psutil.process_iter(["cmdline"]) if p.pid not in (os.getpid(), os.getppid()))
    return [line for other in others if marker in (line := " ".join(other.info["cmdline"] or ()))]


def _is_open(fd: str) -> bool:
    try:
        os.fstat(int(fd))
    except OSError:
        return False  # the descriptor with which listdir() reads the folder
    return True
