"""The interfaces of default routes, from a real kernel and from rare output of `ip`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

from capacityd.host.routes import default_interfaces
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="a namespace of another user knows no other uids")

# Creates interfaces, and runs STEPS. A call of routes() runs lines of `ip`, and notes the interfaces of default routes.
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
    """The interfaces of default routes that each call of routes() in these steps notes. The steps are Python code.

    The machine has three veth pairs, v0 to v2, with IPv4 addresses. v1 also has an IPv6 address.
    """
    program = PROGRAM.replace("STEPS", "\n".join(steps))
    result: list[list[str]] = json.loads(run_alone("mount -t sysfs none /sys", program))
    return result


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_default_routes_of_a_real_kernel_give_all_their_interfaces() -> None:
    """All interfaces of a multipath route count."""
    two = '"route add default nexthop via 192.0.0.1 nexthop via 192.0.1.1"'
    many = 'ip(*(f"route add 100.{n >> 8}.{n & 255}.0/24 via 192.0.2.1" for n in range(4000)))'
    interfaces = {  # steps for found_by() -> the interfaces that routes() finds; `undo` removes the routes afterwards
        "routes()": [],
        'routes("route add unreachable default metric 9999", "route add unreachable ::/0 metric 9999")': [],
        'routes("route add local default dev lo metric 9998")': [],
        'routes("route add default via 192.0.2.1 dev v2 table 77", "route add 10.0.0.0/8 via 192.0.2.1")': [],
        'routes("route add default via 192.0.1.1", undo=["route del default"])': ["v1"],
        f'routes({two}, undo=["route del default"])': ["v0", "v1"],
        'routes("route add default encap ip dst 192.0.2.9 via 192.0.0.1", undo=["route del default"])': ["v0"],
        'routes("route add ::/0 via 2001:db8::1 dev v1", undo=["route del ::/0 dev v1"])': ["v1"],
        f'{many}; routes("route add default via 192.0.2.1 metric 5", "route add default via 192.0.2.1 metric 6")': [
            "v2"
        ],
    }
    assert found_by(*interfaces) == [*interfaces.values()]


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_routes_that_together_replace_a_default_route_count() -> None:
    """VPNs override a default route by routes to the two halves of all addresses."""
    interfaces = {
        'routes("route add 224.0.0.0/4 dev v0", "route add 10.0.0.0/8 via 192.0.0.1")': [],
        'routes("route add 0.0.0.0/1 via 192.0.2.1", "route add 128.0.0.0/1 via 192.0.2.1")': ["v2"],
        'routes("route add default via 192.0.0.1", undo=["route del default"])': ["v0", "v2"],
        'routes("route del 0.0.0.0/1", "route del 128.0.0.0/1", "route add 2000::/3 via 2001:db8::1 dev v1")': ["v1"],
    }
    assert found_by(*interfaces) == [*interfaces.values()]


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize("compatible", [1, 0])
def test_next_hop_objects_of_a_real_kernel_give_their_interfaces(compatible: int) -> None:
    """With nexthop_compat_mode=0, a route names its object, and only the object names the interfaces."""
    prepare = (
        f'open("/proc/sys/net/ipv4/nexthop_compat_mode", "w").write("{compatible}")',
        'ip("nexthop add id 1 via 192.0.0.1 dev v0", "nexthop add id 2 via 192.0.2.1 dev v2")',
        'ip("nexthop add id 9 group 1/2", "nexthop add id 4 blackhole", "nexthop add id 6 via 2001:db8::1 dev v1")',
    )
    interfaces = {
        'routes("route add default nhid 1", undo=["route del default nhid 1"])': ["v0"],
        'routes("route add default nhid 9", undo=["route del default nhid 9"])': ["v0", "v2"],
        'routes("route add default nhid 4", undo=["route del default nhid 4"])': [],
        'routes("route add ::/0 nhid 6", undo=["route del ::/0"])': ["v1"],
        'routes("route add default via 192.0.2.1")': ["v2"],
    }
    assert found_by(*prepare, *interfaces) == [*interfaces.values()]


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        *((rule, True) for rule in ("", "not fwmark 51820", "iif lo", "fwmark 0/0xff")),  # not fwmark: of wg-quick
        *((rule, False) for rule in ("from 192.0.2.7", "to 10.0.0.0/8", "fwmark 1", "iif v1", "iif lo fwmark 1")),
        *((rule, False) for rule in ("oif v1", "tos 0x10", "ipproto 6 dport 443")),
        pytest.param("uidrange 0-99", True, marks=as_root),
        pytest.param("uidrange 1000-1099", False, marks=as_root),
    ],
)
def test_a_table_counts_if_a_rule_selects_it_for_packets_of_the_machine(rule: str, counts: bool) -> None:
    """A rule of IPv4 does not select the table of IPv6 with the same number."""
    found = found_by(
        'ip("route add default via 192.0.2.1 table 1000", "route add ::/0 via 2001:db8::1 table 1000")',
        "routes()",
        f'routes("rule add {rule} table 1000")',
        'subprocess.run(["ip", "-6", "rule", "add", "table", "1000"], check=True); routes()',
    )
    expected = ["v2"] if counts else []
    assert found == [[], expected, ["v1", *expected]]


INSTEAD_OF_RULES = """
import capacityd.host.network
run = capacityd.host.network.run
def run_other(command, timeout, max_output):
    return run([*command[:4], *REQUEST] if "rule" in command else command, timeout, max_output)
