"""Changes of links and addresses, from rtnetlink(7), if they concern the configuration."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from capacityd.linux.netlink import MAX_DEFAULT_PREFIX_BITS, attributes, integer, listen, received
from capacityd.model.event_filters import AddressPattern, LinkFilter
from capacityd.model.reasons import PassReason

# Groups of events.
_LINKS = 0x1  # RTMGRP_LINK
_ADDRESSES = 0x10 | 0x100  # RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR
_ROUTES = 0x40 | 0x400  # RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_RULES = 0x80 | 0x40000  # RTMGRP_IPV4_RULE, and the bit of RTNLGRP_IPV6_RULE
# Types of messages.
_NEWLINK, _DELLINK = 16, 17
_NEWADDR, _DELADDR = 20, 21
_NEWROUTE, _DELROUTE = 24, 25
_NEWRULE, _DELRULE = 32, 33
# Types of attributes. IFLA_INFO_KIND is inside of IFLA_LINKINFO.
_IFA_ADDRESS, _IFA_LOCAL, _IFA_LABEL = 1, 2, 3
_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_PARENT_DEV_NAME = 3, 18, 56
_IFLA_INFO_KIND = 1
_IFADDRMSG_BYTES, _IFINFOMSG_BYTES = 8, 16  # the part of a message before its attributes
_AF_BRIDGE = 7
_IFA_F_DADFAILED = 0x08  # duplicate address detection has found another machine with this address
_RT_SCOPE_LINK = 253  # a narrower scope has a larger number: host is 254
# Kinds of the detector nic. Its kind "virtual" is every other link without hardware.
_KINDS = ("bond", "team", "bridge", "vlan")
_NETS = "/sys/class/net"


class LinkEvents:
    """Changes of network interfaces (rtnetlink): a change of carrier sends no udev event.

    Also changes of default routes, and of the rules that select routes, if the configuration depends on the interfaces
    below the default routes (LinkFilter.system).
    """

    def __init__(self, link_filter: LinkFilter) -> None:
        self._filter = link_filter
        self._socket = listen(_LINKS | _ROUTES | _RULES if link_filter.system else _LINKS)
        # The indexes of the links that the configuration may count: if such a link gets another name, that is a change.
        self._counted = {index for index, name in socket.if_nameindex() if self._may_count(name, kind=None)}

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reason for a pass, if any. An overflow is a reason."""
        relevant = False
        for message in received(self._socket):
            if message is None or self._is_relevant(*message):  # None: an overflow
                relevant = True
        return {PassReason.LINKS} if relevant else set()

    def close(self) -> None:
        self._socket.close()

    def _is_relevant(self, message_type: int, message: bytes) -> bool:
        if message_type in (_NEWROUTE, _DELROUTE):
            # Default routes, and routes that replace one, have a short prefix.
            destination_bits = message[1:2]  # rtm_dst_len
            return bool(destination_bits) and destination_bits[0] <= MAX_DEFAULT_PREFIX_BITS
        if message_type in (_NEWRULE, _DELRULE):
            # dst_len and src_len of fib_rule_hdr are 0 in rules for all addresses. Others do not matter: network
            # plugins add rules for the addresses of pods.
            return message[1:3] == bytes(2)
        if message_type not in (_NEWLINK, _DELLINK) or len(message) < _IFINFOMSG_BYTES:
            return False
        family = message[0]  # ifi_family
        if family == _AF_BRIDGE:  # a port of a bridge; the link itself has another event
            return False
        return self._is_relevant_link(message_type, message)

    def _is_relevant_link(self, message_type: int, message: bytes) -> bool:
        index = integer(message[4:8])  # ifi_index
        values = attributes(message[_IFINFOMSG_BYTES:])
        link_info = attributes(values.get(_IFLA_LINKINFO, b""))
        kind = _text(link_info.get(_IFLA_INFO_KIND, b""))
        name = _text(values.get(_IFLA_IFNAME, b""))
        was_counted = index in self._counted
        self._counted.discard(index)
        nic_kind = kind if kind in _KINDS else "virtual"
        if message_type == _NEWLINK and self._may_count(name, kind=nic_kind):
            self._counted.add(index)
        if was_counted or index in self._counted:
            return True
        # A link with hardware always matters. Its driver has no kind, except on a few buses (CAN): there, its parent
        # shows the hardware. Kernels before 5.14 name no parent.
        if not kind or _IFLA_PARENT_DEV_NAME in values or os.path.exists(f"{_NETS}/{name}/device"):
            return True
        return self._filter.system and _has_hardware_below(name)

    def _may_count(self, name: str, *, kind: str | None) -> bool:
        """Whether the configuration may count a link without hardware. kind: None if unknown, so it may be any."""
        patterns = self._filter.software
        if kind is not None:
            patterns = tuple(pattern for pattern in patterns if pattern.kind in ("*", kind))
        return any(fnmatchcase(name, pattern.name) for pattern in patterns)


