"""A machine without hardware of its own: Debian under its own systemd, in namespaces. It is gone with the test run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes import PATIENCE, Daemon
from tests.package.console import Console
from tests.package.trees import tree

_BOOT = Path(__file__).with_name("boot")


class Machine(Console):
    """A running machine, entered by its PID 1."""

    def __init__(self, init: int) -> None:
        self.init = init

    def execute(self, command: list[str], text: str, deadline: float) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", "--target", str(self.init), "--all"]
        return subprocess.run([*enter, *command], input=text, capture_output=True, text=True, timeout=deadline)


@contextmanager
def machine(release: str) -> Iterator[Machine]:
    """A machine of this release that has booted without a failed unit."""
    folder = Path(tempfile.mkdtemp(prefix="capacityd-machine-"))
    try:
        with Daemon([_BOOT, tree(release), folder], folder.with_suffix(".log")) as daemon:
            init = daemon.wait_for(lambda: _child(daemon.pid), PATIENCE, "it has a PID 1")
            running = Machine(init)
            daemon.wait_for(lambda: _up(running), PATIENCE, "it is up")
            assert running.out("systemctl", "is-system-running") == "running", running.out("systemctl", "--failed")
            yield running
    finally:
        folder.with_suffix(".log").unlink(missing_ok=True)
        shutil.rmtree(folder)


def _child(pid: int) -> int:
    """The process that unshare has made, once systemd runs in it."""
    try:
        child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child[0]) if child and Path(f"/proc/{child[0]}/comm").read_text() == "systemd\n" else 0
    except OSError:
        return 0


def _up(found: Machine) -> bool:
    said = found.run("systemctl", "is-system-running", "--wait", status=None).stdout.strip()
    return said in ("running", "degraded")
