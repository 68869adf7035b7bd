"""Events of rtnetlink(7) and of other netlink families, as far as to tell that there was one."""

from __future__ import annotations

import errno
import socket

_MAX_READS = 4096


def listen(groups: int) -> socket.socket:
    """A socket that receives the rtnetlink events of these multicast groups, a bit mask. Raises OSError."""
    socket_type = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    s = socket.socket(socket.AF_NETLINK, socket_type, socket.NETLINK_ROUTE)
    try:
        s.bind((0, groups))
    except OSError:
        s.close()
        raise
    return s


def read_all(source: socket.socket) -> bool:
    """Reads all queued datagrams of a netlink socket without their content. Returns whether there was one.

    An overflow, which has lost some, counts as one. At most _MAX_READS are read; the rest remains queued. Raises
    OSError.
    """
    was_any = False
    for _ in range(_MAX_READS):
        try:
            source.recv(1, socket.MSG_DONTWAIT)  # the rest of a datagram is dropped
        except BlockingIOError:
            break
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise
            # recv() has cleared the error, so reading continues.
        was_any = True
    return was_any
