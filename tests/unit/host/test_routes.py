"""Default routes, as the real kernel reports them in a network namespace of its own; and what it seldom sends."""

from __future__ import annotations

import json
import struct
from unittest.mock import MagicMock

import pytest

from capacityd.host.network import _interfaces_of_default, kernel_errors
from capacityd.linux.netlink import ask, attribute, attributes
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, can_make_taps, run_alone

PROGRAM = """
import fcntl, json, os, struct, subprocess
from capacityd.model.errors import HostError
from capacityd.host.network import default_interfaces

def ip(line):
    subprocess.run(["ip", *line.split()], check=True)

taps = [os.open("/dev/net/tun", os.O_RDWR) for _ in range(3)]
for n, tap in enumerate(taps):
    fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"tap%d" % n, 0x1002))
    ip(f"link set tap{n} up")
    ip(f"address add 192.0.{n}.7/24 dev tap{n}")
interfaces = {"none": default_interfaces()}
ip("route add unreachable default metric 9999")
ip("-6 route add unreachable default metric 9999")
ip("route add default via 192.0.2.1 dev tap2 table 77")
ip("route add 10.0.0.0/8 via 192.0.2.1")
interfaces["others"] = default_interfaces()
ip("route add default via 192.0.1.1")
interfaces["one"] = default_interfaces()
ip("route del default via 192.0.1.1")
ip("route add default nexthop via 192.0.0.1 nexthop via 192.0.1.1")
interfaces["two ways"] = default_interfaces()
ip("route del default")
ip("nexthop add id 1 via 192.0.0.1 dev tap0")
ip("nexthop add id 2 via 192.0.2.1 dev tap2")
ip("nexthop add id 9 group 1/2")
ip("route add default nhid 9")
interfaces["next hops"] = default_interfaces()
ip("route del default nhid 9")
ip("-6 address add 2001:db8::7/64 dev tap1 nodad")
ip("-6 route add default via 2001:db8::1 dev tap1")
interfaces["six"] = default_interfaces()
subprocess.run(["ip", "-batch", "-"], check=True, text=True,
               input="".join(f"route add 100.{n >> 8}.{n & 255}.0/24 via 192.0.2.1\\n" for n in range(4000)))
ip("route add default via 192.0.2.1 metric 5")
interfaces["many"] = default_interfaces()
print(json.dumps(interfaces))
"""


@pytest.mark.skipif(not can_make_taps(), reason="needs namespaces and TAP devices")
def test_default_routes_of_a_real_kernel() -> None:
    """All interfaces of a route over several, and none of what is no default route of the machine itself."""
    assert json.loads(run_alone("mount -t sysfs none /sys", PROGRAM)) == {
        "none": [],
        "others": [],
        "one": ["tap1"],
        "two ways": ["tap0", "tap1"],
        "next hops": ["tap0", "tap2"],
        "six": ["tap1"],
        "many": ["tap1", "tap2"],
    }


KINDS = """
import json, subprocess
from capacityd.model.errors import HostError
from capacityd.host.live import LiveHost
from capacityd.linux.netlink import ask, attribute, attributes

for line in ["link add v0 type veth peer name v1", "link add m0 link v0 type macvlan", "link add b0 type bridge"]:
    subprocess.run(["ip", *line.split()], check=True)
kinds = {name: LiveHost().link_kind(name) for name in ["v0", "m0", "b0", "lo"]}
try:
    LiveHost().link_kind("gone")
except HostError as e:
    kinds["gone"] = f"{e} ({e.errno})"
print(json.dumps(kinds))
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_kinds_of_interfaces_of_a_real_kernel() -> None:
    assert json.loads(run_alone("mount -t sysfs none /sys", KINDS)) == {
        "v0": "veth",
        "m0": "macvlan",
        "b0": "bridge",
        "lo": "",
        "gone": "the kind of gone could not be read: No such device (19)",
    }


@pytest.mark.parametrize(("table", "expected"), [(254, [7]), (253, [7]), (255, []), (77, [])])
def test_only_the_main_and_default_tables_count(table: int, expected: list[int]) -> None:
    known = bytes([2, 0, 0, 0, table, 3, 0, 1, 0, 0, 0, 0]) + attribute(4, struct.pack("i", 7))
    assert list(_interfaces_of_default(known)) == expected
    assert list(_interfaces_of_default(known + attribute(15, struct.pack("I", 1000)))) == []


def test_a_default_route_without_an_interface_is_an_error() -> None:
    with pytest.raises(HostError, match="without an interface"):
        list(_interfaces_of_default(bytes([2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0])))


def kernel(*answers: bytes) -> MagicMock:
    """A socket module whose sockets send these, one after another, and know no options, as an old kernel's."""
    double = MagicMock()
    opened = double.socket.return_value.__enter__.return_value
    opened.recv.side_effect = answers
    opened.setsockopt.side_effect = OSError
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
        (message(24, b"one", flags=0x10 | 0x2), "the routes changed while they were read"),
        (message(2, struct.pack("i", -1)), "the routes could not be read: Operation not permitted"),
    ],
)
def test_an_incomplete_response_is_an_error(answer: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capacityd.linux.netlink.socket", kernel(message(24, b"half"), answer, message(3)))
    with pytest.raises(HostError, match=f"^{error}$"), kernel_errors("the routes"):
        list(ask(26, b""))


def test_attributes() -> None:
    known = attribute(3, b"eth0\0") + attribute(0x8000 | 18, b"nested")
    assert attributes(known) == {3: b"eth0\0", 18: b"nested"}
    assert attributes(known + bytes(8) + known) == {3: b"eth0\0", 18: b"nested"}
    assert attributes(attribute(7, b"") + known) == {7: b"", 3: b"eth0\0", 18: b"nested"}
    assert attributes(known + attribute(7, b"")) == {3: b"eth0\0", 18: b"nested", 7: b""}
    assert attributes(b"\0") == {}
    assert attributes(known + struct.pack("HH", 3, 9) + attribute(7, b"")) == {3: b"eth0\0", 18: b"nested"}
    assert attributes(known + struct.pack("HH", 9, 9) + b"half") == {3: b"eth0\0", 18: b"nested"}
