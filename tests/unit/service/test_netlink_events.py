"""Links, addresses and mounts as the kernel reports them, in namespaces of their own: what wakes, and what does not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capacityd.detectors import load
from capacityd.host.recording.replay import RecordedHost
from capacityd.linux import filesystems
from capacityd.linux.mountinfo import TABLE
from capacityd.model.device import DeviceDetector
from capacityd.service import netlink_events
from tests.support.forked import can_be_alone, run_alone

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")

PROGRAM = """
import json, select, subprocess, sys
from capacityd.service.netlink_events import AddressEvents, LinkEvents, MountEvents
source = {"addresses": AddressEvents, "links": LinkEvents, "mounts": MountEvents}[sys.argv[1]]()
poll = select.poll()
poll.register(source.fileno(), select.POLLIN)
said = []
for step in sys.argv[2:]:
    wanted, command = step[0] == "+", step[1:]
    subprocess.run(["sh", "-ec", command], check=True)
    reasons = set()
    # The kernel tells of most before the command ends, but of an IPv6 address a moment later.
    while poll.poll(10_000 if wanted and not reasons else 0):
        reasons |= source.drain()
    said.append(sorted(reasons))
source.close()
print(json.dumps(said))
"""


def hears(source: str, setup: str, steps: Mapping[str, bool]) -> None:
    """Whether each command is a reason to look again."""
    found: list[Any] = json.loads(run_alone(setup, PROGRAM, source, *_marked(steps)))
    assert dict(zip(steps, found, strict=True)) == {step: ["hardware"] * wakes for step, wakes in steps.items()}


def _marked(steps: Mapping[str, bool]) -> list[str]:
    return [f"{'+' if wakes else '-'}{step}" for step, wakes in steps.items()]


def test_addresses() -> None:
    steps = {
        "ip address add 192.0.2.7/24 dev va": True,
        "ip address change 192.0.2.7/24 dev va valid_lft 4000 preferred_lft 3000": False,  # it only lives longer
        "ip address add 192.0.2.8/24 dev va": True,
        "ip address del 192.0.2.8/24 dev va": True,
        "ip address add 192.0.2.8/24 dev vb": True,
        "ip address add 2001:db8::7/64 dev va nodad": True,
        "ip link add name p1 type veth peer name p2; ip link set p1 up; ip link set p2 up": False,  # a pod's link
        "ip link del p1": False,
        "ip link set va down": True,  # takes the IPv6 addresses along
        ":": False,
    }
    setup = "ip link add name va type veth peer name vb; ip link set va up; ip link set vb up"
    hears("addresses", setup, steps)


LOST = """
import json, os, socket, subprocess
from capacityd.service.netlink_events import AddressEvents

def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], input="\\n".join(lines), text=True, check=True)

source = AddressEvents()
source._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
ip("address add 192.0.2.7/32 dev va")
said = [sorted(source.drain())]
many = [f"address add 10.0.{n}.1/24 dev va" for n in range(250)]
ip("address add 192.0.2.8/32 dev va", *many, "address del 192.0.2.7/32 dev va", "address del 192.0.2.8/32 dev va")
said.append(sorted(source.drain()))
for address in ("192.0.2.7/32", "192.0.2.8/32"):
    ip(f"address add {address} dev va")
    said.append(sorted(source.drain()))
