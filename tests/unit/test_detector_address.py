"""What facts of addresses the detector must know; the kernel's own, in a network namespace, at the end."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from capacityd.errors import HostError
from capacityd.host.addresses import addresses as kernel_addresses
from capacityd.host.netlink import attribute
from capacityd.host.recorded import RecordedHost
from capacityd.model import Absent, Unknown
from tests.unit.forked import can_be_alone, run_alone
from tests.unit.looking import counted, look, values
from tests.unit.machines import Recording, machine, merge, nic, pci_nic, routes


def addresses(*found: tuple[str, str, str, int, str, bool]) -> Recording:
    return {"addresses": [list(one) for one in found]}


PARTS = (
    pci_nic("eth0"),
    nic("eth1", number=3),
    nic("lo", number=1),
    routes("eth0"),
    addresses(
        ("eth0", "ipv4", "192.0.2.7", 24, "global", False),
        ("eth0", "ipv6", "2001:db8::7", 64, "global", False),
        ("eth0", "ipv6", "2001:db8::abcd", 64, "global", True),
        ("eth0", "ipv6", "fe80::1", 64, "link", False),
        ("eth1", "ipv4", "198.51.100.4", 28, "global", False),
        ("eth1", "ipv4", "198.51.100.5", 28, "global", False),
        ("lo", "ipv4", "127.0.0.1", 8, "host", False),
    ),
)
HOST = machine(*PARTS)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ["eth0 192.0.2.7/24", "eth0 2001:db8::7/64", "eth1 198.51.100.4/28", "eth1 198.51.100.5/28"]),
        ({"interface": "eth1"}, ["eth1 198.51.100.4/28", "eth1 198.51.100.5/28"]),
        ({"interface": ["eth0", "x*"], "family": "ipv4"}, ["eth0 192.0.2.7/24"]),
        ({"address": "198.51.100.5"}, ["eth1 198.51.100.5/28"]),
        ({"address": ["198.51.100.0/30", "192.0.2.0/24"]}, ["eth0 192.0.2.7/24"]),
        ({"address": "198.51.100.4/30"}, ["eth1 198.51.100.4/28", "eth1 198.51.100.5/28"]),
        ({"address": "2001:db8::/32"}, ["eth0 2001:db8::7/64"]),
        ({"address": "2001:db8::/32", "temporary": True}, ["eth0 2001:db8::abcd/64"]),
        ({"scope": "link"}, ["eth0 fe80::1/64"]),
        ({"scope": "site"}, []),
        ({"scope": ["link", "host"]}, ["eth0 fe80::1/64", "lo 127.0.0.1/8"]),
        ({"system": False}, ["eth1 198.51.100.4/28", "eth1 198.51.100.5/28"]),
        ({"system": True, "family": "ipv6"}, ["eth0 2001:db8::7/64"]),
        ({"interface": "eth2"}, []),
    ],
)
def test_matches(asked: dict[str, object], found: list[str]) -> None:
    assert counted(HOST, "address", asked) == found


def test_less_some() -> None:
    assert counted(HOST, "address", {"interface": "eth1"}, excepts=({"address": "198.51.100.4"},)) == [
        "eth1 198.51.100.5/28"
    ]


def test_an_attribute_is_the_interfaces() -> None:
    assert values(HOST, "address", "attributes.operstate")["eth1 198.51.100.4/28"] == "up"


def test_a_machine_without_addresses_has_none_and_one_that_cannot_tell_is_unknown() -> None:
    assert isinstance(look(machine(addresses()), "address"), Absent)
    assert isinstance(look(machine(), "address"), Unknown)
    refused = merge(*PARTS, {"unknown": {"addresses": ["EPERM", "the addresses could not be read"]}})
    assert isinstance(look(RecordedHost(refused), "address"), Unknown)


def test_the_routes_are_read_once_for_all_addresses() -> None:
    host, asked = machine(*PARTS), []
    found = host.default_interfaces()
    host.default_interfaces = lambda: (asked.append(1), found)[1]  # type: ignore[method-assign,func-returns-value]
    assert len(counted(host, "address", {"system": False})) == 2
    assert asked == [1]


def test_without_a_default_route_it_is_unknown_which_are_the_systems() -> None:
    host = RecordedHost(merge(*PARTS, {"default_interfaces": []}))
    assert isinstance(look(host, "address", {"system": False}), Unknown)
    assert len(counted(host, "address")) == 4


LIVE = """
import json
import struct
from capacityd.host.live import LiveHost
print(json.dumps([[a.interface, a.family, a.address, a.prefix, a.scope, a.temporary] for a in LiveHost().addresses()]))
"""
SETUP = """
ip link set lo up
ip link add name va type veth peer name vb
ip link set va up; ip link set vb up
ip address add 192.0.2.7/24 dev va
ip address add 192.0.2.8/24 dev va
ip address add 198.51.100.1 peer 198.51.100.2/32 dev va
ip address add 2001:db8::7/64 dev va nodad
ip address add fec0::1/64 dev vb nodad"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_the_kernels_own() -> None:
    """A second address of the same network is as good as the first; of a point-to-point link our end counts."""
    found: list[Any] = json.loads(run_alone(SETUP, LIVE))
    assert [one for one in found if one[4] != "link"] == [
        ["lo", "ipv4", "127.0.0.1", 8, "host", False],
        ["lo", "ipv6", "::1", 128, "host", False],
        ["va", "ipv4", "192.0.2.7", 24, "global", False],
        ["va", "ipv4", "192.0.2.8", 24, "global", False],
        ["va", "ipv4", "198.51.100.1", 32, "global", False],
        ["va", "ipv6", "2001:db8::7", 64, "global", False],
        ["vb", "ipv6", "fec0::1", 64, "site", False],
    ]
    assert {one[2][:5] for one in found if one[4] == "link"} == {"fe80:"}


