"""Notices changes of the network with rtnetlink(7). Each message is an event; its content is not parsed."""

from __future__ import annotations

from capacityd.linux.netlink import listen, read_all
from capacityd.model.reasons import KernelEvents, PassReason

# Multicast groups, as bits.
_LINKS = 0x1  # RTMGRP_LINK
_ADDRESSES = 0x10 | 0x100  # RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR
_ROUTES = 0x40 | 0x400  # RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_RULES = 0x80 | 0x40000  # RTMGRP_IPV4_RULE, and the bit of RTNLGRP_IPV6_RULE
_NEXT_HOPS = 1 << 31  # the bit of RTNLGRP_NEXTHOP

_GROUPS = {
    KernelEvents.LINKS: _LINKS,
    KernelEvents.ADDRESSES: _ADDRESSES,
    # When an address or a link goes away, the kernel removes its routes without a message about the routes.
    KernelEvents.ROUTES: _ROUTES | _RULES | _NEXT_HOPS | _ADDRESSES | _LINKS,
}


class NetlinkEvents:
    """Events of links, addresses or routes. Raises OSError."""

    def __init__(self, kind: KernelEvents) -> None:
        self._socket = listen(_GROUPS[kind])

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads the queued events. Returns the reason for a pass if there was an event."""
        return {PassReason.KERNEL} if read_all(self._socket) else set()

    def close(self) -> None:
        self._socket.close()