capacityd.host.network.run = run_other
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize("request_of_ip", ["-M rule show", "-f bridge addrlabel list"])
def test_without_policy_rules_the_main_table_counts(request_of_ip: str) -> None:
    """A kernel has no policy rules without CONFIG_IP_MULTIPLE_TABLES, and none for IPv6 with ipv6.disable=1.

    Then the kernel answers with EAFNOSUPPORT, as any kernel does for MPLS. Without CONFIG_FIB_RULES, it answers with
    EOPNOTSUPP, as any kernel does for address labels of a bridge.
    """
    without_rules = INSTEAD_OF_RULES.replace("REQUEST", repr(request_of_ip.split()))
    other_table = '"route add default via 192.0.2.1 table 1000"'
    assert found_by(without_rules, f'routes("route add default via 192.0.1.1", {other_table})') == [["v1"]]


def route(dst: str = "default", table: int = 254, **fields: Any) -> dict[str, Any]:
    """A route as `ip` prints it. 254: the table main."""
    return {"type": "1", "dst": dst, "table": str(table), "protocol": "3", "flags": [], **fields}


def rule(table: int | None = None, **fields: Any) -> dict[str, Any]:
    selected = {"table": str(table)} if table is not None else {}
    return {"priority": 9, "src": "all", "protocol": "0", **selected, **fields}


def vrf(table: int) -> dict[str, Any]:
    return {"ifname": "red", "linkinfo": {"info_kind": "vrf", "info_data": {"table": table}}}


LO: dict[str, Any] = {"dev": "lo"}
L3MDEV = rule(l3mdev=None)  # selects the table of each VRF


def replace_ip(
    monkeypatch: pytest.MonkeyPatch,
    routes: object = (),
    rules: object = (),
    links: Sequence[object] = (),
    hops: object = (),
    status: int = 0,
) -> None:
    """Replaces `ip` by a test double with these answers. It prints {} for each link that is no VRF, as `ip` does."""
    printed = {"-4 route": routes, "-4 rule": rules, "link show": [{}, *links, {}], "nexthop show": hops}

    def run(command: Sequence[str], timeout: float, max_output: int) -> tuple[int, bytes, bytes]:
        return status, json.dumps(printed.get(" ".join(command[4:6]), [])).encode(), b""

    monkeypatch.setattr("capacityd.host.network.run", run)


HOP, GROUP = {"id": 7, **LO}, {"id": 8, "group": [{"id": 7}]}
IN_1000 = route(table=1000, **LO)  # a default route


@pytest.mark.parametrize(
    ("counts", "printed"),  # whether there is a default route, and what `ip` prints
    [
        *((True, {"routes": [default]}) for default in (route(**LO), route("0.0.0.0/1", **LO), route(table=253, **LO))),
        *((False, {"routes": [route(address, **LO)]}) for address in ("10.0.0.0/8", "192.0.2.1")),
        *((False, {"routes": [route(table=table, **LO)]}) for table in (255, 1000)),
        (True, {"routes": [IN_1000], "rules": [rule(1000)]}),
        (False, {"routes": [IN_1000], "rules": [rule(1000, new="x")]}),  # a selector that is not known
        (True, {"routes": [IN_1000], "rules": [{**rule(1000), "not": None, "dport": 4}]}),
        (False, {"routes": [IN_1000], "rules": [rule(action="6")]}),  # blackhole
        (False, {"routes": [IN_1000], "links": [vrf(1000)]}),
        (True, {"routes": [IN_1000], "rules": [L3MDEV], "links": [vrf(1000)]}),
        (False, {"routes": [IN_1000], "rules": [L3MDEV], "links": [vrf(1001)]}),
        (True, {"routes": [route(nhid=7)], "hops": [HOP]}),
        (True, {"routes": [route(nhid=8)], "hops": [HOP, GROUP]}),
        (False, {"routes": [route(nhid=7)], "hops": [{"id": 7, "blackhole": None}]}),
    ],
)
def test_the_tables_of_rules_and_of_vrfs_count(
    counts: bool, printed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_ip(monkeypatch, **printed)
    assert default_interfaces() == (["lo"] if counts else [])


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ({"routes": [route()]}, "there is a default route without an interface"),
        ({"routes": [route(nhid=7)]}, "the next hop 7 of a default route does not exist"),
        ({"routes": [{"dst": "default"}]}, "unexpected output of /bin/ip"),
        ({"routes": [[1]]}, "unexpected output of /bin/ip"),
        ({"status": 2}, "/bin/ip exited with status 2"),
    ],
)
def test_a_route_without_a_known_interface_is_unknown(
    printed: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_ip(monkeypatch, **printed)
    with pytest.raises(HostError, match=f"^the routes could not be read: {reason}$"):
        default_interfaces()