class AddressEvents:
    """Addresses that were added or removed (rtnetlink).

    Ignores link-local addresses, which each pod has, unless the configuration counts link-local addresses. Also ignores
    router advertisements that only refresh an address's lifetime.
    """

    def __init__(self, patterns: Sequence[AddressPattern]) -> None:
        """patterns: of the addresses that the configuration may count."""
        self._patterns = patterns
        self._socket = listen(_ADDRESSES)
        # The added addresses -> whether another machine uses them. The kernel reports an address again whenever its
        # lifetime is refreshed.
        self._addresses: dict[bytes, bool] = {}

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reason for a pass, if any. An overflow is a reason."""
        overflow = False
        relevant = False
        for message in received(self._socket):
            if message is None:
                overflow = True
            elif self._is_relevant(*message):
                relevant = True
        if overflow:
            # A removal may have been lost, so no known address is certain. The messages above were queued before the
            # overflow, so this comes after them.
            self._addresses.clear()
        return {PassReason.ADDRESSES} if overflow or relevant else set()

    def close(self) -> None:
        self._socket.close()

    def _is_relevant(self, message_type: int, message: bytes) -> bool:
        if message_type not in (_NEWADDR, _DELADDR) or len(message) < _IFADDRMSG_BYTES:
            return False
        values = attributes(message[_IFADDRMSG_BYTES:])
        if not self._may_count(message, values):
            return False
        # All of ifaddrmsg but its third byte, the flags, which change while the address stays.
        header = message[:2] + message[3:_IFADDRMSG_BYTES]
        own_and_peer = [bytes([key]) + values[key] for key in (_IFA_ADDRESS, _IFA_LOCAL) if key in values]
        address = header + b"".join(own_and_peer)
        if message_type == _DELADDR:
            self._addresses.pop(address, None)
            return True
        # The kernel adds an address before it knows whether another machine uses it.
        is_duplicate = bool(message[2] & _IFA_F_DADFAILED)
        changed = self._addresses.get(address) != is_duplicate
        self._addresses[address] = is_duplicate
        return changed

    def _may_count(self, message: bytes, values: dict[int, bytes]) -> bool:
        """Whether the configuration may count the address in this message. values: its attributes."""
        scope = message[3]  # ifa_scope
        index = integer(message[4:8])  # ifa_index
        # On a point-to-point link, IFA_ADDRESS is the peer's address.
        address = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS, b"")
        interface = _text(values.get(_IFA_LABEL, b"")).partition(":")[0]  # from eth0:1, for example; only IPv4 has it
        with suppress(OSError, OverflowError):  # the interface is gone, so the label decides
            interface = socket.if_indextoname(index)
        has_narrow_scope = scope >= _RT_SCOPE_LINK  # link or host
        for pattern in self._patterns:
            if has_narrow_scope and not pattern.link_local:
                continue
            may_be_named = not interface or fnmatchcase(interface, pattern.interface)
            if may_be_named and _is_in(address, pattern.network):
                return True
        return False


def _is_in(address: bytes, network: str) -> bool:
    """Whether an address is in a network, such as 192.0.2.0/24; "*" is every network."""
    if network == "*":
        return True
    prefix, _, prefix_bits = network.partition("/")
    first = socket.inet_pton(socket.AF_INET6 if ":" in prefix else socket.AF_INET, prefix)
    if len(first) != len(address):
        return False
    host_bits = len(first) * 8 - int(prefix_bits)
    return int.from_bytes(first, "big") >> host_bits == int.from_bytes(address, "big") >> host_bits


def _has_hardware_below(name: str) -> bool:
    """Whether packets of an interface leave by hardware, as those of a bond, bridge or VLAN do."""
    visited: set[str] = set()
    waiting = [name]
    while waiting:
        interface = waiting.pop()
        if interface in visited:
            continue
        if os.path.exists(f"{_NETS}/{interface}/device"):
            return True
        visited.add(interface)
        with suppress(OSError):  # the interface is gone
            # The kernel links the interfaces below as lower_eth0, for example.
            entries = os.listdir(f"{_NETS}/{interface}")
            waiting += [entry.removeprefix("lower_") for entry in entries if entry.startswith("lower_")]
    return False


def _text(value: bytes) -> str:
    """A string of the kernel, without the zero at its end."""
    return os.fsdecode(value.partition(b"\0")[0])
