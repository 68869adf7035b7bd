"""Kinds and addresses of interfaces, from a real kernel and from messages that it seldom sends."""

from __future__ import annotations

import errno
import json
import re
import struct
from typing import Literal
from unittest.mock import MagicMock

import pytest

from capacityd.host.network import addresses, kernel_errors
from capacityd.linux.netlink import ask, attribute, attributes, integer
from capacityd.model.errors import HostError
from tests import ROOT
from tests.support.forked import can_be_alone, run_alone

PROGRAM = """
import json, os, subprocess
from capacityd.host.live import LiveHost
from capacityd.model.errors import HostError

def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], check=True, text=True, input="\\n".join(lines))

ip("link add v0 type veth peer name p0", "link add m0 link v0 type macvlan", "link add b0 type bridge")
ip("link add x0 type vxlan id 5 dstport 4789", "link add x1 type vxlan id 6 dstport 4789 dev v0")
elsewhere = subprocess.Popen(["unshare", "-n", "sleep", "60"])
while os.readlink(f"/proc/{elsewhere.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
    pass
ip(f"link add here type veth peer name there netns {elsewhere.pid}")
host = LiveHost()
names = ["v0", "p0", "m0", "b0", "x0", "x1", "lo", "here", "gone"]

def answer(ask, name):
    try:
        return ask(name)
    except HostError as e:
        return f"{e} ({e.errno})"

print(json.dumps([{name: answer(ask, name) for name in names} for ask in (host.link_kind, host.linked_interface)]))
elsewhere.kill()
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_kinds_and_linked_interfaces_are_those_of_a_real_kernel() -> None:
    """The number of an interface in another network namespace is not that of an interface here."""
    kinds, linked = json.loads(run_alone("mount -t sysfs none /sys", PROGRAM))
    failed = "could not be read: No such device (19)"
    assert kinds == {
        "v0": "veth",
        "p0": "veth",
        "m0": "macvlan",
        "b0": "bridge",
        "x0": "vxlan",
        "x1": "vxlan",
        "lo": "",
        "here": "veth",
        "gone": f"the kind of gone {failed}",
    }
    assert linked == {
        "v0": "p0",
        "p0": "v0",
        "m0": "v0",
        "b0": "",
        "x0": "",
        "x1": "",
        "lo": "",
        "here": "",
        "gone": f"the interface that gone uses {failed}",
    }


SETUP = """
ip link set lo up
ip link add name va type veth peer name vb
ip link set va up; ip link set vb up
ip address add 192.0.2.7/24 dev va
ip address add 192.0.2.8/24 dev va label va:7
ip address add 198.51.100.1 peer 198.51.100.2/32 dev va
ip address add 2001:db8::7/64 dev va nodad
ip address add fec0::1/64 dev vb nodad"""
LIVE = """
import dataclasses, json
from capacityd.host.live import LiveHost
print(json.dumps([dataclasses.astuple(address) for address in LiveHost().addresses()]))
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_addresses_are_those_of_a_real_kernel() -> None:
    """Secondary addresses count, also with a label. Of a point-to-point link, the local end counts."""
    document = json.loads(run_alone(SETUP, LIVE))
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


IP4, IP6 = bytes([192, 0, 2, 7]), bytes.fromhex("20010db8000000000000000000000007")


