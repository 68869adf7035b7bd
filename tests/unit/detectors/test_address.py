"""Which addresses of network interfaces count."""

from __future__ import annotations

import pytest

from capacityd.host.recording.replay import RecordedHost
from capacityd.model.reading import Absent, Unknown
from capacityd.model.text import printable
from tests.support.machines import Recording, machine, merge, nic, pci_nic, routes
from tests.support.readings import counted, read, values


def addresses(*fields: tuple[str, str, str, int, str, bool]) -> Recording:
    """Addresses: the interface, the family, the address, the prefix length, the scope, and whether it is temporary."""
    return {"addresses": [list(one) for one in fields]}


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
    ("keys", "names"),
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
        ({"scope": ["link", "host"]}, ["eth0 fe80::1/64", "lo 127.0.0.1/8"]),
        ({"system": False}, ["eth1 198.51.100.4/28", "eth1 198.51.100.5/28"]),
        ({"system": True, "family": "ipv6"}, ["eth0 2001:db8::7/64"]),
        ({"interface": "eth2"}, []),
    ],
)
def test_each_key_matches_its_addresses(keys: dict[str, object], names: list[str]) -> None:
    assert counted(HOST, "address", keys) == names


def test_an_address_of_several_interfaces_is_one_address() -> None:
    """The CNI plugin ptp gives each pod's interface the same gateway address. But each link has its own fe80::1."""
    interfaces = [nic(f"veth{n}", number=n) for n in (11, 12)]
    gateway = [(name, "ipv4", "10.1.0.1", 32, "global", False) for name in ("veth11", "veth12", "eth0")]
    local = [(f"veth{n}", "ipv6", "fe80::1", 64, "link", False) for n in (11, 12)]
    host = machine(pci_nic("eth0"), *interfaces, routes("eth0"), addresses(*gateway, *local))
    assert counted(host, "address") == ["veth11 10.1.0.1/32"]
    for interface in ("veth11", "veth12", "veth*"):
        assert counted(host, "address", {"interface": interface}) == ["veth11 10.1.0.1/32"]
    assert counted(host, "address", {"system": True}) == ["veth11 10.1.0.1/32"]
    assert counted(host, "address", {"scope": "link"}) == ["veth11 fe80::1/64", "veth12 fe80::1/64"]


@pytest.mark.parametrize("name", ["eth\udcff", "b\udce9b\udce9", "\x07"])
def test_names_are_compared_unchanged_and_printed_escaped(name: str) -> None:
    host = machine(pci_nic(name), routes(name), addresses((name, "ipv4", "192.0.2.7", 24, "global", False)))
    shown = printable(name)
    assert counted(host, "address", {"system": True}) == [f"{shown} 192.0.2.7/24"]
    assert counted(host, "address", {"system": False}) == []
    assert counted(host, "address", {"interface": shown}) == [f"{shown} 192.0.2.7/24"]
    assert values(host, "address", "attributes.operstate") == {f"{shown} 192.0.2.7/24": "up"}


def test_no_addresses_are_absent_and_unreadable_addresses_unknown() -> None:
    assert isinstance(read(machine(addresses()), "address"), Absent)
    assert isinstance(read(machine(), "address"), Unknown)  # the recording lacks the list of addresses


def test_without_a_default_route_only_system_is_unknown() -> None:
    host = RecordedHost(merge(*PARTS, {"default_interfaces": []}))
    assert isinstance(read(host, "address", {"system": False}), Unknown)
    assert len(counted(host, "address")) == 4