print(json.dumps(said))
"""


def test_an_address_whose_removal_was_lost_is_new_again() -> None:
    """It may be one that was known long before, or one that waited in the socket when that overflowed."""
    assert json.loads(run_alone("ip link add name va type veth peer name vb", LOST)) == [["hardware"]] * 4


def test_an_overflow_counts() -> None:
    many = "for n in $(seq 1 250); do echo address add 10.0.$n.1/24 dev va; done | ip -batch -"
    program = PROGRAM.replace("poll = select", "source._socket.setsockopt(1, 8, 1)\npoll = select")  # SO_RCVBUF
    found = json.loads(run_alone("ip link add name va type veth peer name vb", program, "addresses", f"+{many}", "-:"))
    assert found == [["hardware"], []]


def test_mounts() -> None:
    """Each that a detector can count: of disks, in memory, of layers, of a program; none that is for pods."""
    steps = {
        "mount -t tmpfs tmpfs $PWD/t": True,
        "mkdir t/var; mount -t proc proc $PWD/t/var": True,
        "mount -o remount,size=1M $PWD/t": True,
        "mount --bind / $PWD/t": True,
        "umount $PWD/t": True,
        "umount $PWD/t/var $PWD/t": True,
        'mkdir "a b"; mount -t tmpfs tmpfs "$PWD/a b"; umount "$PWD/a b"': False,  # over before it is looked at
        "mkdir lower upper work; mount -t overlay x -o lowerdir=lower,upperdir=upper,workdir=work $PWD/t": True,
        "touch ns; unshare --net=$PWD/ns true": False,  # as each pod's network is kept
        "mkdir -p docker/overlay2/x/merged; mount -t tmpfs x $PWD/docker/overlay2/x/merged": False,
        ":": False,
    }
    setup = 'cd "$(mktemp -d)"; mount -t tmpfs x "$PWD"; cd "$PWD"; mkdir t'
    hears("mounts", setup, steps)


@pytest.mark.parametrize(
    "point", ["/data", "/var/lib/kubelet/pods/1/volumes/x", "/run/k3s/containerd/io.containerd.x/y"]
)
def test_every_file_system_that_is_counted_is_heard_of(tmp_path: Path, point: str) -> None:
    """Whatever its type and kind: also those that this kernel can't mount, such as Lustre and virtiofs."""
    types = [*filesystems._TYPES, "fuse.sshfs", "fuse.s3fs", "ext4", "xfs", "vfat", "devtmpfs", "proc", "unheard-of"]
    lines = [f"{n} 1 0:{n} / {point}/{n} rw - {kind} source rw\n" for n, kind in enumerate(types, 30)]
    (tmp_path / "mountinfo").write_text("".join(lines))
    detector = load("filesystem")
    assert isinstance(detector, DeviceDetector)
    counted = {d.name for d in detector.find(RecordedHost({"files": {TABLE: "".join(lines)}}))}
    file = os.open(tmp_path / "mountinfo", os.O_RDONLY)
    try:
        heard = {mount.point for mount in netlink_events._relevant_mounts(file)}
    finally:
        os.close(file)
    assert heard == counted
    assert len(counted) == (len(types) - 1 if point == "/data" else 0)  # a mounted namespace is no storage


def test_mounts_of_the_kernels_own_types() -> None:
    """All that this kernel can mount without a server, a disk or a module."""
    with open("/proc/filesystems") as f:
        known = {line.split()[1] for line in f if line.startswith("nodev")}
    steps: dict[str, bool] = {}
    for kind in sorted(known & {"tmpfs", "ramfs", "mqueue", "bpf"}):
        steps |= {f"mount -t {kind} x $PWD/t # {kind}": True, f"umount $PWD/t # {kind}": True}
    assert len(steps) >= 4
    hears("mounts", 'cd "$(mktemp -d)"; mount -t tmpfs x "$PWD"; cd "$PWD"; mkdir t', steps)


def test_links() -> None:
    """Their coming and going, names, sizes, and which is up; those of pods' links wake nobody."""
    steps = {
        "ip link add name br7 type bridge": True,
        "ip link set br7 up": True,
        "ip link set br7 mtu 1400": True,
        "ip link set br7 name br8": True,
        "ip link add name p1 type veth peer name p2": False,
        "ip link del p1": False,
        "ip link del br8": True,
        ":": False,
    }
    hears("links", "true", steps)


FUSE = """
import os, subprocess, sys, tempfile
from capacityd.detectors import load
from capacityd.host.live import LiveHost
from capacityd.service.netlink_events import MountEvents
from tests.support.fuse import mounted

point = tempfile.mkdtemp()
events = MountEvents()
with mounted(point, sys.argv[1]):
    print(events.drain(), [d.cached_values["kind"] for d in load("filesystem").find(LiveHost()) if d.name == point])
print(events.drain())
"""


@pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse")
@pytest.mark.parametrize("program", ["sshfs", "glusterfs", "lustre"])
def test_mounts_of_programs(program: str) -> None:
    """Nobody serves them, and nobody asks."""
    assert run_alone("true", FUSE, program).splitlines() == ["{'hardware'} ['network']", "{'hardware'}"]


def test_a_pods_volume_wakes_nobody() -> None:
    setup = "mkdir -p /var/lib/kubelet; mount -t tmpfs kubelet /var/lib/kubelet; mkdir -p /var/lib/kubelet/pods/x"
    steps = ("mount --bind /usr /var/lib/kubelet/pods/x", "umount /var/lib/kubelet/pods/x")
    hears("mounts", setup, dict.fromkeys(steps, False))