@pytest.mark.parametrize(
    ("family", "raw", "flags", "scope", "expected"),
    [
        (2, IP4, 0x01 | 0x08, 0, ("192.0.2.7", "global", False)),  # a secondary address
        (10, IP6, 0x01, 0, ("2001:db8::7", "global", True)),
        (10, IP6, 0x08, 0, None),  # duplicate: another machine uses it
        (10, IP6, 0x20, 0, ("2001:db8::7", "global", False)),  # deprecated: only new connections do not use it
        (10, IP6, 0x80, 253, ("2001:db8::7", "link", False)),
        (10, IP6, 0x80, 77, ("2001:db8::7", "77", False)),
        (10, b"", 0x80, 0, None),
        (7, IP4, 0x80, 0, None),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_the_local_address_of_a_message_counts_unless_its_flags_exclude_it(
    family: int,
    raw: bytes,
    flags: int,
    scope: int,
    expected: tuple[str, str, bool] | None,
    wide: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """wide: the flags are in the attribute IFA_FLAGS, which holds 32 bits instead of 8."""
    message = struct.pack("BBBBi", family, 24, 0xFF - flags if wide else flags, scope, 1)
    message += (attribute(1, raw) if raw else b"") + (attribute(8, struct.pack("I", flags | 0x100)) if wide else b"")
    monkeypatch.setattr("capacityd.host.network.ask", lambda *_: [(20, message), (16, message)])
    known = [(a.interface, a.address, a.scope, a.temporary) for a in addresses()]
    assert known == ([("lo", *expected)] if expected else [])


def test_an_address_of_an_interface_that_disappeared_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    message = struct.pack("BBBBi", 2, 24, 0x80, 0, 2**30) + attribute(1, IP4)
    monkeypatch.setattr("capacityd.host.network.ask", lambda *_: [(20, message)])
    with pytest.raises(HostError, match="the addresses of interfaces could not be read: No such device"):
        addresses()


def test_addresses_are_read_again_if_an_interface_disappears_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [struct.pack("BBBBi", 2, 24, 0x80, 0, index) + attribute(1, IP4) for index in (2**30, 2**30, 1)]
    monkeypatch.setattr("capacityd.host.network.ask", lambda *_: [(20, messages.pop(0))])
    assert [a.interface for a in addresses()] == ["lo"]


def kernel(*answers: bytes) -> MagicMock:
    """A double of the socket module. Its sockets return these answers in turn."""
    double = MagicMock()
    opened = double.socket.return_value.__enter__.return_value
    opened.recv.side_effect = answers
    return double


def message(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    return struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body + bytes(-len(body) % 4)


def test_a_response_has_several_messages_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    known = (message(24, b"one") + message(25, b"and 2"), message(24, b"3"), message(3), message(24, b"late"))
    monkeypatch.setattr("capacityd.linux.netlink.socket", kernel(*known))
    assert list(ask(26, b"")) == [(24, b"one"), (25, b"and 2"), (24, b"3")]
    monkeypatch.setattr("capacityd.linux.netlink.socket", kernel(message(24, b"one")))
    assert list(ask(26, b"", dump=False)) == [(24, b"one")]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (message(3, struct.pack("i", -errno.EMSGSIZE)), "the routes could not be read: Message too long"),
        (message(2, struct.pack("i", -1)), "the routes could not be read: Operation not permitted"),
        (b"", "the routes could not be read: Bad message"),
    ],
)
def test_an_incomplete_response_is_an_error(answer: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capacityd.linux.netlink.socket", kernel(message(24, b"half"), answer, message(3)))
    with pytest.raises(HostError, match=f"^{error}$"), kernel_errors("the routes"):
        list(ask(26, b""))


INTERRUPTED = 0x10 | 0x2


@pytest.mark.parametrize("answer", [message(24, b"half", INTERRUPTED), message(3, flags=INTERRUPTED)])
def test_a_list_that_changes_while_it_is_read_is_read_again(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel marks all messages after the change. This may be only the one that ends the list."""
    changed = (message(24, b"one"), answer, message(3, flags=INTERRUPTED))[: 2 if answer[4] == 3 else 3]
    whole = (message(24, b"one"), message(24, b"two"), message(3, bytes(4)))
    monkeypatch.setattr("capacityd.linux.netlink.socket", kernel(*changed, *changed, *whole))
    assert list(ask(26, b"")) == [(24, b"one"), (24, b"two")]
    monkeypatch.setattr("capacityd.linux.netlink.socket", kernel(*changed * 9))
    with pytest.raises(HostError, match="Resource temporarily unavailable") as raised, kernel_errors("the routes"):
        ask(26, b"")
    assert raised.value.errno == errno.EAGAIN


def test_a_message_may_be_as_long_as_that_of_a_card_with_many_virtual_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = bytes(200_000)
    monkeypatch.setattr("capacityd.linux.netlink.socket", kernel(message(24, known), message(3)))
    assert list(ask(18, b"")) == [(24, known)]


def test_attributes_after_a_damaged_one_are_left_out() -> None:
    """Attributes after a damaged attribute are left out."""
    known = attribute(3, b"eth0\0") + attribute(7, b"") + attribute(0x8000 | 18, b"nested")
    whole = {3: b"eth0\0", 7: b"", 18: b"nested"}
    for rest in (b"", bytes(8) + known, struct.pack("HH", 3, 9) + known, struct.pack("HH", 9, 9) + b"half", b"\0"):
        assert attributes(known + rest) == whole


@pytest.mark.parametrize("order", ["little", "big"])
def test_integers_have_the_byte_order_of_the_machine(order: Literal["little", "big"]) -> None:
    assert integer((260).to_bytes(4, order), order=order) == 260
    assert integer((-19).to_bytes(4, order, signed=True), signed=True, order=order) == -19
    assert integer(struct.pack("I", 260)) == 260
    assert integer(b"") == 0


def test_no_integer_of_the_kernel_has_a_fixed_byte_order() -> None:
    """A network address is big-endian everywhere, and random bytes have no order."""
    fixed = re.compile(r'from_bytes\(.*"(little|big)"|Struct\("[<>]')
    lines = [line for file in (ROOT / "agent").rglob("*.py") for line in file.read_text().splitlines()]
    assert [line for line in lines if fixed.search(line) and "address" not in line and "urandom" not in line] == []
