"""The interfaces of default routes, from a real kernel and from messages that it seldom sends."""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Iterable, Iterator

import pytest

from capacityd.host import routes
from capacityd.host.routes import default_interfaces
from capacityd.linux.netlink import attribute
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="a namespace of another user knows no other uids")

PROGRAM = """
import json, subprocess
from capacityd.host.live import LiveHost

def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], check=True, text=True, input="\\n".join(lines))

def routes(*lines, undo=()):
    ip(*lines)
    found.append(host.default_interfaces())
    ip(*undo)

host, found = LiveHost(), []
for n in range(3):
    ip(f"link add v{n} type veth peer name p{n}", f"link set p{n} up", f"link set v{n} up")
    ip(f"address add 192.0.{n}.7/24 dev v{n}")
ip("address add 2001:db8::7/64 dev v1 nodad", "link set lo up")
STEPS
print(json.dumps(found))
"""


def found_by(*steps: str) -> list[list[str]]:
    """The interfaces of default routes after each step, which is a call of the function routes in PROGRAM.

    The kernel has three veth pairs, v0 to v2, with IPv4 addresses; v1 also has an IPv6 address.
    """
    program = PROGRAM.replace("STEPS", "\n".join(steps))
    result: list[list[str]] = json.loads(run_alone("mount -t sysfs none /sys", program))
    return result


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_default_routes_of_a_real_kernel_give_all_their_interfaces() -> None:
    """A multipath route gives all of its interfaces. Routes that are not default routes of this machine give none."""
    found = found_by(
        "routes()",
        'routes("route add unreachable default metric 9999", "route add unreachable ::/0 metric 9999")',
        'routes("route add default via 192.0.2.1 dev v2 table 77", "route add 10.0.0.0/8 via 192.0.2.1")',
        'routes("route add default via 192.0.1.1", undo=["route del default via 192.0.1.1"])',
        'routes("route add default nexthop via 192.0.0.1 nexthop via 192.0.1.1", undo=["route del default"])',
        'routes("route add ::/0 via 2001:db8::1 dev v1")',
        'ip(*(f"route add 100.{n >> 8}.{n & 255}.0/24 via 192.0.2.1" for n in range(4000)))',
        'routes("route add default via 192.0.2.1 metric 5", "route add default via 192.0.2.1 metric 6")',
    )
    assert found == [[], [], [], ["v1"], ["v0", "v1"], ["v1"], ["v1", "v2"]]


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_routes_that_together_replace_a_default_route_count() -> None:
    """VPNs and some administrators override a default route like this. A multicast route is none."""
    found = found_by(
        'routes("route add 224.0.0.0/4 dev v0", "route add 10.0.0.0/8 via 192.0.0.1")',
        'routes("route add 0.0.0.0/1 via 192.0.2.1", "route add 128.0.0.0/1 via 192.0.2.1")',
        'routes("route add default via 192.0.0.1", undo=["route del default"])',
        'routes("route add 2000::/3 via 2001:db8::1 dev v1", "route del 0.0.0.0/1", "route del 128.0.0.0/1")',
    )
    assert found == [[], ["v2"], ["v0", "v2"], ["v1"]]


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize("compatible", [1, 0])
def test_next_hop_objects_of_a_real_kernel_give_their_interfaces(compatible: int) -> None:
    """With nexthop_compat_mode=0, a route names its object, and only the object names the interfaces."""
    found = found_by(
        f'open("/proc/sys/net/ipv4/nexthop_compat_mode", "w").write("{compatible}")',
        'ip("nexthop add id 1 via 192.0.0.1 dev v0", "nexthop add id 2 via 192.0.2.1 dev v2")',
        'ip("nexthop add id 9 group 1/2", "nexthop add id 4 blackhole", "nexthop add id 6 via 2001:db8::1 dev v1")',
        'routes("route add default nhid 1", undo=["route del default nhid 1"])',
        'routes("route add default nhid 9", undo=["route del default nhid 9"])',
        'routes("route add default nhid 4", undo=["route del default nhid 4"])',
        'routes("route add ::/0 nhid 6")',
        'routes("route add default via 192.0.2.1")',
    )
    assert found == [["v0"], ["v0", "v2"], [], ["v1"], ["v1", "v2"]]


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        ("", True),
        ("not fwmark 51820", True),  # of wg-quick
        ("iif lo", True),
        pytest.param("uidrange 0-99", True, marks=as_root),
        ("fwmark 0/0xff", True),
        ("from 192.0.2.7", False),
        ("to 10.0.0.0/8", False),
        ("fwmark 1", False),
        ("iif v1", False),
        ("iif lo fwmark 1", False),
        ("oif v1", False),
        pytest.param("uidrange 1000-1099", False, marks=as_root),
        ("tos 0x10", False),
        ("ipproto tcp dport 443", False),
    ],
)
def test_a_table_counts_if_a_rule_selects_it_for_packets_of_the_machine(rule: str, counts: bool) -> None:
    """The rule is one of IPv4, so the table of IPv6 with the same number does not count."""
    found = found_by(
        'ip("route add default via 192.0.2.1 table 1000", "route add ::/0 via 2001:db8::1 table 1000")',
        "routes()",
        f'routes("rule add {rule} table 1000")',
        'subprocess.run(["ip", "-6", "rule", "add", "table", "1000"], check=True); routes()',
    )
    here = ["v2"] if counts else []
    assert found == [[], here, ["v1", *here]]


