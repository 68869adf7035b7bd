"""Notices events of rtnetlink(7) and of other netlink families, without their content."""

from __future__ import annotations

import errno
import socket

_MAX_READS = 4096


def listen(groups: int) -> socket.socket:
    """Returns a socket for rtnetlink events. groups: the multicast groups, as a bit mask. Raises OSError."""
    socket_type = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    s = socket.socket(socket.AF_NETLINK, socket_type, socket.NETLINK_ROUTE)
    try:
        s.bind((0, groups))
    except OSError:
        s.close()
        raise
    return s


def read_all(source: socket.socket) -> bool:
    """Removes the queued datagrams from a netlink socket, at most _MAX_READS. Returns whether there were any.

    An overflow of the queue, which loses datagrams, counts as a datagram. Raises OSError.
    """
    was_any = False
    for _ in range(_MAX_READS):
        try:
            source.recv(1, socket.MSG_DONTWAIT)  # drops all other bytes of the datagram
        except BlockingIOError:
            break
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise
            # recv() has cleared the error, so reading continues.
        was_any = True
    return was_any
