"""The interfaces of the machine's default routes, from rtnetlink(7).

/proc/net/route would be simpler. But of a route over several interfaces (ECMP: two uplinks with BGP), it shows only the
first interface, so nothing would seem to depend on the others.
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
    retried_if_interface_vanishes,
)
from capacityd.linux.netlink import MAX_DEFAULT_PREFIX_BITS, ask, attribute, attributes, integer, pieces
from capacityd.model.errors import HostError

# Types of messages: RTM_NEWROUTE, …, RTM_NEWNEXTHOP, RTM_GETNEXTHOP
_NEWROUTE, _GETROUTE, _NEWRULE, _GETRULE, _NEWHOP, _GETHOP = 24, 26, 32, 34, 104, 106
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_UNICAST = 1  # a type of route: RTN_UNICAST
_TABLES = (253, 254)  # default and main
_OIF, _MULTIPATH, _TABLE, _NEXT_HOP = 4, 9, 15, 30  # attributes of a route: RTA_OIF, …, RTA_NH_ID
_ROUTE = struct.Struct("8BI")  # struct rtmsg and, with the same layout, fib_rule_hdr
_HOP = struct.Struct("HBBi")  # struct rtnexthop: length, flags, weight, interface
_HOP_MESSAGE = struct.Struct("4BI")  # struct nhmsg
_MEMBER = struct.Struct("IBBH")  # struct nexthop_grp: a member of a group of next hops; its id, and more
_HOP_ID, _HOP_GROUP, _HOP_OIF = 1, 2, 5  # attributes of a next hop: NHA_ID, NHA_GROUP, NHA_OIF
_VRF_TABLE = 1  # IFLA_VRF_TABLE

_TO_TABLE, _INVERT = 1, 0x2  # an action and a flag of a policy rule: FR_ACT_TO_TBL, FIB_RULE_INVERT
_IIF, _L3MDEV, _UIDS = 3, 19, 20  # attributes of a policy rule: FRA_*; FRA_TABLE has the number of RTA_TABLE
_NO_SELECTORS = (4, 6, 11, 13, 14, 15, 16, 18, 21)
"""The attributes of a rule that exclude none of the machine's own packets: goto, priority, realms, the suppressors,
table, the mask of an fwmark (the mark itself is an attribute only if it is not 0), padding and protocol. The others of
FRA_* in include/uapi/linux/fib_rules.h, and those of newer kernels, select packets."""


@dataclass(frozen=True, slots=True)
class _Route:
    """A default route: its interfaces by number, and its next-hop objects, which have interfaces of their own."""

    interfaces: frozenset[int]
    next_hop_ids: frozenset[int]


def default_interfaces() -> list[str]:
    """The names of the interfaces of default routes, IPv4 and IPv6, sorted. Raises HostError.

    A route to at least an eighth of all addresses is a default route, too: several of them replace one. Routes of
    these tables count: main, default, those that policy rules select for all packets, and those of VRFs, which carry
    the packets of programs in the VRF.
    """
    with kernel_errors("the routes"):
        return retried_if_interface_vanishes(_default_interfaces)


def _default_interfaces() -> list[str]:
    tables = _tables()
    numbers: set[int] = set()  # of interfaces
    next_hop_ids: set[int] = set()
    for family in _FAMILIES:
        for route in _default_routes(family, tables[family]):
            numbers |= route.interfaces
            next_hop_ids |= route.next_hop_ids
    if next_hop_ids:
        numbers |= _interfaces_of_next_hops(next_hop_ids)
    return sorted((socket.if_indextoname(number) for number in numbers), key=os.fsencode)


def _default_routes(family: int, tables: Collection[int]) -> Iterator[_Route]:
    """Yields the default routes in these tables. family: IPv4 or IPv6, as a number of the socket module."""
    for message_type, message in ask(_GETROUTE, _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
        route = _default_route(message, tables) if message_type == _NEWROUTE else None
        if route is not None:
            yield route


def _default_route(message: bytes, tables: Collection[int]) -> _Route | None:
    """The route in a message, if it is a default route of one of these tables. Dead next hops count as well."""
    _family, prefix_bits, _, _, short_table, _, _, route_type, _flags = _ROUTE.unpack_from(message)
    values = attributes(message[_ROUTE.size :])
    if prefix_bits > MAX_DEFAULT_PREFIX_BITS or route_type != _UNICAST or _table(values, short_table) not in tables:
        return None
    # An attribute that is missing is empty here, and contains no number.
    single = [number for (number,) in struct.iter_unpack("i", values.get(_OIF, b""))]
    several = [number for (_, _, _, number), _ in pieces(values.get(_MULTIPATH, b""), _HOP)]
    # With nexthop_compat_mode=0, the kernel names the next-hop object and none of its interfaces.
    next_hop_ids = [number for (number,) in struct.iter_unpack("I", values.get(_NEXT_HOP, b""))]
    if not (single or several or next_hop_ids):
        raise HostError("there is a default route without an interface")
    return _Route(interfaces=frozenset([*single, *several]), next_hop_ids=frozenset(next_hop_ids))


def _table(values: Mapping[int, bytes], short_table: int) -> int:
    """The number of a route's or rule's table. values: the attributes. short_table: from the header, only one byte."""
    return integer(values[_TABLE]) if _TABLE in values else short_table


def _interfaces_of_next_hops(wanted: Collection[int]) -> set[int]:
    """The numbers of the interfaces of next-hop objects, and of the members of groups. wanted: ids of the objects.

    Raises HostError if one of the objects is missing.
    """
    attributes_by_id: dict[int, dict[int, bytes]] = {}
    for message_type, message in ask(_GETHOP, _HOP_MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        if message_type == _NEWHOP:
            values = attributes(message[_HOP_MESSAGE.size :])
            if next_hop_id := integer(values.get(_HOP_ID, b"")):  # no next hop has the id 0
                attributes_by_id[next_hop_id] = values
    waiting = [*wanted]
    seen: set[int] = set()
    interfaces: set[int] = set()
    while waiting:
        next_hop_id = waiting.pop()
        if next_hop_id in seen:
            continue
        seen.add(next_hop_id)
        if next_hop_id not in attributes_by_id:
            raise HostError(f"the next hop {next_hop_id} of a default route does not exist")
        values = attributes_by_id[next_hop_id]
        waiting += [member for member, *_ in _MEMBER.iter_unpack(values.get(_HOP_GROUP, b""))]
        interfaces |= {number for (number,) in struct.iter_unpack("I", values.get(_HOP_OIF, b""))}
    return interfaces


def _tables() -> Mapping[int, set[int]]:
    """Family -> the numbers of the tables whose default routes count."""
    tables: defaultdict[int, set[int]] = defaultdict(lambda: {*_TABLES})
    has_vrf_rule = False
    for message in _rules():
        family, _, _, type_of_service, short_table, _, _, action, flags = _ROUTE.unpack_from(message)
        values = attributes(message[_ROUTE.size :])
        if _L3MDEV in values:  # one rule leads to the tables of all VRFs
            has_vrf_rule = True
        # An inverted rule applies to all packets but those that its attributes select, as wg-quick's "not fwmark".
        is_for_some_packets = bool(type_of_service) or _excludes_own_packets(values)
        is_inverted = bool(flags & _INVERT)
        if action == _TO_TABLE and (is_inverted or not is_for_some_packets):
            tables[family].add(_table(values, short_table))
    if has_vrf_rule:
        of_vrfs = _tables_of_vrfs()
        for family in _FAMILIES:
            tables[family] |= of_vrfs
    return tables


def _rules() -> list[bytes]:
    """The messages about policy rules; empty if the kernel has none (CONFIG_FIB_RULES)."""
    try:
        asked = ask(_GETRULE, _ROUTE.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0, 0, 0))
        return [message for message_type, message in asked if message_type == _NEWRULE]
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
        return []


def _excludes_own_packets(values: Mapping[int, bytes]) -> bool:
    """Whether a policy rule excludes packets that the machine's own programs send. An inversion is not considered.

    The kernel gives these packets the input interface lo, so a rule for lo excludes none. A rule for root's packets
    also counts as one that excludes none.
    """
    selectors = set(values) - set(_NO_SELECTORS)
    if values.get(_IIF) == b"lo\0":
        selectors.discard(_IIF)
    if values.get(_UIDS, b"").startswith(bytes(4)):  # the first user of the range is root
        selectors.discard(_UIDS)
    return bool(selectors)


def _tables_of_vrfs() -> set[int]:
    """The numbers of the tables of all VRFs. Raises OSError."""
    only_vrfs = attribute(LINKINFO, attribute(INFO_KIND, b"vrf\0"))
    tables = set()
    for message_type, message in ask(GETLINK, LINK_MESSAGE.pack(0, 0, 0, 0, 0) + only_vrfs):
        link_kind, data = link_info(message)
        if message_type == NEWLINK and link_kind == "vrf":  # kernels without VRF ignore the filter
            tables.add(integer(attributes(data).get(_VRF_TABLE, b"")))
    return tables