@pytest.mark.parametrize(
    ("family", "flags", "scope", "found"),
    [
        (2, 0x01, 0, ("192.0.2.7", "global", False)),  # a second one of its network
        (2, 0x08, 0, ("192.0.2.7", "global", False)),
        (10, 0x01, 0, ("2001:db8::7", "global", True)),
        (10, 0x08, 0, None),  # another machine has it
        (10, 0x80, 253, ("2001:db8::7", "link", False)),
        (10, 0x80, 77, ("2001:db8::7", "77", False)),
        (7, 0x80, 0, None),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_what_the_kernel_says_of_an_address(
    family: int,
    flags: int,
    scope: int,
    found: tuple[str, str, bool] | None,
    wide: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """wide: the flags stand in an attribute, as there are more than eight by now."""
    raw = bytes([192, 0, 2, 7]) if family == 2 else bytes.fromhex("20010db8000000000000000000000007")
    said = struct.pack("BBBBi", family, 24, 0x100 - 1 - flags if wide else flags, scope, 1) + attribute(1, raw)
    said += attribute(8, struct.pack("I", flags | 0x100)) if wide else b""
    monkeypatch.setattr("capacityd.host.addresses.ask", lambda *_: [(20, said), (16, said)])
    assert [(a.interface, a.address, a.scope, a.temporary) for a in kernel_addresses()] == (
        [("lo", *found)] if found else []
    )


def test_an_address_of_an_interface_that_went_away_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    said = struct.pack("BBBBi", 2, 24, 0x80, 0, 2**30)
    monkeypatch.setattr("capacityd.host.addresses.ask", lambda *_: [(20, said)])
    assert kernel_addresses() == [], "it has none"
    monkeypatch.setattr("capacityd.host.addresses.ask", lambda *_: [(20, said + attribute(1, bytes(4)))])
    with pytest.raises(HostError, match="an interface went away while addresses were read: No such device"):
        kernel_addresses()
