"""The interfaces of default routes, asked of the kernel by rtnetlink(7).

/proc/net/route would be simpler, but of a route over several interfaces (ECMP: two uplinks with BGP) it shows only the
first, and the second would look as if nothing depended on it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from capacityd.errors import HostError

_GETROUTE, _NEWROUTE, _ERROR, _DONE = 26, 24, 2, 3
_REQUEST_DUMP, _INTERRUPTED = 0x301, 0x10
_OIF, _MULTIPATH, _TABLE = 4, 9, 15
_UNICAST = 1
_TABLES = (253, 254)  # default and main; others are for those that policy rules send there
_SOL_NETLINK, _GET_STRICT_CHK = 270, 12
_HEADER, _ROUTE, _ATTRIBUTE, _HOP = (
    struct.Struct("IHHII"),
    struct.Struct("8BI"),
    struct.Struct("HH"),
    struct.Struct("HBBi"),
)


def default_interfaces() -> list[str]:
    """The names of the interfaces that default routes of IPv4 and IPv6 leave by, sorted. Raises HostError."""
    try:
        numbers = {n for family in (socket.AF_INET, socket.AF_INET6) for n in _family(family)}
        return sorted(socket.if_indextoname(n) for n in numbers)
    except OSError as e:
        raise HostError(f"the routes could not be read: {os.strerror(e.errno or 0)}", e.errno) from e


def _family(family: int) -> Iterator[int]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as s:
        try:
            s.setsockopt(_SOL_NETLINK, _GET_STRICT_CHK, 1)  # then it leaves out IPv6's cached routes and other families
        except OSError:
            pass  # before Linux 4.20; all is filtered here anyway
        body = _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
        s.send(_HEADER.pack(_HEADER.size + len(body), _GETROUTE, _REQUEST_DUMP, 1, 0) + body)
        while True:
            data = s.recv(1 << 18)
            while data:
                length, kind, flags, _, _ = _HEADER.unpack_from(data)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("i", data, _HEADER.size)[0], "")
                if flags & _INTERRUPTED:
                    raise HostError("the routes changed while they were read")
                if kind == _NEWROUTE:
                    yield from _default(data[_HEADER.size : length])
                data = data[(length + 3) & ~3 :]


def _default(message: bytes) -> Iterator[int]:
    """The numbers of the interfaces that a route leaves by, if it is a default route. Dead next hops count, too."""
    _, bits, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(message)
    if bits or kind != _UNICAST:
        return
    found = dict(_attributes(message[_ROUTE.size :]))
    if _TABLE in found:
        table = struct.unpack("I", found[_TABLE])[0]
    if table not in _TABLES:
        return
    if _OIF in found:
        yield struct.unpack("i", found[_OIF])[0]
    hops = found.get(_MULTIPATH, b"")
    while hops:
        length, _, _, number = _HOP.unpack_from(hops)
        yield number
        hops = hops[(length + 3) & ~3 :]
    if not (_OIF in found or _MULTIPATH in found):
        raise HostError("there is a default route that does not tell its interface")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind & 0x3FFF, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]
