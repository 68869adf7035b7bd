"""rtnetlink(7): events from the kernel, with messages and attributes."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Literal

_HEADER = struct.Struct("IHHII")  # nlmsghdr: length, type, flags, sequence number, port
_ATTRIBUTE = struct.Struct("HH")  # nlattr: length, type
_TYPE_BITS = 0x3FFF  # the bits of the type, without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_BUFFER_BYTES = 1 << 18
_QUEUE_BYTES = 1 << 22  # of events that may wait
MAX_DEFAULT_PREFIX_BITS = 3
"""The longest prefix of a route that counts as a default route: several replace one, as 0.0.0.0/1 and 128.0.0.0/1 do,
and 2000::/3 contains all public addresses of IPv6."""


def listen(groups: int) -> socket.socket:
    """A socket that receives the events of these multicast groups, a bit mask of RTMGRP_*. Raises OSError."""
    socket_type = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    s = socket.socket(socket.AF_NETLINK, socket_type, socket.NETLINK_ROUTE)
    try:
        # The kernel caps the size at twice net.core.rmem_max. That is still more than the size without this option.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)
        s.bind((0, groups))
    except OSError:
        s.close()
        raise
    return s


def received(source: socket.socket) -> Iterator[tuple[int, bytes] | None]:
    """Reads all queued messages. Yields type and body of each, and None if an overflow has lost some.

    Raises OSError.
    """
    while True:
        try:
            data = source.recv(_BUFFER_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise
            yield None  # recv has cleared the error, so reading continues
            continue
        for message_type, _, body in _messages(data):
            yield message_type, body


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields type, flags and body of each complete message."""
    for header, body in pieces(data, _HEADER):
        _length, message_type, flags, _sequence_number, _port = header
        yield message_type, flags, body


def attributes(data: bytes) -> dict[int, bytes]:
    """The complete attributes of a message, by type."""
    return {type_ & _TYPE_BITS: value for (_length, type_), value in pieces(data, _ATTRIBUTE)}


def pieces(data: bytes, header: struct.Struct) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Yields the header's fields and the body of each complete message, attribute or next hop in the data.

    header: the layout of the header. Its first field is the length of header and body in bytes. The checks are the
    kernel's NLMSG_OK, RTA_OK and RTNH_OK.
    """
    while len(data) >= header.size:
        fields = header.unpack_from(data)
        length = fields[0]
        if not header.size <= length <= len(data):
            return
        yield fields, data[header.size : length]
        data = data[length + _padding(length) :]


def integer(value: bytes, *, signed: bool = False, order: Literal["little", "big"] = sys.byteorder) -> int:
    """An integer of the kernel, by default in the byte order of this machine. value: of any length; 0 if it is
    empty."""
    return int.from_bytes(value, order, signed=signed)


def attribute(type_: int, value: bytes) -> bytes:
    """An encoded attribute, for the body of a request."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, type_) + value + bytes(_padding(length))


def _padding(length: int) -> int:
    """The number of bytes after a piece of this length: each piece starts at a multiple of 4 bytes."""
    return -length % 4