def route(*attributes: bytes, table: int = 254) -> tuple[int, bytes]:
    return 24, bytes([2, 0, 0, 0, table, 3, 0, 1, 0, 0, 0, 0]) + b"".join(attributes)


def rule(*attributes: bytes, family: int = 2, table: int = 0, action: int = 1) -> tuple[int, bytes]:
    return 32, bytes([family, 0, 0, 0, table, 0, 0, action, 0, 0, 0, 0]) + b"".join(attributes)


def hop(number: int, *attributes: bytes) -> tuple[int, bytes]:
    return 104, bytes([2, 0, 0, 0, 0, 0, 0, 0]) + attribute(1, struct.pack("I", number)) + b"".join(attributes)


def link(kind: bytes, table: int) -> tuple[int, bytes]:
    data = attribute(2, attribute(1, struct.pack("I", table)))
    return 16, bytes(16) + attribute(18, attribute(1, kind + b"\0") + data)


OIF, TABLE_1000 = attribute(4, struct.pack("i", 1)), attribute(15, struct.pack("I", 1000))
L3MDEV = rule(attribute(19, b"\1"))


def answers_of(monkeypatch: pytest.MonkeyPatch, *messages: tuple[int, bytes]) -> None:
    """The kernel's answer to each request is those of the messages that have its kind. Routes are of IPv4."""

    def ask(kind: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        known: Iterable[tuple[int, bytes]] = () if (kind, body[0]) == (26, 10) else messages
        return (message for message in known if message[0] == kind - 2)

    monkeypatch.setattr(routes, "ask", ask)


@pytest.mark.parametrize(
    ("messages", "counts"),
    [
        ([route(OIF)], True),
        ([route(OIF, table=253)], True),
        ([route(OIF, table=255)], False),
        ([route(OIF, table=77)], False),
        ([route(OIF, TABLE_1000)], False),
        ([route(OIF, table=77), rule(table=77)], True),
        ([route(OIF, table=77), rule(table=77, family=128)], False),  # a rule for multicast routing
        ([route(OIF, table=77), rule(table=77, action=6)], False),  # blackhole
        ([route(OIF, TABLE_1000), rule(TABLE_1000, table=252)], True),
        ([route(OIF, TABLE_1000), rule(TABLE_1000, attribute(99, b"new"))], False),
        ([route(OIF, TABLE_1000), link(b"vrf", 1000)], False),
        ([route(OIF, TABLE_1000), L3MDEV, link(b"vrf", 1000)], True),
        ([route(OIF, TABLE_1000), L3MDEV, link(b"vrf", 1001), link(b"bond", 1000)], False),
        ([route(attribute(30, struct.pack("I", 7))), hop(7, attribute(5, struct.pack("I", 1)))], True),
    ],
)
def test_the_tables_of_rules_and_of_vrfs_count(
    messages: list[tuple[int, bytes]], counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers_of(monkeypatch, *messages)
    assert default_interfaces() == (["lo"] if counts else [])


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([route()], "there is a default route without an interface"),
        ([route(attribute(30, struct.pack("I", 7)))], "the next hop 7 of a default route does not exist"),
        ([route(attribute(4, struct.pack("i", 2**30)))], "the routes could not be read: No such device or address"),
        ([route(attribute(4, b"x"))], "the routes could not be read: the kernel sent an unexpected answer"),
    ],
)
def test_a_route_without_a_known_interface_is_unknown(
    messages: list[tuple[int, bytes]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers_of(monkeypatch, *messages)
    with pytest.raises(HostError, match=f"^{reason}$"):
        default_interfaces()


@pytest.mark.parametrize(("code", "known"), [(errno.EOPNOTSUPP, True), (errno.ENOBUFS, False)])
def test_a_kernel_without_policy_rules_has_the_main_table(
    code: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(kind: int, body: bytes) -> list[tuple[int, bytes]]:
        if kind == 34:
            raise OSError(code, "")
        return [route(OIF)] if kind == 26 and body[0] == 2 else []

    monkeypatch.setattr(routes, "ask", ask)
    if known:
        assert default_interfaces() == ["lo"]
    else:
        with pytest.raises(HostError, match="the routes could not be read"):
            default_interfaces()
