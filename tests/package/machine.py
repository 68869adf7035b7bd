"""A machine without its own hardware: Debian under its own systemd, in namespaces. It ends with the test run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes import PATIENCE, Daemon, wait_until, workspace
from tests.package.console import Console
from tests.package.trees import tree

_BOOT = Path(__file__).with_name("boot")
# Creates a TAP device with the name in the first argument. The constants are those of linux/if_tun.h.
_TAP = """
import fcntl, signal, struct, sys
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
tun = open("/dev/net/tun", "r+b", 0)
ifreq = struct.pack("16sH22x", sys.argv[1].encode(), IFF_TAP | IFF_NO_PI)  # the name, the flags, and padding
fcntl.ioctl(tun, TUNSETIFF, ifreq)
signal.pause()
"""


class Machine(Console):
    """A running machine. init: the machine's PID 1 seen from outside. Commands enter its namespaces."""

    def __init__(self, init: int) -> None:
        self.init = init

    def execute(self, command: list[str], text: str, deadline: float) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", "--target", str(self.init), "--all"]
        return subprocess.run([*enter, *command], input=text, capture_output=True, text=True, timeout=deadline)


@contextmanager
def machine(release: str) -> Iterator[Machine]:
    """A machine of this release that has booted without a failed unit."""
    with workspace() as folder, _cgroup(folder.name) as cgroup:
        top = folder / "machine"
        top.mkdir()
        with Daemon([_BOOT, tree(release), top, cgroup], folder / "machine.log") as daemon:
            init = daemon.wait_for(lambda: _child(daemon.pid), PATIENCE, "it has a PID 1")
            running = Machine(init)
            daemon.wait_for(lambda: _up(running), PATIENCE, "it is up")
            assert running.out("systemctl", "is-system-running") == "running", running.out("systemctl", "--failed")
            yield running


@contextmanager
def tap(machine: Machine, name: str) -> Iterator[None]:
    """Gives the machine a NIC with a carrier and a speed (a TAP device, which a process keeps open)."""
    machine.run("systemd-run", f"--unit={name}", "/usr/bin/python3", "-Ic", _TAP, name)
    machine.run("udevadm", "wait", f"/sys/class/net/{name}")
    machine.run("ip", "link", "set", name, "up")
    try:
        yield
    finally:
        machine.run("systemctl", "stop", name)


@contextmanager
def _cgroup(name: str) -> Iterator[Path]:
    """A new cgroup below ours, as the machine's root. With a common root, machines would end each other's services."""
    mounted = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    root = next(where for _, where, kind, *_ in mounted if kind == "cgroup2")
    ours = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    cgroup = Path(root + ours.removeprefix("0::"), name)
    cgroup.mkdir()
    try:
        yield cgroup
    finally:
        wait_until(lambda: "populated 0" in (cgroup / "cgroup.events").read_text(), PATIENCE, f"{cgroup} is empty")
        for folder in [*sorted((path for path in cgroup.rglob("*") if path.is_dir()), reverse=True), cgroup]:
            folder.rmdir()


def _child(pid: int) -> int:
    """The PID of unshare's child. 0: it has not started systemd yet."""
    try:
        child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child[0]) if child and Path(f"/proc/{child[0]}/comm").read_text() == "systemd\n" else 0
    except OSError:
        return 0


def _up(machine: Machine) -> bool:
    output = machine.run("systemctl", "is-system-running", "--wait", status=None).stdout.strip()
    return output in ("running", "degraded")
