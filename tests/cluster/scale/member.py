"""One Node's machine with its service: a real resident process with its own /sys, network, /run and kubelet folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import STATE
from tests.cluster.scale.steps import DONGLE, OURS, SEATS, SLOTS, OfNode, Reload, RestartService, SetDongles, SetSeats
from tests.cluster.scale.truth import Truth, disagreements
from tests.cluster.service import Service, service

# Mount a separate kubelet folder, even if no kubelet is installed.
_KUBELET = f"""
set -eu
if [ ! -d {STATE} ]; then
    mount -t tmpfs tmpfs "$1"
    mkdir "$1/upper" "$1/work"
    mount -t overlay -o "lowerdir=/var/lib,upperdir=$1/upper,workdir=$1/work" overlay /var/lib
    mkdir {STATE}
fi
mount --bind "$2" {STATE}
shift 2
exec "$@"
"""


class Member:
    """Created by member(): all resources are configured, and the service is not started. truth: the expected Node."""

    def __init__(self, made: Service, kubelet: Path, lower_after: str, resync: str) -> None:
        self.service = made
        self.truth = Truth(dongles=0, seats=5, resources=OURS, slots=3)
        self.lock = threading.RLock()
        """Protects truth and the attributes below, down to the history."""
        self.changed_at = time.monotonic()
        self.agrees = False
        """Whether the Node agreed with truth when it was last read."""
        self.disagreements: list[str] = []
        self.history: list[str] = []
        self._begun = self.changed_at
        self._settings = {"lower_after": lower_after, "resync": resync}
        self._kubelet = kubelet
        self._reload_due = False
        self._plug(2, events=False)
        self._write_seats()
        self._configure()
        self.note("begin")

    @property
    def name(self) -> str:
        return self.service.node

    def note(self, what: object) -> None:
        """Records that something has changed just now."""
        with self.lock:
            self.truth.remember()
            self.changed_at, self.agrees = time.monotonic(), False
            self.history.append(f"{self.changed_at - self._begun:8.2f} s  {what}")

    def compare(self, node: Mapping[str, Any], read_at: float) -> None:
        """Compares a Node with truth, unless it was read too early. read_at: when the request began, or earlier."""
        with self.lock:
            if read_at > self.changed_at:
                self.disagreements = disagreements(self.truth, node)
                self.agrees = not self.disagreements

    def apply(self, step: OfNode) -> None:
        """Carries out a step on the machine itself."""
        with self.lock:
            match step:
                case SetDongles(_, number):
                    self._plug(number)
                case SetSeats(_, number):
                    self.truth.seats = number
                    self._write_seats()
                case Reload(_, resources, slots):
                    self.truth.resources, self.truth.slots = resources, slots
                    self._configure()
                    self._reload_due = True
                case RestartService():
                    self._restart(step)
                case _:
                    self._make_socket()
            self.note(step)

    def start(self) -> None:
        """Starts the service, without waiting until it is ready."""
        self._reload_due = False
        self.service.start(ready=False, settled=False)

    def check(self) -> bool:
        """Sends a due reload once the service is ready, as systemd does. Returns whether no reload is due any more.

        Raises RuntimeError if the resident process has ended.
        """
        daemon = self.service.process
        assert daemon is not None
        if (ended := daemon.process.poll()) is not None:
            raise RuntimeError(f"the service of {self.name} ended with {ended}: {daemon.output()[-3000:]}")
        if self._reload_due and self.service.notifications.times("READY=1"):
            daemon.send(signal.SIGHUP)
            self._reload_due = False
        return not self._reload_due

    def reload(self) -> None:
        """Reloads the service, and waits until it has made a pass that reads everything again."""
        self.service.wait_notification("READY=1")  # the service may have been restarted just now
        self.service.reload()

    def _restart(self, step: RestartService) -> None:
        if step.kill:
            for pid in self.service.machine.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.service.stop(signal.SIGKILL)
        else:
            self.service.stop()
        if step.reboot:
            if self.service.runtime_directory.exists():  # else the service was killed before it began
                shutil.rmtree(self.service.runtime_directory)
            self._plug(step.dongles, events=False)
        self.start()

    def _plug(self, number: int, events: bool = True) -> None:
        machine, truth = self.service.machine, self.truth
        while truth.dongles < number:
            truth.dongles += 1
            machine.plug(f"1-{truth.dongles}", serial=f"S{truth.dongles}", events=events)
        while truth.dongles > number:
            machine.unplug(f"1-{truth.dongles}", events=events)
            truth.dongles -= 1

    def _write_seats(self) -> None:
        new = self.service.folder / "seats.new"
        new.write_text("no number" if self.truth.seats is None else str(self.truth.seats))
        new.rename(self.service.folder / "seats")

    def _configure(self) -> None:
        texts = {
            DONGLE: 'usb = { vendor = "0403" }',
            SEATS: f'file = {{ path = "{self.service.folder}/seats" }}',
            SLOTS: f"static = {{ quantity = {self.truth.slots} }}",
        }
        lines = [f'[resources."{name}"]\n{texts[name]}\n' for name in self.truth.resources]
        self.service.configure("".join(lines), **self._settings)

    def _make_socket(self) -> None:
        """Creates kubelet.sock anew, as a kubelet does when it starts."""
        path = self._kubelet / "device-plugins" / "kubelet.sock"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))


@contextmanager
def member(cluster: Cluster, name: str, lower_after: str, resync: str) -> Iterator[Member]:
    """The machine of this existing Node. lower_after, resync: settings of the service."""
    folders = [cluster.folder / f"{name}-{what}" for what in ("mounts", "kubelet")]
    for folder in folders:
        folder.mkdir()
    around: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _KUBELET, "sh", *folders]
    with service(cluster, node=name, around=around) as made:
        yield Member(made, folders[1], lower_after, resync)
