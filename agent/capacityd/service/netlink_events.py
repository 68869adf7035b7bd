"""Changes of links and addresses, from rtnetlink(7), if they concern the configuration."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from capacityd.linux.netlink import DEFAULT_BITS, attributes, integer, listen, received
from capacityd.model.event_filters import AddressPattern, LinkFilter
from capacityd.model.reasons import PassReason

_LINK, _IPV4, _IPV6 = 0x1, 0x10, 0x100  # RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR
_ROUTES, _RULES = 0x440, 0x40080  # of both families: RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE, …
_AF_BRIDGE = 7
_NEWLINK, _DELLINK, _NEWADDR, _DELADDR, _NEWROUTE, _DELROUTE, _NEWRULE, _DELRULE = 16, 17, 20, 21, 24, 25, 32, 33
_IFADDRMSG, _IFINFOMSG = 8, 16  # bytes before the attributes
_IFA_ADDRESS, _IFA_LOCAL, _IFA_LABEL = 1, 2, 3
_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_PARENT_DEV_NAME, _IFLA_INFO_KIND = 3, 18, 56, 1
_DUPLICATE = 0x08  # IFA_F_DADFAILED
_SCOPE_LINK = 253  # and above: host, nowhere
_KINDS = ("bond", "team", "bridge", "vlan")  # others without hardware are "virtual"
_NETS = "/sys/class/net"


class LinkEvents:
    """Changes of network interfaces (rtnetlink): a change of carrier or name sends no udev event.

    Also changes of default routes, and of the rules that select routes, if the system's interfaces matter.
    """

    def __init__(self, concerned: LinkFilter) -> None:
        self._concerned = concerned
        self._socket = listen(_LINK | _ROUTES | _RULES if concerned.system else _LINK)
        # The indexes of the links whose name matches: another name is a change, too.
        self._named = {index for index, name in socket.if_nameindex() if self._matches("*", name)}

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reason for a pass, if any. An overflow is a reason."""
        relevant = [message is None or self._is_relevant(*message) for message in received(self._socket)]
        return {PassReason.LINKS} if any(relevant) else set()

    def close(self) -> None:
        self._socket.close()

    def _is_relevant(self, event: int, message: bytes) -> bool:
        if event in (_NEWROUTE, _DELROUTE):
            return len(message) > 1 and message[1] <= DEFAULT_BITS
        if event in (_NEWRULE, _DELRULE):
            return message[1:3] == bytes(2)  # for all addresses; network plugins add rules for those of pods
        if event not in (_NEWLINK, _DELLINK) or len(message) < _IFINFOMSG or message[0] == _AF_BRIDGE:
            return False
        values = attributes(message[_IFINFOMSG:])
        kind = _text(attributes(values.get(_IFLA_LINKINFO, b"")).get(_IFLA_INFO_KIND, b""))
        index, name = integer(message[4:8]), _text(values.get(_IFLA_IFNAME, b""))
        was_named = index in self._named
        self._named.discard(index)
        if event == _NEWLINK and self._matches(kind if kind in _KINDS else "virtual", name):
            self._named.add(index)
        # Drivers of hardware have no kind, except for those of a few buses (CAN). Kernels before 5.14 name no parent.
        is_hardware = not kind or _IFLA_PARENT_DEV_NAME in values or os.path.exists(f"{_NETS}/{name}/device")
        is_counted = was_named or index in self._named
        return is_hardware or is_counted or (self._concerned.system and _has_hardware_below(name))

    def _matches(self, kind: str, name: str) -> bool:
        return any(
            fnmatchcase(name, pattern.name) and (kind == "*" or pattern.kind in ("*", kind))
            for pattern in self._concerned.software
        )


class AddressEvents:
    """Addresses that were added or removed (rtnetlink).

    Ignores link-local addresses, which each pod has, unless the configuration counts some. Also ignores refreshes of
    lifetimes from router advertisements.
    """

    def __init__(self, concerned: Sequence[AddressPattern]) -> None:
        self._concerned = concerned
        self._socket = listen(_IPV4 | _IPV6)
        self._known: dict[bytes, int] = {}  # the added addresses, and whether another machine uses them

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reason for a pass, if any. An overflow is a reason."""
        overflow = relevant = False
        for message in received(self._socket):
            if message is None:
                overflow = True
            else:
                relevant = self._is_relevant(*message) or relevant
        if overflow:
            # A removal may have been lost. All queued messages are older than the overflow, so clear the set only now.
            self._known.clear()
        return {PassReason.ADDRESSES} if overflow or relevant else set()

    def close(self) -> None:
        self._socket.close()

    def _is_relevant(self, kind: int, message: bytes) -> bool:
        if kind not in (_NEWADDR, _DELADDR) or len(message) < _IFADDRMSG:
            return False
        values = attributes(message[_IFADDRMSG:])
        if not self._is_concerned(message, values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS, b""), values):
            return False
        local_and_peer = [bytes([key]) + values[key] for key in (_IFA_ADDRESS, _IFA_LOCAL) if key in values]
        address = message[:2] + message[3:_IFADDRMSG] + b"".join(local_and_peer)
        if kind == _DELADDR:
            self._known.pop(address, None)
            return True
        # The kernel adds an address before it knows whether another machine uses it.
        is_duplicate = message[2] & _DUPLICATE
        changed = self._known.get(address) != is_duplicate
        self._known[address] = is_duplicate
        return changed

    def _is_concerned(self, message: bytes, address: bytes, values: dict[int, bytes]) -> bool:
        """Whether the configuration may count this address."""
        interface = _text(values.get(_IFA_LABEL, b"")).partition(":")[0]  # only IPv4 has a label
        with suppress(OSError, OverflowError):
            interface = socket.if_indextoname(integer(message[4:8]))
        return any(
            (not interface or fnmatchcase(interface, pattern.interface)) and _is_in(address, pattern.network)
            for pattern in self._concerned
            if pattern.link_local or message[3] < _SCOPE_LINK
        )


def _is_in(address: bytes, network: str) -> bool:
    """Whether an address is in a network, such as 192.0.2.0/24."""
    start, _, length = network.partition("/")
    if network == "*":
        return True
    first = socket.inet_pton(socket.AF_INET6 if ":" in start else socket.AF_INET, start)
    ignored = len(first) * 8 - int(length)
    is_equal = int.from_bytes(first, "big") >> ignored == int.from_bytes(address, "big") >> ignored
    return len(first) == len(address) and is_equal


def _has_hardware_below(name: str) -> bool:
    """Whether packets of an interface leave by hardware, as those of a bond, bridge or VLAN do."""
    found, waiting = set[str](), [name]
    while waiting:
        if (name := waiting.pop()) in found:
            continue
        if os.path.exists(f"{_NETS}/{name}/device"):
            return True
        found.add(name)
        with suppress(OSError):  # it has gone
            entries = os.listdir(f"{_NETS}/{name}")
            waiting += [entry.removeprefix("lower_") for entry in entries if entry.startswith("lower_")]
    return False


def _text(value: bytes) -> str:
    """A string of the kernel, without the zero at its end."""
    return os.fsdecode(value.partition(b"\0")[0])
