"""The interfaces of the machine's default routes, from rtnetlink(7).

/proc/net/route would be simpler. But for a route over several interfaces (ECMP: two uplinks with BGP), it shows only
the first, so nothing would seem to depend on the second.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from capacityd.host.network import (
    GETLINK,
    INFO_KIND,
    LINK_MESSAGE,
    LINKINFO,
    NEWLINK,
    kernel_errors,
    link_info,
    with_names,
)
from capacityd.linux.netlink import DEFAULT_BITS, ask, attribute, attributes, integer, pieces
from capacityd.model.errors import HostError

_NEWROUTE, _GETROUTE, _NEWRULE, _GETRULE, _NEWHOP, _GETHOP = 24, 26, 32, 34, 104, 106
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_UNICAST = 1
_TABLES = (253, 254)  # default and main
_OIF, _MULTIPATH, _TABLE, _NEXT_HOP = 4, 9, 15, 30  # RTA_*
_ROUTE, _HOP = struct.Struct("8BI"), struct.Struct("HBBi")  # struct rtmsg and, with the same layout, fib_rule_hdr
_HOP_MESSAGE, _MEMBER = struct.Struct("4BI"), struct.Struct("IBBH")  # struct nhmsg and nexthop_grp
_HOP_ID, _HOP_GROUP, _HOP_OIF = 1, 2, 5  # NHA_*
_VRF_TABLE = 1  # IFLA_VRF_TABLE

_TO_TABLE, _INVERT = 1, 0x2  # FR_ACT_TO_TBL, FIB_RULE_INVERT
_IIF, _L3MDEV, _UIDS = 3, 19, 20  # FRA_*; FRA_TABLE has the number of RTA_TABLE
_NO_SELECTORS = (4, 6, 11, 13, 14, 15, 16, 18, 21)
"""The attributes of a rule that exclude none of the machine's own packets: goto, priority, realms, the suppressors,
table, the mask of an fwmark (the mark itself is an attribute only if it is not 0), padding and protocol. The others of
FRA_* in include/uapi/linux/fib_rules.h, and those of newer kernels, select packets."""


@dataclass(frozen=True, slots=True)
class _Route:
    """A default route: its interfaces and its next-hop objects, by number."""

    interfaces: frozenset[int]
    hops: frozenset[int]


def default_interfaces() -> list[str]:
    """The names of the interfaces of default routes, IPv4 and IPv6, sorted. Raises HostError.

    A route to at least an eighth of all addresses is a default route, too: several of them replace one. Routes of
    these tables count: main, default, those that policy rules select for all packets, and those of VRFs, which carry
    the packets of programs in the VRF.
    """
    with kernel_errors("the routes"):
        return with_names(_default_interfaces)


def _default_interfaces() -> list[str]:
    tables = _tables()
    routes = [route for family in _FAMILIES for route in _default_routes(family, tables[family])]
    numbers = {number for route in routes for number in route.interfaces}
    hops = {number for route in routes for number in route.hops}
    if hops:
        numbers |= _interfaces_of_hops(hops)
    return [*map(os.fsdecode, sorted(os.fsencode(socket.if_indextoname(n)) for n in numbers))]


def _default_routes(family: int, tables: Collection[int]) -> Iterator[_Route]:
    for kind, message in ask(_GETROUTE, _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
        route = _default_route(message, tables) if kind == _NEWROUTE else None
        if route:
            yield route


def _default_route(message: bytes, tables: Collection[int]) -> _Route | None:
    """The route in a message, if it is a default route of one of these tables. Dead next hops count as well."""
    _, bits, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(message)
    values = attributes(message[_ROUTE.size :])
    if bits > DEFAULT_BITS or kind != _UNICAST or _table(values, table) not in tables:
        return None
    single = [number for (number,) in struct.iter_unpack("i", values.get(_OIF, b""))]
    several = [number for (_, _, _, number), _ in pieces(values.get(_MULTIPATH, b""), _HOP)]
    # With nexthop_compat_mode=0, the kernel names the next-hop object and none of its interfaces.
    hops = [number for (number,) in struct.iter_unpack("I", values.get(_NEXT_HOP, b""))]
    if not (single or several or hops):
        raise HostError("there is a default route without an interface")
    return _Route(frozenset([*single, *several]), frozenset(hops))


def _table(values: Mapping[int, bytes], short: int) -> int:
    """The number of a route's or rule's table. short: the number in the message's header, which holds one byte."""
    return integer(values[_TABLE]) if _TABLE in values else short


def _interfaces_of_hops(wanted: Collection[int]) -> set[int]:
    """The interfaces of next-hop objects, and of the members of groups. Raises HostError if one of them is missing."""
    known: dict[int, Mapping[int, bytes]] = {}
    for kind, message in ask(_GETHOP, _HOP_MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        if kind == _NEWHOP:
            values = attributes(message[_HOP_MESSAGE.size :])
            known[struct.unpack("I", values.get(_HOP_ID, bytes(4)))[0]] = values
    waiting, seen, interfaces = [*wanted], set[int](), set[int]()
    while waiting:
        hop = waiting.pop()
        if hop in seen:
            continue
        seen.add(hop)
        if hop not in known:
            raise HostError(f"the next hop {hop} of a default route does not exist")
        waiting += [member for member, *_ in _MEMBER.iter_unpack(known[hop].get(_HOP_GROUP, b""))]
        interfaces |= {number for (number,) in struct.iter_unpack("I", known[hop].get(_HOP_OIF, b""))}
    return interfaces


def _tables() -> Mapping[int, set[int]]:
    """Family -> the numbers of the tables whose default routes count."""
    tables: defaultdict[int, set[int]] = defaultdict(lambda: {*_TABLES})
    vrfs = False
    for message in _rules():
        family, _, _, tos, table, _, _, action, flags = _ROUTE.unpack_from(message)
        values = attributes(message[_ROUTE.size :])
        vrfs = vrfs or _L3MDEV in values
        if action == _TO_TABLE and (flags & _INVERT or not (tos or _selects(values))):
            tables[family].add(_table(values, table))
    if vrfs:
        of_vrfs = _tables_of_vrfs()
        for family in _FAMILIES:
            tables[family] |= of_vrfs
    return tables


def _rules() -> list[bytes]:
    """The messages about policy rules; empty if the kernel has none (CONFIG_FIB_RULES)."""
    try:
        asked = ask(_GETRULE, _ROUTE.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0, 0, 0))
        return [message for kind, message in asked if kind == _NEWRULE]
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
        return []


def _selects(values: Mapping[int, bytes]) -> bool:
    """Whether a policy rule excludes packets that the machine's own programs send.

    A rule for packets from the interface lo, or of root, applies to them. An inverted rule, such as wg-quick's "not
    fwmark", applies to nearly all packets.
    """
    selectors = values.keys() - {*_NO_SELECTORS}
    if values.get(_IIF) == b"lo\0":
        selectors.discard(_IIF)
    if values.get(_UIDS, b"").startswith(bytes(4)):  # the first user of the range is root
        selectors.discard(_UIDS)
    return bool(selectors)


def _tables_of_vrfs() -> set[int]:
    kind = attribute(INFO_KIND, b"vrf\0")
    tables = set()
    for number, message in ask(GETLINK, LINK_MESSAGE.pack(0, 0, 0, 0, 0) + attribute(LINKINFO, kind)):
        name, data = link_info(message)
        if number == NEWLINK and name == "vrf":  # kernels without VRF ignore the filter
            tables.add(integer(attributes(data).get(_VRF_TABLE, b"")))
    return tables
