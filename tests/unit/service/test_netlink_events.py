"""Links and addresses as the kernel reports them, in new namespaces: which events wake the service and which don't."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path

import pytest

from capacityd.linux.netlink import attribute
from capacityd.model.event_filters import ALL_EVENTS, AddressPattern, EventFilters, LinkFilter, Pattern
from capacityd.service import netlink_events
from capacityd.service.netlink_events import AddressEvents, LinkEvents
from tests.support.forked import can_be_alone, run_alone
from tests.support.kernel_events import PROGRAM, check_events, written

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")


def test_addresses_that_come_or_go_start_a_pass() -> None:
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
from capacityd.model.event_filters import ALL_EVENTS
from capacityd.service.netlink_events import AddressEvents

def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], input="\\n".join(lines), text=True, check=True)

source = AddressEvents(ALL_EVENTS.addresses)
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
    assert json.loads(run_alone("ip link add name va type veth peer name vb", LOST)) == [["addresses"]] * 4


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
    document = json.loads(
        run_alone("ip link add name va type veth peer name vb", program, source, written(ALL_EVENTS), *steps)
    )
    assert document == [[source], [], [source]]


BRIDGE = "ip link add name br9 type bridge; ip link add name q1 type veth peer name q2; ip link set q1 master br9"


def test_links_that_come_go_or_change_start_a_pass() -> None:
    """Links that come, go, or change their name, size or state wake the service; bridge ports don't."""
    steps = {
        "ip link add name br7 type bridge": True,
        "ip link set br7 up": True,
        "ip link set br7 mtu 1400": True,
        "ip link set br7 name br8": True,
        "ip link add name p1 type veth peer name p2": True,
        "ip link del br8": True,
        "bridge link set dev q1 cost 7": False,
        ":": False,
    }
    check_events("links", BRIDGE, steps)


def test_only_links_of_the_counted_kinds_and_names_start_a_pass() -> None:
    steps = {
        "ip link add name br7 type bridge": True,
        "ip link add name p1 type veth peer name p2": False,
        "ip link add name vip0 type ifb": True,
        "ip link set vip0 up": True,
        "ip link set vip0 down; ip link set vip0 name x0": True,
        "ip link set x0 up": False,
        "ip link set br9 mtu 1400": True,  # it was there before
        "ip link del p1; ip link del x0": False,
    }
    software = (Pattern("bridge"), Pattern("virtual", "vip*"))
    check_events("links", BRIDGE, steps, EventFilters(links=LinkFilter(software)))


@pytest.mark.parametrize("system", [False, True])
def test_the_links_of_pods_concern_nobody_who_counts_ports(system: bool) -> None:
    """A hundred pods: each with a veth pair, or with a link that has another namespace's end, on a bridge."""
    made = "ip link add name h$n type veth peer name p$n netns pod; ip link set h$n master br9; ip link set h$n up"
    others = "ip link add name d$n type ifb; ip link set d$n up; ip link add link br9 name m$n type macvlan"
    steps = {
        f"ip netns add pod; for n in $(seq 1 100); do {made}; done": False,
        f"for n in $(seq 1 50); do {others}; ip link set m$n netns pod; done": False,
        "ip netns del pod; for n in $(seq 1 50); do ip link del d$n; done": False,
        "ip link set lo up": True,  # it has no driver's kind, so it may be hardware
    }
    run = "mount -t tmpfs x /run; ip link set lo down; " + BRIDGE
    check_events("links", run, steps, EventFilters(links=LinkFilter(system=system)), many=True)


@pytest.mark.parametrize("link_local", [True, False])
def test_link_local_addresses_concern_those_who_count_them(link_local: bool) -> None:
    steps = {
        "ip address add 169.254.7.7/16 dev va scope link": link_local,
        "ip address del 169.254.7.7/16 dev va": link_local,
        "ip address add 192.0.2.7/24 dev va": True,
    }
    filters = EventFilters(addresses=(AddressPattern(link_local=link_local),))
    check_events("addresses", "ip link add name va type ifb", steps, filters)


