"""However a run of the tests ends, nothing of its control plane and its node is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests import ROOT
from tests.cluster.processes import PATIENCE, wait_until

WHOLE = """
import sys
from tests.cluster.controlplane import control_plane
from tests.cluster.kubelet import kubelet
with control_plane() as cluster, kubelet(cluster) as node:
    node.start()
    with node.device_plugin("example.com/card", 1):
        node.popen(["sleep", "infinity"])
        print(cluster.folder, flush=True)
        sys.stdin.read()
"""


def test_nothing_is_left_of_a_run_that_is_killed() -> None:
    command = [sys.executable, "-c", WHOLE]
    run = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        # With the time of its start: a machine that is busy gives a process id to another within a minute.
        started = {(pid, start_time(pid), name_of(pid)) for pid in descendants(run.pid)}
        names = {name for _, _, name in started}
        assert {"etcd", "kube-apiserver", "kube-scheduler", "kubelet", "fakeruntime", "deviceplugin", "sleep"} <= names
        assert folder.is_dir()
        run.send_signal(signal.SIGKILL)
    wait_until(
        lambda: not [name for pid, start, name in started if start_time(pid) == start],
        PATIENCE,
        f"the end of {started}",
    )
    wait_until(lambda: not folder.exists(), PATIENCE, "its folder is gone")


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in _read(pid, f"task/{pid}/children").split()]
    return children + [further for child in children for further in descendants(child)]


def name_of(pid: int) -> str:
    return _read(pid, "comm").strip()


def _read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended


def start_time(pid: int) -> str:
    """In clock ticks after boot; "" if there is no such process, or a zombie that waits for init. Source: proc(5)."""
    # The state follows the name, which can hold anything.
    state, *fields = _read(pid, "stat").rpartition(")")[2].split() or ["Z"]
    return "" if state == "Z" else fields[18]
