"""Notices changes of the network with rtnetlink(7), and of mounts and swap areas by polling two files in /proc.

Each message of rtnetlink is an event, and is not parsed. The two files are not read, because the kernel reports a
change as an exceptional condition of the file (EPOLLPRI; proc_pid_mountinfo(5)).
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Iterable

from capacityd.linux.mountinfo import MOUNT_TABLE
from capacityd.model.reasons import KernelEvents, PassReason

_MAX_DATAGRAMS = 4096
"""The most events that one drain() removes, so that a flood of events does not stop the service."""

# Multicast groups, as bits.
_LINKS = 0x1  # RTMGRP_LINK
_ADDRESSES = 0x10 | 0x100  # RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR
_ROUTES = 0x40 | 0x400  # RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_RULES = 0x80 | 0x40000  # RTMGRP_IPV4_RULE, and the bit of RTNLGRP_IPV6_RULE
_NEXT_HOPS = 1 << 31  # the bit of RTNLGRP_NEXTHOP

GROUPS = {
    KernelEvents.LINKS: _LINKS,
    KernelEvents.ADDRESSES: _ADDRESSES,
    # When an address or a link goes away, the kernel removes its routes without a message about the routes.
    KernelEvents.ROUTES: _ROUTES | _RULES | _NEXT_HOPS | _ADDRESSES | _LINKS,
}
"""Kind of events -> the multicast groups to which the kernel sends their messages."""

PROC_FILES = {KernelEvents.MOUNTS: MOUNT_TABLE, KernelEvents.SWAPS: "/proc/swaps"}
"""Kind of events -> the file in /proc. The file of swap areas is missing if the kernel was built without swap."""


class NetlinkEvents:
    """Events of links, addresses or routes. Raises OSError."""

    def __init__(self, kinds: Iterable[KernelEvents]) -> None:
        groups = 0
        for kind in kinds:
            groups |= GROUPS[kind]
        self._socket = _listening_socket(groups)

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads the queued events. Returns the reason for a reconcile pass if there was an event."""
        return {PassReason.KERNEL} if discard_datagrams(self._socket) else set()

    def close(self) -> None:
        self._socket.close()


class ProcFileEvents:
    """Changes of the content of a file in /proc. Raises OSError."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._epoll = select.epoll()
        except OSError:
            os.close(self._file)
            raise
        # EPOLLPRI means that the content has changed. EPOLLIN is always set, because the file is always readable.
        self._epoll.register(self._file, select.EPOLLPRI | select.EPOLLERR)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def drain(self) -> set[PassReason]:
        """Clears the event. Returns the reason for a reconcile pass. Call it only if fileno() is readable.

        The caller's poll() has already cleared the file's EPOLLPRI, so this method can't check it again.
        """
        self._epoll.poll(0)
        return {PassReason.KERNEL}

    def close(self) -> None:
        self._epoll.close()
        os.close(self._file)


def _listening_socket(groups: int) -> socket.socket:
    """Returns a socket for rtnetlink events. groups: the multicast groups, as a bit mask. Raises OSError."""
    socket_type = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    listener = socket.socket(socket.AF_NETLINK, socket_type, socket.NETLINK_ROUTE)
    try:
        listener.bind((0, groups))
    except OSError:
        listener.close()
        raise
    return listener


def discard_datagrams(source: socket.socket) -> bool:
    """Removes the queued datagrams from a netlink socket, at most _MAX_DATAGRAMS. Returns whether there were any.

    An overflow of the queue counts as a datagram. Raises OSError.
    """
    for count in range(_MAX_DATAGRAMS):
        try:
            source.recv(1, socket.MSG_DONTWAIT)  # drops all other bytes of the datagram
        except BlockingIOError:
            return count > 0
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise
            # recv() has cleared the error, so reading continues.
    return True
