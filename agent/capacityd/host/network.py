"""The interfaces of default routes, the kinds of interfaces, and their addresses, from rtnetlink(7).

/proc/net/route would be simpler. But for a route over several interfaces (ECMP: two uplinks with BGP), it shows only
the first, so nothing would seem to depend on the second.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from capacityd.linux.netlink import ask, attribute, attributes, pieces
from capacityd.model.errors import HostError
from capacityd.model.host import Address
from capacityd.model.text import printable

_NEWLINK, _GETLINK, _NEWROUTE, _GETROUTE = 16, 18, 24, 26
_IFNAME, _LINKINFO, _INFO_KIND = 3, 18, 1
_OIF, _MULTIPATH, _TABLE = 4, 9, 15
_UNICAST = 1
_TABLES = (253, 254)  # default and main; other tables are for packets that policy rules select
_LINK, _ROUTE, _HOP = struct.Struct("BxHiII"), struct.Struct("8BI"), struct.Struct("HBBi")
_NEWADDR, _GETADDR = 20, 22
_ADDRESS, _LOCAL, _FLAGS = 1, 2, 8
_TEMPORARY, _DUPLICATE = 0x01, 0x08  # for IPv6; for IPv4, 0x01 has another meaning
_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host"}
_FAMILIES: dict[int, str] = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}
_ADDRESS_MESSAGE = struct.Struct("BBBBi")


@contextmanager
def kernel_errors(subject: str) -> Iterator[None]:
    """Turns errors into HostErrors with the kernel's errno. subject: the data being read, for the message."""
    try:
        yield
    except OSError as e:
        raise HostError(f"{subject} could not be read: {os.strerror(e.errno or 0)}", e.errno) from e
    except (struct.error, ValueError) as e:
        raise HostError(f"{subject} could not be read: the kernel sent an unexpected answer") from e


def default_interfaces() -> list[str]:
    """The names of the interfaces of default routes, IPv4 and IPv6, sorted. Raises HostError."""
    with kernel_errors("the routes"):
        numbers = {n for family in (socket.AF_INET, socket.AF_INET6) for n in _default_routes(family)}
        return sorted(socket.if_indextoname(n) for n in numbers)


def link_kind(interface: str) -> str:
    """The kind of a virtual interface, as "ip -details link" shows it: team, macvlan, …; "" for hardware.

    Raises HostError, also if the interface does not exist.
    """
    body = _LINK.pack(0, 0, 0, 0, 0) + attribute(_IFNAME, os.fsencode(interface) + b"\0")
    subject = f"the kind of {printable(interface)}"
    with kernel_errors(subject):
        for kind, message in ask(_GETLINK, body, dump=False):
            if kind == _NEWLINK:
                info = attributes(attributes(message[_LINK.size :]).get(_LINKINFO, b""))
                return printable(info.get(_INFO_KIND, b"").rstrip(b"\0"))
    raise HostError(f"{subject} could not be read: the kernel sent an unexpected answer")


def _default_routes(family: int) -> Iterator[int]:
    """The indexes of the interfaces of a family's default routes."""
    for kind, message in ask(_GETROUTE, _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
        if kind == _NEWROUTE:
            yield from _interfaces_of_default(message)


def _interfaces_of_default(message: bytes) -> Iterator[int]:
    """The indexes of a route's interfaces, if it is a default route. Dead next hops count as well."""
    _, bits, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(message)
    if bits or kind != _UNICAST:
        return
    values = attributes(message[_ROUTE.size :])
    if _TABLE in values:
        table = struct.unpack("I", values[_TABLE])[0]
    if table not in _TABLES:
        return
    if _OIF in values:
        yield struct.unpack("i", values[_OIF])[0]
    for (_, _, _, number), _ in pieces(values.get(_MULTIPATH, b""), _HOP):
        yield number
    if not (_OIF in values or _MULTIPATH in values):
        raise HostError("there is a default route without an interface")


def addresses() -> list[Address]:
    """All addresses, sorted, without addresses that another machine on the link already uses. Raises HostError."""
    with kernel_errors("the addresses of interfaces"):
        return sorted(_addresses(), key=lambda a: (a.interface, a.family, a.address))


def _addresses() -> Iterator[Address]:
    for kind, message in ask(_GETADDR, _ADDRESS_MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        family, prefix, flags, scope, index = _ADDRESS_MESSAGE.unpack_from(message)
        values = attributes(message[_ADDRESS_MESSAGE.size :])
        # On a point-to-point link, "address" is the peer's.
        raw = values.get(_LOCAL) or values.get(_ADDRESS)
        if kind != _NEWADDR or family not in _FAMILIES or raw is None:
            continue
        if _FLAGS in values:
            flags = struct.unpack("I", values[_FLAGS])[0]
        v6 = family == socket.AF_INET6
        if not (v6 and flags & _DUPLICATE):
            text = socket.inet_ntop(family, raw)
            temporary = bool(v6 and flags & _TEMPORARY)
            scoped = _SCOPES.get(scope, str(scope))
            interface = printable(socket.if_indextoname(index))  # it may have disappeared
            yield Address(interface, _FAMILIES[family], text, prefix, scoped, temporary)
