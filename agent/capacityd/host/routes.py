"""The interfaces of the machine's default routes, from ip(8).

/proc/net/route would be simpler. But it shows only the first interface of a route with several interfaces (ECMP, for
example two uplinks with BGP). The machine would seem not to need the other interfaces.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping, Sequence

from capacityd.host.network import Json, ip, ip_errors
from capacityd.model.errors import HostError

_MAX_DEFAULT_PREFIX_BITS = 3
"""The longest prefix of a route that counts as a default route. A VPN may replace the default route by 0.0.0.0/1 and
128.0.0.0/1. 2000::/3 contains all public addresses of IPv6."""

_FAMILIES = ("-4", "-6")
_UNICAST = "1"  # a type of route: RTN_UNICAST
_TABLES = ("253", "254")  # default and main
_VALUES_FOR_OWN_PACKETS: Mapping[str, Sequence[object]] = {
    "src": ["all"],
    "iif": ["lo"],  # the kernel gives the machine's own packets this input interface
    "fwmark": ["0"],
    "uid_start": [0],  # the rule may also be for root's packets only (uid_end is 0), which is not checked
}
"""Field of a policy rule -> its values in a rule for all packets of the machine's own programs."""
_NO_SELECTORS = (
    "priority", "table", "protocol", "not", "l3mdev", "suppress_prefixlen", "suppress_ifgroup",
    "fwmask", "uid_end", "flow_from", "flow_to",
)  # fmt: skip
"""Fields of a policy rule that do not select packets. Every other field counts as one that selects packets."""


def default_interfaces() -> list[str]:
    """The names of the interfaces of default routes, IPv4 and IPv6, sorted. Raises HostError.

    A route to at least an eighth of all addresses counts as a default route. Routes count in the tables main and
    default, in tables that policy rules select for all packets, and in the tables of VRFs, which carry the packets of
    programs in the VRF.
    """
    with ip_errors("the routes"):
        next_hops = {hop["id"]: hop for hop in ip("nexthop", "show")}
        names: set[str] = set()
        for family in _FAMILIES:
            for route in _default_routes(family, _counted_tables(family)):
                names |= _interfaces_of(route, next_hops)
    return sorted(names)


def _default_routes(family: str, tables: Collection[str]) -> Iterator[Json]:
    """Yields the default routes in these tables. Dead next hops count as well."""
    for route in ip(family, "route", "show", "table", "all"):
        is_default = _is_default(route["dst"])
        if is_default and route["type"] == _UNICAST and route["table"] in tables:
            yield route


def _is_default(destination: str) -> bool:
    """Whether a route to this destination counts as a default route. destination: "default", a prefix or an address."""
    if destination == "default":
        return True
    _address, _, prefix_bits = destination.partition("/")
    if not prefix_bits:  # the destination is an address
        return False
    return int(prefix_bits) <= _MAX_DEFAULT_PREFIX_BITS


def _interfaces_of(route: Json, next_hops: Mapping[int, Json]) -> set[str]:
    """The interfaces of a route, or of a next-hop object. Raises HostError if the route has none.

    With nexthop_compat_mode=0, a route names only its next-hop object (nhid). That object names its interface, or the
    members of its group.
    """
    hops = [route, *route.get("nexthops", ())]
    found = {hop["dev"] for hop in hops if "dev" in hop}
    ids = [member["id"] for member in route.get("group", ())]
    if "nhid" in route:
        ids.append(route["nhid"])
    for hop_id in ids:
        if hop_id not in next_hops:
            raise HostError(f"the next hop {hop_id} of a default route does not exist")
        found |= _interfaces_of(next_hops[hop_id], next_hops)
    drops_packets = "blackhole" in route  # a next-hop object may have no interface, and drop packets
    if not found and not ids and not drops_packets:
        raise HostError("there is a default route without an interface")
    return found


def _counted_tables(family: str) -> set[str]:
    """The numbers of the tables whose default routes count."""
    tables = set(_TABLES)
    for rule in _rules(family):
        # An inverted rule, such as wg-quick's "not fwmark", applies to all packets that its fields do not select.
        is_inverted = "not" in rule
        if _excludes_own_packets(rule) and not is_inverted:
            continue
        if "table" in rule:
            tables.add(rule["table"])
        if "l3mdev" in rule:  # one rule leads to the tables of all VRFs
            for link in ip("link", "show", "type", "vrf"):
                vrf = link["linkinfo"]["info_data"]
                tables.add(str(vrf["table"]))
    return tables


def _rules(family: str) -> Sequence[Json]:
    """The policy rules; empty if the kernel supports none for the family, for example because of ipv6.disable=1."""
    try:
        return ip(family, "rule", "show")
    except HostError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
        return ()


def _excludes_own_packets(rule: Json) -> bool:
    """Whether a policy rule excludes packets of the machine's own programs. Ignores whether the rule is inverted."""
    for name, value in rule.items():
        if name not in _NO_SELECTORS and value not in _VALUES_FOR_OWN_PACKETS.get(name, ()):
            return True
    return False
