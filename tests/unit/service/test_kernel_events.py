"""Which changes of links, addresses, routes, mounts and swap wake the service, in new namespaces of a real kernel.

Each step is a shell command, and whether it leads to an event. The command ":" changes nothing.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.forked import can_be_alone
from tests.support.kernel_events import PROGRAM, check_events

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")

VETH = "ip link add name va type veth peer name vb; ip link set va up; ip link set vb up"
TWO_NETWORKS = VETH + "; ip address add 192.0.2.7/24 dev va; ip address add 198.51.100.7/24 dev vb"


def test_each_change_of_a_link_is_an_event() -> None:
    steps = {
        "ip link add name br7 type bridge": True,
        "ip link set br7 up": True,
        "ip link set br7 mtu 1400": True,
        "ip link set br7 name br8": True,
        "ip link set va down": True,  # like a pulled cable
        "ip link del br8": True,
        "ip address add 192.0.2.7/24 dev va": False,
        ":": False,
    }
    check_events("links", VETH, steps)


def test_each_change_of_an_address_is_an_event() -> None:
    steps = {
        "ip address add 192.0.2.7/24 dev va": True,
        "ip address add 2001:db8::7/64 dev va nodad": True,
        "ip address del 192.0.2.7/24 dev va": True,
        "ip link set va down": True,  # also removes the IPv6 addresses
        "ip link add name br7 type bridge": False,
        ":": False,
    }
    check_events("addresses", VETH, steps)


def test_each_change_that_may_move_a_default_route_is_an_event() -> None:
    """The kernel removes some routes without a message about the route."""
    steps = {
        "ip route add default via 192.0.2.1": True,
        "ip route replace default via 198.51.100.1": True,
        "ip rule add table 77": True,
        "ip -6 rule add fwmark 7 table 77": True,
        "ip -6 route add default via fe80::1 dev va": True,
        "ip nexthop add id 1 via 192.0.2.1 dev va": True,
        "ip route replace default nhid 1": True,
        "ip nexthop replace id 1 via 198.51.100.1 dev vb": True,
        "ip nexthop add id 2 group 1": True,
        "ip -6 nexthop add id 3 via fe80::1 dev va; ip -6 route replace default nhid 3": True,
        "ip nexthop del id 1": True,
        "ip route add default via 198.51.100.1": True,
        "ip address del 198.51.100.7/24 dev vb": True,  # removes a route without a message about it
        "ip link del va": True,
        ":": False,
    }
    check_events("routes", TWO_NETWORKS, steps)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("addresses", "for n in $(seq 1 250); do echo address add 10.0.$n.1/24 dev va scope link; done"),
        ("links", "for n in $(seq 1 999); do echo link set va mtu $((1000 + n % 2)); done"),
        ("routes", "for n in $(seq 1 250); do echo route add 10.0.$n.0/24 dev va; done"),
    ],
)
def test_an_overflow_is_an_event_and_the_source_continues(source: str, lines: str) -> None:
    small_buffer = "source._socket.setsockopt(1, 8, 1)"  # SOL_SOCKET, SO_RCVBUF, one byte
    program = PROGRAM.replace("poll = select", f"{small_buffer}\npoll = select")
    steps = {f"{lines} | ip -batch -": True, ":": False, "ip address add 192.0.2.7/32 dev lo; ip link set lo up": True}
    check_events(source, VETH, steps, program)


def test_each_mount_is_an_event() -> None:
    """A bind mount may move the node's data to another disk."""
    steps = {
        "mkdir f b; mount -t tmpfs tmpfs $PWD/f": True,
        "mount --bind f $PWD/b": True,
        "mount -o remount,bind,ro $PWD/f": True,
        "umount $PWD/b": True,
        "touch b/x": False,
        ":": False,
    }
    check_events("mounts", "mount -t tmpfs x /mnt; cd /mnt", steps)


def test_swap_that_comes_or_goes_is_an_event(tmp_path: Path) -> None:
    area = tmp_path / "a swap"
    area.write_bytes(bytes(1 << 20))
    area.chmod(0o600)
    subprocess.run(["mkswap", area], check=True, capture_output=True)
    try:
        if subprocess.run(["swapon", area], capture_output=True, check=False).returncode:
            pytest.skip("needs the right to swap to a file")
        subprocess.run(["swapoff", area], check=True)
        steps = {f"swapon '{area}'": True, f"swapoff '{area}'": True}
        check_events("swaps", setup="true", steps=steps)
    finally:
        subprocess.run(["swapoff", area], capture_output=True, check=False)
