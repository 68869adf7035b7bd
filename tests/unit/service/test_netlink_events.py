"""Links and addresses as the kernel reports them, in new namespaces: which events wake the service and which don't."""

from __future__ import annotations

import json

import pytest

from tests.support.forked import can_be_alone, run_alone
from tests.support.kernel_events import PROGRAM, check_events

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")


def test_addresses() -> None:
    steps = {
        "ip address add 192.0.2.7/24 dev va": True,
        "ip address change 192.0.2.7/24 dev va valid_lft 4000 preferred_lft 3000": False,  # only its lifetime changes
        "ip address add 192.0.2.8/24 dev va": True,
        "ip address del 192.0.2.8/24 dev va": True,
        "ip address add 192.0.2.8/24 dev vb": True,
        "ip address add 2001:db8::7/64 dev va nodad": True,
        "ip link add name p1 type veth peer name p2; ip link set p1 up; ip link set p2 up": False,  # the link of a pod
        "ip link del p1": False,
        "ip link set va down": True,  # also removes the IPv6 addresses
        ":": False,
    }
    setup = "ip link add name va type veth peer name vb; ip link set va up; ip link set vb up"
    check_events("addresses", setup, steps)


LOST = """
import json, os, socket, subprocess
from capacityd.service.netlink_events import AddressEvents

def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], input="\\n".join(lines), text=True, check=True)

source = AddressEvents()
source._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
ip("address add 192.0.2.7/32 dev va")
received = [sorted(source.drain())]
many = [f"address add 10.0.{n}.1/24 dev va" for n in range(250)]
ip("address add 192.0.2.8/32 dev va", *many, "address del 192.0.2.7/32 dev va", "address del 192.0.2.8/32 dev va")
received.append(sorted(source.drain()))
for address in ("192.0.2.7/32", "192.0.2.8/32"):
    ip(f"address add {address} dev va")
    received.append(sorted(source.drain()))
print(json.dumps(received))
"""


def test_an_address_whose_removal_was_lost_is_new_again() -> None:
    """The removal was lost in an overflow. The address was known before, or its own event was in the full buffer."""
    assert json.loads(run_alone("ip link add name va type veth peer name vb", LOST)) == [["hardware"]] * 4


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("addresses", "for n in $(seq 1 250); do echo address add 10.0.$n.1/24 dev va scope link; done"),
        ("links", "for n in $(seq 1 999); do echo link set va mtu $((1000 + n % 2)); done"),
    ],
)
def test_an_overflow_starts_a_pass(source: str, lines: str) -> None:
    program = PROGRAM.replace("poll = select", "source._socket.setsockopt(1, 8, 1)\npoll = select")  # SO_RCVBUF
    steps = (f"+{lines} | ip -batch -", "-:", "+ip address add 192.0.2.7/32 dev lo; ip link set lo up")
    document = json.loads(run_alone("ip link add name va type veth peer name vb", program, source, *steps))
    assert document == [["hardware"], [], ["hardware"]]


def test_links() -> None:
    """Links that come, go, or change their name, size or state wake the service; pods' links and bridge ports don't."""
    steps = {
        "ip link add name br7 type bridge": True,
        "ip link set br7 up": True,
        "ip link set br7 mtu 1400": True,
        "ip link set br7 name br8": True,
        "ip link add name p1 type veth peer name p2": False,
        "ip link del p1": False,
        "ip link del br8": True,
        "bridge link set dev q1 cost 7": False,
        ":": False,
    }
    bridge = "ip link add name br9 type bridge; ip link add name q1 type veth peer name q2; ip link set q1 master br9"
    check_events("links", bridge, steps)
