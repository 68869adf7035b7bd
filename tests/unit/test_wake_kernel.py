"""Addresses and mounts as the kernel tells of them, in namespaces of their own: what wakes, and what does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.forked import can_be_alone, run_alone

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")

PROGRAM = """
import json, select, subprocess, sys
from capacityd.wake.kernel import AddressEvents, MountEvents
source = {"addresses": AddressEvents, "mounts": MountEvents}[sys.argv[1]]()
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


def test_an_overflow_counts() -> None:
    many = "for n in $(seq 1 250); do echo address add 10.0.$n.1/24 dev va; done | ip -batch -"
    program = PROGRAM.replace("poll = select", "source._socket.setsockopt(1, 8, 1)\npoll = select")  # SO_RCVBUF
    found = json.loads(run_alone("ip link add name va type veth peer name vb", program, "addresses", f"+{many}", "-:"))
    assert found == [["hardware"], []]


def test_mounts() -> None:
    steps = {
        "mount -t tmpfs tmpfs $PWD/t": False,  # memory
        "mkdir t/var; mount -t proc proc $PWD/t/var": False,
        "mount --bind / $PWD/t": True,
        "umount $PWD/t": True,
        "umount $PWD/t/var $PWD/t": False,
        ":": False,
    }
    setup = 'cd "$(mktemp -d)"; mount -t tmpfs x "$PWD"; cd "$PWD"; mkdir t'
    hears("mounts", setup, steps)


def test_a_pods_volume_wakes_nobody() -> None:
    setup = "mkdir -p /var/lib/kubelet; mount -t tmpfs kubelet /var/lib/kubelet; mkdir -p /var/lib/kubelet/pods/x"
    steps = ("mount --bind /usr /var/lib/kubelet/pods/x", "umount /var/lib/kubelet/pods/x")
    hears("mounts", setup, dict.fromkeys(steps, False))
