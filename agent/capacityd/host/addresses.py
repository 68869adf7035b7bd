"""The IP addresses of this machine's interfaces, read by rtnetlink(7)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from capacityd.host.netlink import answers
from capacityd.linux.netlink import ask, attributes
from capacityd.model.errors import HostError
from capacityd.model.host import Address
from capacityd.model.text import printable

_NEWADDR, _GETADDR = 20, 22
_ADDRESS, _LOCAL, _FLAGS = 1, 2, 8
_TEMPORARY, _DUPLICATE = 0x01, 0x08  # of IPv6; of IPv4 the first means something else
_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host"}
_FAMILIES: dict[int, str] = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}
_MESSAGE = struct.Struct("BBBBi")


def addresses() -> list[Address]:
    """All of them, sorted; without those that another machine on the link already has. Raises HostError."""
    with answers("the addresses of interfaces"):
        return sorted(_addresses(), key=lambda a: (a.interface, a.family, a.address))


def _addresses() -> Iterator[Address]:
    for kind, message in ask(_GETADDR, _MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        family, prefix, flags, scope, index = _MESSAGE.unpack_from(message)
        found = attributes(message[_MESSAGE.size :])
        # Of a point-to-point link, "address" is the other end's.
        raw = found.get(_LOCAL) or found.get(_ADDRESS)
        if kind != _NEWADDR or family not in _FAMILIES or raw is None:
            continue
        if _FLAGS in found:
            flags = struct.unpack("I", found[_FLAGS])[0]
        v6 = family == socket.AF_INET6
        if not (v6 and flags & _DUPLICATE):
            text = socket.inet_ntop(family, raw)
            temporary = bool(v6 and flags & _TEMPORARY)
            scoped = _SCOPES.get(scope, str(scope))
            yield Address(_name(index), _FAMILIES[family], text, prefix, scoped, temporary)


def _name(index: int) -> str:
    try:
        return printable(socket.if_indextoname(index))
    except OSError as e:
        raise HostError(
            f"an interface went away while addresses were read: {os.strerror(e.errno or 0)}", e.errno
        ) from e
