"""Kinds and addresses of interfaces, from a real kernel and from rare output of `ip`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from capacityd.host import network
from capacityd.host.network import addresses, links
from capacityd.model.errors import HostError
from tests import ROOT
from tests.support.forked import can_be_alone, run_alone

# Creates interfaces, and prints the kind of each and the interface that it is linked to.
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
    pass  # until the process has its own namespace
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
    """The peer of "here" is in another network namespace. Its number must not lead to an interface of this one."""
    kinds, linked = json.loads(run_alone("mount -t sysfs none /sys", PROGRAM))
    gone = "the interface gone does not exist (19)"
    assert {name: (kinds[name], linked[name]) for name in kinds} == {
        "v0": ("veth", "p0"),
        "p0": ("veth", "v0"),
        "m0": ("macvlan", "v0"),
        "b0": ("bridge", ""),
        "x0": ("vxlan", ""),
        "x1": ("vxlan", ""),
        "lo": ("", ""),
        "here": ("veth", ""),
        "gone": (gone, gone),
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
    """Secondary addresses and addresses with a label count. On a point-to-point link, the local address counts."""
    rows = json.loads(run_alone(SETUP, LIVE))  # interface, family, address, prefix length, scope, temporary
    assert [row for row in rows if row[4] != "link"] == [
        ["lo", "ipv4", "127.0.0.1", 8, "host", False],
        ["lo", "ipv6", "::1", 128, "host", False],
        ["va", "ipv4", "192.0.2.7", 24, "global", False],
        ["va", "ipv4", "192.0.2.8", 24, "global", False],
        ["va", "ipv4", "198.51.100.1", 32, "global", False],
        ["va", "ipv6", "2001:db8::7", 64, "global", False],
        ["vb", "ipv6", "fec0::1", 64, "site", False],
    ]
    assert {row[2][:5] for row in rows if row[4] == "link"} == {"fe80:"}


def address(**fields: Any) -> dict[str, Any]:
    return {"family": "inet6", "local": "2001:db8::7", "prefixlen": 64, "scope": "0", **fields}


@pytest.mark.parametrize(
    ("printed", "expected"),  # what `ip` prints about an address; its family, address, scope, whether it is temporary
    [
        (address(family="inet", local="192.0.2.7", secondary=True), ("ipv4", "192.0.2.7", "global", False)),
        (address(family="inet", local="192.0.2.7", address="192.0.2.1"), ("ipv4", "192.0.2.7", "global", False)),
        (address(temporary=True), ("ipv6", "2001:db8::7", "global", True)),
        (address(dadfailed=True), None),  # another machine uses it
        (address(deprecated=True), ("ipv6", "2001:db8::7", "global", False)),  # only new connections do not use it
        (address(scope="253"), ("ipv6", "2001:db8::7", "link", False)),
        (address(scope="77"), ("ipv6", "2001:db8::7", "77", False)),
        (address(family="mpls"), None),
    ],
)
def test_an_address_counts_unless_its_flags_exclude_it(
    printed: dict[str, Any], expected: tuple[str, str, str, bool] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "ip", lambda *_: [{"ifname": "lo", "addr_info": [printed]}])
    counted = [(a.family, a.address, a.scope, a.temporary) for a in addresses()]
    assert counted == ([expected] if expected else [])


@pytest.mark.parametrize("printed", [[{"ifname": "lo"}], [{"addr_info": [address()]}], [[1]], {"a": 1}, 7])
def test_unexpected_output_is_an_error(printed: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "run", lambda *_, **__: (0, json.dumps(printed).encode(), b""))
    with pytest.raises(HostError, match="addresses of interfaces could not be read: unexpected output of"):
        addresses()


@pytest.mark.parametrize(
    ("status", "out", "err", "reason"),
    [
        (2, b"", b"RTNETLINK answers: Operation not permitted", "/bin/ip exited with status 2"),
        (0, b"[]", b"Dump was interrupted and may be inconsistent.\n", "they changed during 5 attempts"),
        (0, b"[{", b"", "unexpected output of /bin/ip"),
    ],
)
def test_a_failure_of_ip_is_an_error(
    status: int, out: bytes, err: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "run", lambda *_, **__: (status, out, err))
    with pytest.raises(HostError, match=f"^the interfaces could not be read: {reason}$"):
        links()


def test_the_list_of_interfaces_may_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    program = 'import json; print(json.dumps([{"ifname": "eth0", "vfinfo_list": ["x" * 100] * 10_000}]))'
    monkeypatch.setattr(network, "_IP", ("/usr/bin/python3", "-c", program))
    assert [*links()] == ["eth0"]


def test_a_list_that_changes_while_it_is_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(0, b"[]", b"Dump was interrupted"), (0, b'[{"ifname":"c\x07\xe9"},{}]', b"a warning")]
    monkeypatch.setattr(network, "run", lambda *_, **__: answers.pop(0))
    assert [*links()] == ["c\x07\udce9"]


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_a_name_may_have_any_bytes() -> None:
    program = "import json; from capacityd.host.network import links; print(json.dumps(sorted(links())))"
    names = json.loads(run_alone("ip link add name \"a'b\" type veth peer name $(printf 'c\\007\\351d')", program))
    assert names == ["a'b", "c\x07\udce9d", "lo"]


def test_no_integer_of_the_kernel_has_a_fixed_byte_order() -> None:
    """Network addresses are big-endian on every machine, and random bytes have no order, so these are excepted."""
    fixed = re.compile(r'from_bytes\(.*"(little|big)"|Struct\("[<>]')
    lines = [line for file in (ROOT / "agent").rglob("*.py") for line in file.read_text().splitlines()]
    assert [line for line in lines if fixed.search(line) and "address" not in line and "urandom" not in line] == []
