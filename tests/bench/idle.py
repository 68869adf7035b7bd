"""The cost of the idle service: its resident process, run by Debian's Python.

Stubs replace the workers, which report at once, and the watcher, whose Node does not change. So only the resident
process is measured. Once a minute, the watcher sends a sign of life, as after a bookmark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests import ROOT
from tests.bench.figure import Figure
from tests.cluster.agent import PYTHON

QUIET = 120.0
"""Seconds for which wake-ups are counted."""

MOST_WAKEUPS = 2
"""Wake-ups a minute."""

PASSES = 1_000
NO_GROWTH = 0.1
"""MiB that PASSES passes may add, after a first series of PASSES passes."""

PATIENCE = 300.0  # seconds

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.service.main import main; sys.exit(main(sys.argv[2:]))"
)

# The events of a machine with ten resources: those of every detector, of file resources and of the kubelet's file.
_CONFIG = {
    "subsystems": ["block", "net", "pci", "usb"],
    "kernel": ["addresses", "links", "mounts", "routes", "swaps"],
    "detectors_timeout": 100.0,
}

# The stub of a worker counts its passes in RUNS. While the file GO exists, it requests another pass at once.
_STUB = """
IFS= read -r job || exit 0
case "$job" in
*'"check"'*) echo '["CheckResult", {"config": CONFIG}]' ;;
*)
    echo '["Probed", {}]'
    echo x >> RUNS
    again=null
    [ -e GO ] && again=0
    echo '["PassResult", {"requeue_after": '$again', "node_fingerprint": "as seen", "watch_target": "{}"}]'
    ;;
esac
"""
_WATCHER = """echo '["NodeSeen", {"fingerprint": "as seen"}]'; while sleep 60; do echo; done"""


class Resident:
    """A running service without work. folder: contains its state and the files that it watches."""

    def __init__(self, folder: Path) -> None:
        self._runs, self._go, watched = folder / "runs", folder / "go", folder / "watched"
        self._runs.touch()
        watched.mkdir()
        files = {str(watched / f"{n}"): "file" for n in range(5)} | {f"{folder}/absent/{n}/x": "file" for n in range(5)}
        # The service watches five paths in a folder that exists, and five in folders that do not.
        stub = _STUB.replace("CONFIG", json.dumps(_CONFIG | {"files": files}))
        stub = stub.replace("RUNS", str(self._runs)).replace("GO", str(self._go))
        service = [PYTHON, "-I", "-c", _BOOT, str(ROOT / "agent"), str(folder)]
        children = ["/bin/sh", "-c", _WATCHER, "--", "/bin/sh", "-c", stub, "stub"]
        self._process = psutil.Popen([*service, *children], stderr=subprocess.DEVNULL)
        self._wait_for(lambda: self._count() > 0)

    def reconcile(self, times: int) -> None:
        """Runs this number of passes one after another, then stops."""
        wanted = self._count() + times
        self._go.touch()
        self._process.send_signal(signal.SIGHUP)
        self._wait_for(lambda: self._count() >= wanted)
        self._go.unlink()
        self._wait_for(lambda: len(self._process.children()) == 1, times=40)  # only the watcher runs, for two seconds

    def sizes(self) -> tuple[float, int]:
        """The memory of the resident process in MiB, and the number of its open files."""
        return self._process.memory_info().rss / 2**20, self._process.num_fds()

    def wakeups(self, seconds: float) -> float:
        """Returns how often the process woke up per minute while it was idle for this time."""
        before = self._process.num_ctx_switches().voluntary
        time.sleep(seconds)
        return float(self._process.num_ctx_switches().voluntary - before) * 60 / seconds

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _count(self) -> int:
        return self._runs.read_bytes().count(b"x")

    def _wait_for(self, happened: Callable[[], bool], times: int = 1) -> None:
        """Waits until the condition is true this number of times in a row."""
        deadline, seen = time.monotonic() + PATIENCE, 0
        while seen < times:
            assert time.monotonic() < deadline, f"{self._count()} passes, and then no more"
            assert self._process.poll() is None
            seen = seen + 1 if happened() else 0
            time.sleep(0.05)


@contextmanager
def resident() -> Iterator[Resident]:
    with tempfile.TemporaryDirectory(prefix="capacityd-idle-", dir="/dev/shm") as folder:
        resident = Resident(Path(folder))
        try:
            yield resident
        finally:
            resident.end()


@contextmanager
def _udev_running() -> Iterator[None]:
    """Makes the machine look as if udev ran. Otherwise the service would look at the hardware each minute."""
    os.makedirs("/run/udev", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/udev"], check=True)
    try:
        Path("/run/udev/control").touch()
        yield
    finally:
        subprocess.run(["umount", "/run/udev"], check=True)


def figures() -> list[Figure]:
    """The resources that the process uses."""
    with _udev_running(), resident() as service:
        service.reconcile(20)
        memory, _ = service.sizes()
        wakeups = service.wakeups(QUIET)
        service.reconcile(PASSES)
        memory_before, files_before = service.sizes()
        service.reconcile(PASSES)
        memory_after, files_after = service.sizes()
    return [
        Figure("resident, memory (RSS)", memory, "{:.1f} MiB", most=19),
        Figure("resident, idle, wake-ups a minute", wakeups, "{:.1f}", most=MOST_WAKEUPS),
        Figure(f"memory added by {PASSES} more passes", memory_after - memory_before, "{:.2f} MiB", most=NO_GROWTH),
        Figure(f"open files added by {PASSES} more passes", files_after - files_before, "{:.0f}", most=0),
    ]
