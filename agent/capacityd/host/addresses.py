"""The IP addresses of this machine's interfaces, asked of the kernel by rtnetlink(7)."""

from __future__ import annotations

import os
import socket
import struct

from capacityd.errors import HostError
from capacityd.host import Address
from capacityd.host.netlink import ask, attributes
from capacityd.printable import printable

_NEWADDR, _GETADDR = 20, 22
_ADDRESS, _LOCAL, _FLAGS = 1, 2, 8
_TEMPORARY, _DUPLICATE = 0x01, 0x08  # of IPv6; of IPv4 the first means something else
_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host"}
_FAMILIES: dict[int, str] = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}
_MESSAGE = struct.Struct("BBBBi")


def addresses() -> list[Address]:
    """All of them, sorted; without those that another machine on the link turned out to have. Raises HostError."""
    found = []
    for kind, message in ask(_GETADDR, _MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0), "the addresses of interfaces"):
        family, prefix, flags, scope, index = _MESSAGE.unpack_from(message)
        said = attributes(message[_MESSAGE.size :])
        # Of a point-to-point link, "address" is the other end's.
        raw = said.get(_LOCAL) or said.get(_ADDRESS)
        if kind != _NEWADDR or family not in _FAMILIES or raw is None:
            continue
        if _FLAGS in said:
            flags = struct.unpack("I", said[_FLAGS])[0]
        v6 = family == socket.AF_INET6
        if not (v6 and flags & _DUPLICATE):
            text = socket.inet_ntop(family, raw)
            temporary = bool(v6 and flags & _TEMPORARY)
            scoped = _SCOPES.get(scope, str(scope))
            found.append(Address(_name(index), _FAMILIES[family], text, prefix, scoped, temporary))
    return sorted(found, key=lambda a: (a.interface, a.family, a.address))


def _name(index: int) -> str:
    try:
        return printable(socket.if_indextoname(index))
    except OSError as e:
        raise HostError(
            f"an interface went away while addresses were read: {os.strerror(e.errno or 0)}", e.errno
        ) from e