def test_an_address_that_turns_out_to_be_a_duplicate_is_a_change() -> None:
    """The kernel adds an address as tentative, and reports a second later that another machine uses it."""
    addresses = AddressEvents((AddressPattern(),))

    def is_relevant(event: int, flags: int) -> bool:
        head = struct.pack("BBBBi", socket.AF_INET6, 64, flags, 0, 1)
        return addresses._is_relevant(event, head + attribute(1, socket.inet_pton(socket.AF_INET6, "2001:db8::7")))

    tentative, preferred, failed = 0x40, 0x80, 0x48
    assert [is_relevant(20, flags) for flags in (tentative, preferred, failed, failed)] == [True, False, True, False]
    assert is_relevant(21, failed)
    assert is_relevant(20, tentative)
    addresses.close()


ROUTES = {
    "ip route add default via 192.0.2.1": True,
    "ip route add 10.0.0.0/8 via 192.0.2.1; ip route add 10.1.2.3 dev va": False,  # as network plugins add for pods
    "ip route replace default via 198.51.100.1": True,
    "ip route add 0.0.0.0/1 via 192.0.2.1": True,
    "ip -6 route add default via fe80::1 dev va": True,
    "ip rule add table 77": True,
    "ip -6 rule add fwmark 7 table 77": True,
    "ip rule add from 10.1.2.3 table 77; ip rule add to 10.1.2.3 table main": False,
    "ip route del default": True,
    "ip route add default via 192.0.2.1 table 77": True,  # as in the table of a VRF
}


@pytest.mark.parametrize("system", [False, True])
def test_routes_for_all_addresses_concern_those_who_count_the_systems_ports(system: bool) -> None:
    """A default route may come, go or change its interface without a change of a link."""
    setup = "ip link add name va type veth peer name vb; ip link set va up; ip link set vb up; "
    setup += "ip address add 192.0.2.7/24 dev va; ip address add 198.51.100.7/24 dev vb"
    steps = {step: wakes and system for step, wakes in ROUTES.items()}
    check_events("links", setup, steps, EventFilters(links=LinkFilter(system=system)))


def test_only_addresses_of_the_counted_networks_and_interfaces_start_a_pass() -> None:
    steps = {
        "ip address add 192.0.2.7/32 dev va": True,
        "ip address add 198.51.100.7/32 dev va": False,
        "ip address add 192.0.2.8/32 dev vb": False,
        "ip address add 2001:db8::7/64 dev vb nodad": True,
        "ip address del 192.0.2.8/32 dev vb": False,
        "ip address add 2001:db9::7/64 dev vb nodad": False,
        "ip link del va": True,
    }
    addresses = (AddressPattern("192.0.2.0/24", "va"), AddressPattern("2001:db8::/32"))
    setup = "ip link add name va type ifb; ip link add name vb type ifb; ip link set va up; ip link set vb up"
    check_events("addresses", setup, steps, EventFilters(addresses=addresses))


@pytest.mark.parametrize("system", [True, False])
def test_what_rests_on_hardware_may_carry_a_default_route(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: bool
) -> None:
    monkeypatch.setattr(netlink_events, "_NETS", str(tmp_path))
    for folder in (
        "eth0/device",
        "bond0/lower_eth0",
        "vlan7/lower_bond0",
        "cni0/lower_veth1",
        "veth1",
        "loop/lower_loop",
    ):
        (tmp_path / folder).mkdir(parents=True)
    links = LinkEvents(LinkFilter(system=system))
    assert links._is_relevant(16, link_message("vlan7", "vlan")) is system
    assert links._is_relevant(16, link_message("eth0", "can"))
    for name, kind in (("lxc1", "netkit"), ("d0", "dummy"), ("veth1", "veth"), ("tun0", "tun")):
        assert not links._is_relevant(16, link_message(name, kind))
    for name in ("cni0", "loop", "gone"):
        assert not links._is_relevant(16, link_message(name, "bridge"))
    links.close()


def link_message(name: str, kind: str) -> bytes:
    info = attribute(18, attribute(1, kind.encode()))
    return bytes(4) + (7).to_bytes(4, "little") + bytes(8) + attribute(3, name.encode() + b"\0") + info
