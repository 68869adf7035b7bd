"""Addresses as a kernel reports them: in a network namespace, and message by message."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from capacityd.host.network import addresses as kernel_addresses
from capacityd.linux.netlink import attribute
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone

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
def test_addresses_of_a_kernel() -> None:
    """A second address of a network counts; for a point-to-point link, the local end counts."""
    document: list[Any] = json.loads(run_alone(SETUP, LIVE))
    assert [one for one in document if one[4] != "link"] == [
        ["lo", "ipv4", "127.0.0.1", 8, "host", False],
        ["lo", "ipv6", "::1", 128, "host", False],
        ["va", "ipv4", "192.0.2.7", 24, "global", False],
        ["va", "ipv4", "192.0.2.8", 24, "global", False],
        ["va", "ipv4", "198.51.100.1", 32, "global", False],
        ["va", "ipv6", "2001:db8::7", 64, "global", False],
        ["vb", "ipv6", "fec0::1", 64, "site", False],
    ]
    assert {one[2][:5] for one in document if one[4] == "link"} == {"fe80:"}


@pytest.mark.parametrize(
    ("family", "flags", "scope", "expected"),
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
def test_address_message(
    family: int,
    flags: int,
    scope: int,
    expected: tuple[str, str, bool] | None,
    wide: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """wide: the flags are in an attribute, which has room for more than eight."""
    raw = bytes([192, 0, 2, 7]) if family == 2 else bytes.fromhex("20010db8000000000000000000000007")
    message = struct.pack("BBBBi", family, 24, 0x100 - 1 - flags if wide else flags, scope, 1) + attribute(1, raw)
    message += attribute(8, struct.pack("I", flags | 0x100)) if wide else b""
    monkeypatch.setattr("capacityd.host.network.ask", lambda *_: [(20, message), (16, message)])
    assert [(a.interface, a.address, a.scope, a.temporary) for a in kernel_addresses()] == (
        [("lo", *expected)] if expected else []
    )


def test_an_address_of_an_interface_that_disappeared_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    message = struct.pack("BBBBi", 2, 24, 0x80, 0, 2**30)
    monkeypatch.setattr("capacityd.host.network.ask", lambda *_: [(20, message)])
    assert kernel_addresses() == [], "it has none"
    monkeypatch.setattr("capacityd.host.network.ask", lambda *_: [(20, message + attribute(1, bytes(4)))])
    with pytest.raises(HostError, match="the addresses of interfaces could not be read: No such device"):
        kernel_addresses()
