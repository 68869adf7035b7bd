"""A simulated machine in namespaces: a /sys that tests can change, udev events and network interfaces.

It has no real devices and no udevd. To plug in a device means to write it to /sys and to send the events of udevd.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.netlink import UdevSender
from tests.cluster.processes import PATIENCE, TIED_TO_US, Daemon, wait_until
from tests.support.machines import Recording, bare, merge, usb_device, usb_path, write_tree

UDEV = "run/udev"
_PROXY = "/usr/lib/systemd/systemd-socket-proxyd"

# $1: the tree. /run is separate, so that udev's folder is not created on the machine itself.
_MOUNTS = """
set -eu
mount --bind "$1/sys" /sys
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/udev
mount --bind "$1/run/udev" /run/udev
ip link set lo up
echo mounted
exec sleep infinity
"""


class Machine:
    """A simulated machine. machine() creates it, and ends all its processes."""

    def __init__(self, folder: Path, parts: Sequence[Recording], around: Sequence[str | Path]):
        self._folder = folder
        self.tree = folder / "tree"
        write_tree(merge(bare(), *parts), str(self.tree))
        unshare = ["unshare", "--mount", "--propagation", "private", "--net"]
        self._daemon = Daemon([*around, *unshare, "sh", "-c", _MOUNTS, "sh", self.tree], folder / "machine.log")
        self._daemon.wait_for_line("mounted", PATIENCE)
        self._udev = UdevSender(self.network)
        self._forwarders: dict[int, Daemon] = {}

    @property
    def network(self) -> Path:
        """Its network namespace."""
        return Path(f"/proc/{self._daemon.pid}/ns/net")

    def inside(self, command: Sequence[str | Path]) -> list[str | Path]:
        """Wraps a command to run on the machine."""
        return ["nsenter", f"--mount=/proc/{self._daemon.pid}/ns/mnt", f"--net={self.network}", *command]

    def run(self, *command: str | Path) -> str:
        """Runs a command on the machine until it ends. Returns its output."""
        done = subprocess.run([*TIED_TO_US, *self.inside(command)], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def plug(
        self, port: str, serial: str = "A17", vendor: str = "0403", events: bool = True, device: Recording | None = None
    ) -> None:
        """Plugs in a USB device (default: a serial adapter), and sends the events of a simple device."""
        device_number = 2 + int(port[-1])
        write_tree(device or usb_device(port, vendor, serial=serial, number=device_number), str(self.tree))
        if events:
            path = usb_path(port)
            self._send(path, [("add", ""), ("change", ""), ("add", f"/{port}:1.0"), ("bind", f"/{port}:1.0")])
            self._send(path, [("bind", "")])

    def unplug(self, port: str, events: bool = True) -> None:
        """Unplugs a USB device and sends the events of its removal."""
        path, bus = usb_path(port), self.tree / "sys/bus/usb/devices"
        for name in (port, f"{port}:1.0"):
            (bus / name).unlink()
        shutil.rmtree(f"{self.tree}{path}")
        if events:
            self._send(path, [("unbind", f"/{port}:1.0"), ("remove", f"/{port}:1.0"), ("unbind", ""), ("remove", "")])

    def forward(self, port: int) -> None:
        """From now on, connections on the machine to 127.0.0.1:PORT reach the same port outside.

        So addresses, certificates and kubeconfigs are valid on both sides.
        """
        outside = ["nsenter", f"--net=/proc/{os.getpid()}/ns/net", _PROXY, f"127.0.0.1:{port}"]
        listen = ["nsenter", f"--net={self.network}", "systemd-socket-activate", f"--listen=127.0.0.1:{port}"]
        forwarder = self._forwarders[port] = Daemon([*listen, *outside], self._folder / f"forward-{port}.log")
        forwarder.wait_for_line(f"Listening on 127.0.0.1:{port} as 3.", PATIENCE)  # 3: the first file descriptor

    def refuse(self, port: int) -> None:
        """Undoes forward(): refuses new connections to this port, and breaks the open ones."""
        self._forwarders.pop(port).stop()

    def processes(self) -> list[int]:
        """All processes in the machine's network namespace, with orphans, but without the daemons of this object."""
        own_daemons = {self._daemon.pid, *(forwarder.pid for forwarder in self._forwarders.values())}
        pids = []
        ours = os.stat(self.network).st_ino
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.stat(f"/proc/{entry}/ns/net").st_ino == ours:
                    pids.append(int(entry))
            except OSError:
                continue  # it has ended
        return [pid for pid in pids if pid not in own_daemons]

    def end(self) -> None:
        for port in list(self._forwarders):
            self.refuse(port)
        self._udev.close()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        wait_until(lambda: not self.processes(), PATIENCE, "nothing runs on the machine any more")
        self._daemon.stop()

    def _send(self, path: str, events: Sequence[tuple[str, str]]) -> None:
        """Sends events: for each, the action, and the path of an interface below the device ("": the device itself)."""
        for action, below in events:
            self._udev.send(action, path + below, "usb", "usb_interface" if below else "usb_device")


@contextmanager
def machine(folder: Path, *parts: Recording, around: Sequence[str | Path] = ()) -> Iterator[Machine]:
    """A machine with these devices. around: a command that enters namespaces which it shares, such as a kubelet's."""
    with ExitStack() as stack:
        new_machine = Machine(folder, parts, around)
        stack.callback(new_machine.end)
        yield new_machine
