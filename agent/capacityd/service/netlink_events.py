"""Changes of links and addresses, from rtnetlink(7). Ignores those of pods, which are frequent on a node."""

from __future__ import annotations

from capacityd.linux.netlink import attributes, listen, received
from capacityd.model.reasons import PassReason

_LINK, _IPV4, _IPV6 = 0x1, 0x10, 0x100  # RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR
_POD = b"veth\0"
_AF_BRIDGE = 7
_NEWADDR, _DELADDR = 20, 21
_IFADDRMSG, _IFINFOMSG = 8, 16  # bytes before the attributes
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFLA_LINKINFO, _IFLA_INFO_KIND = 18, 1
_SCOPE_LINK = 253  # and above: host, nowhere


class LinkEvents:
    """Changes of network interfaces (rtnetlink): a change of carrier or name sends no udev event."""

    def __init__(self) -> None:
        self._socket = listen(_LINK)

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reason for a pass, if any. An overflow is a reason."""
        relevant = [message is None or _is_of_host_link(message[1]) for message in received(self._socket)]
        return {PassReason.HARDWARE} if any(relevant) else set()

    def close(self) -> None:
        self._socket.close()


class AddressEvents:
    """Addresses that were added or removed (rtnetlink).

    Ignores pods' link-local addresses, and lifetime refreshes from router advertisements.
    """

    def __init__(self) -> None:
        self._socket = listen(_IPV4 | _IPV6)
        self._known: set[bytes] = set()

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
        return {PassReason.HARDWARE} if overflow or relevant else set()

    def close(self) -> None:
        self._socket.close()

    def _is_relevant(self, kind: int, message: bytes) -> bool:
        if kind not in (_NEWADDR, _DELADDR) or len(message) < _IFADDRMSG or message[3] >= _SCOPE_LINK:
            return False
        values = attributes(message[_IFADDRMSG:])
        local_and_peer = [bytes([key]) + values[key] for key in (_IFA_ADDRESS, _IFA_LOCAL) if key in values]
        address = message[:2] + message[3:_IFADDRMSG] + b"".join(local_and_peer)
        if kind == _DELADDR:
            self._known.discard(address)
            return True
        new = address not in self._known
        self._known.add(address)
        return new


def _is_of_host_link(message: bytes) -> bool:
    """Whether a message is about neither a pod's interface nor a bridge port."""
    return message[:1] != bytes([_AF_BRIDGE]) and _link_kind(message) != _POD


def _link_kind(message: bytes) -> bytes:
    """IFLA_INFO_KIND of a virtual interface, such as veth; empty for hardware."""
    info = attributes(message[_IFINFOMSG:]).get(_IFLA_LINKINFO, b"")
    return attributes(info).get(_IFLA_INFO_KIND, b"")
