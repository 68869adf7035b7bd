"""The kinds of interfaces, the interfaces that they use, and their addresses, from rtnetlink(7)."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from capacityd.linux.netlink import ask, attribute, attributes, integer
from capacityd.model.errors import HostError
from capacityd.model.host import Address
from capacityd.model.text import printable

_LINK_MESSAGE = struct.Struct("BxHiII")
"""struct ifinfomsg: family, type, the interface's number, flags, and a mask of flags."""

_NEWLINK, _GETLINK = 16, 18  # types of messages
_LINKINFO, _INFO_KIND = 18, 1  # IFLA_LINKINFO, and IFLA_INFO_KIND in it
_IFNAME, _LINK, _LINK_NAMESPACE = 3, 5, 37  # IFLA_IFNAME, IFLA_LINK, IFLA_LINK_NETNSID
_NEWADDR, _GETADDR = 20, 22
_ADDRESS, _LOCAL, _FLAGS = 1, 2, 8  # attributes of an address: IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS
_TEMPORARY, _DUPLICATE = 0x01, 0x08  # flags: IFA_F_TEMPORARY and IFA_F_DADFAILED; for IPv4, 0x01 has another meaning
_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host"}
_FAMILIES: dict[int, str] = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}
_ADDRESS_MESSAGE = struct.Struct("BBBBi")  # struct ifaddrmsg: family, prefix, flags, scope, interface
_ATTEMPTS = 5
"""Reads of a list whose interfaces disappear while it is read, as on a node whenever a pod ends."""

Answer = TypeVar("Answer")


@contextmanager
def kernel_errors(subject: str) -> Iterator[None]:
    """Turns errors into HostErrors with the kernel's errno. subject: the data being read, for the message."""
    try:
        yield
    except OSError as e:
        raise HostError(f"{subject} could not be read: {os.strerror(e.errno or 0)}", e.errno) from e
    except (struct.error, ValueError) as e:
        raise HostError(f"{subject} could not be read: the kernel sent an unexpected answer") from e


def _retried_if_interface_vanishes(read: Callable[[], Answer]) -> Answer:
    """Returns what read returns. Calls it again if an interface has disappeared meanwhile. Raises OSError.

    read: turns numbers of interfaces into names, and raises ENXIO for a number without an interface.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
    return read()


def link_kind(interface: str) -> str:
    """The kind of a virtual interface, as "ip -details link" shows it: team, macvlan, …; "" for hardware.

    Raises HostError, also if the interface does not exist.
    """
    with kernel_errors(f"the kind of {printable(interface)}"):
        values = attributes(_link(interface)[_LINK_MESSAGE.size :])
        info = attributes(values.get(_LINKINFO, b""))  # attributes in an attribute
        return printable(info.get(_INFO_KIND, b"").rstrip(b"\0"))


def linked_interface(interface: str) -> str:
    """The interface that the given one uses, as "ip link" shows it behind an @; "" if there is none.

    This is the interface that a tunnel is bound to, or the other end of a veth pair. "" if the used interface is in
    another network namespace. Raises HostError, also if the given interface does not exist.
    """
    with kernel_errors(f"the interface that {printable(interface)} uses"):
        message = _link(interface)
        _family, _type, own_number, *_ = _LINK_MESSAGE.unpack_from(message)
        values = attributes(message[_LINK_MESSAGE.size :])
        linked_number = integer(values.get(_LINK, b""))  # 0: none
        is_elsewhere = _LINK_NAMESPACE in values
        if linked_number in (0, own_number) or is_elsewhere:
            return ""
        return socket.if_indextoname(linked_number)


def _link(interface: str) -> bytes:
    """The kernel's message about an interface. Raises OSError, and ValueError for an unexpected answer."""
    body = _LINK_MESSAGE.pack(0, 0, 0, 0, 0) + attribute(_IFNAME, os.fsencode(interface) + b"\0")
    for message_type, message in ask(_GETLINK, body, dump=False):
        if message_type == _NEWLINK:
            return message
    raise ValueError  # kernel_errors() turns it into "the kernel sent an unexpected answer"


def addresses() -> list[Address]:
    """All addresses, sorted, without addresses that another machine on the link already uses. Raises HostError."""
    with kernel_errors("the addresses of interfaces"):
        found = _retried_if_interface_vanishes(lambda: [*_addresses()])
    return sorted(found, key=lambda address: (address.interface, address.family, address.address))


def _addresses() -> Iterator[Address]:
    """Yields the addresses in the kernel's order. Raises OSError."""
    for message_type, message in ask(_GETADDR, _ADDRESS_MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        family, prefix, flags, scope, interface = _ADDRESS_MESSAGE.unpack_from(message)
        values = attributes(message[_ADDRESS_MESSAGE.size :])
        # On a point-to-point link, _ADDRESS is that of the peer.
        raw = values.get(_LOCAL) or values.get(_ADDRESS)
        if message_type != _NEWADDR or family not in _FAMILIES or raw is None:
            continue
        if _FLAGS in values:  # all flags; the header has only the first eight
            (flags,) = struct.unpack("I", values[_FLAGS])
        is_ipv6 = family == socket.AF_INET6
        is_duplicate = is_ipv6 and flags & _DUPLICATE
        if is_duplicate:
            continue
        yield Address(
            interface=socket.if_indextoname(interface),
            family=_FAMILIES[family],
            address=socket.inet_ntop(family, raw),
            prefix=prefix,
            scope=_SCOPES.get(scope, str(scope)),
            temporary=bool(is_ipv6 and flags & _TEMPORARY),
        )
