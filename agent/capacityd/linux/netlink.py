"""rtnetlink(7): requests to the kernel and events from it, with messages and attributes."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

_ERROR, _DONE = 2, 3
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_SOL_NETLINK, _GET_STRICT_CHK = 270, 12
_HEADER, _ATTRIBUTE = struct.Struct("IHHII"), struct.Struct("HH")
_TYPE = 0x3FFF  # the type without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_BUFFER = 1 << 18
_QUEUE = 1 << 22  # bytes of events that may wait
DEFAULT_BITS = 3
"""The longest prefix of a route that replaces a default route: 0.0.0.0/1 and 128.0.0.0/1 together, or 2000::/3."""
_ATTEMPTS = 5
"""Requests for a list that changes while the kernel sends it, as iproute2 and libnl advise."""


def ask(kind: int, body: bytes, *, dump: bool = True) -> list[tuple[int, bytes]]:
    """Sends a request. Returns type and body of each message in the response. dump: whether it asks for a list.

    If the table changed during the read (NLM_F_DUMP_INTR), the list may be incomplete, so this asks again. Raises
    OSError with the kernel's errno, and EAGAIN if the table changed during each attempt.
    """
    for _ in range(_ATTEMPTS):
        answers, interrupted = [], False
        for answer_kind, flags, answer in _response(kind, body, dump=dump):
            interrupted = interrupted or bool(flags & _INTERRUPTED)
            answers.append((answer_kind, answer))
        if not interrupted:
            return [(answer_kind, answer) for answer_kind, answer in answers if answer_kind != _DONE]
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _response(kind: int, body: bytes, *, dump: bool) -> Iterator[tuple[int, int, bytes]]:
    """Sends a request. Yields type, flags and body of each message in the response, with the one that ends a list.

    Raises OSError with the kernel's errno.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as s:
        with suppress(OSError):  # kernels before Linux 4.20
            s.setsockopt(_SOL_NETLINK, _GET_STRICT_CHK, 1)  # otherwise, a dump ignores the filters in the body
        flags = _REQUEST | _DUMP if dump else _REQUEST
        s.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
        while True:
            data = s.recv(_BUFFER)
            for answer_kind, flags, answer in _messages(data):
                # The kernel also ends a list early with an error (netlink_dump_done), such as EMSGSIZE.
                number = -integer(answer[:4], signed=True)
                if answer_kind == _ERROR or (answer_kind == _DONE and number > 0):
                    raise OSError(number, os.strerror(number))
                yield answer_kind, flags, answer
                if answer_kind == _DONE:
                    return
            if not dump:
                return
            if not data:
                raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))


def listen(groups: int) -> socket.socket:
    """A socket that receives the events of these groups (RTMGRP_*). Raises OSError."""
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    s = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
    try:
        # The kernel allows at most twice net.core.rmem_max, which is more than the default.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE)
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
            data = source.recv(_BUFFER, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise
            yield None  # recv has cleared the error, so reading continues
            continue
        for kind, _, body in _messages(data):
            yield kind, body


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields type, flags and body of each complete message."""
    for (_, kind, flags, _, _), body in pieces(data, _HEADER):
        yield kind, flags, body


def attributes(data: bytes) -> dict[int, bytes]:
    """The complete attributes of a message, by type."""
    return {kind & _TYPE: value for (_, kind), value in pieces(data, _ATTRIBUTE)}


def pieces(data: bytes, header: struct.Struct) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Yields the header's fields and the body of each complete piece: NLMSG_OK, RTA_OK and RTNH_OK of the kernel.

    header: begins with the piece's length in bytes.
    """
    while len(data) >= header.size:
        fields = header.unpack_from(data)
        if not header.size <= fields[0] <= len(data):
            return
        yield fields, data[header.size : fields[0]]
        data = data[(fields[0] + 3) & ~3 :]


def integer(value: bytes, *, signed: bool = False, order: Literal["little", "big"] = sys.byteorder) -> int:
    """An integer of the kernel, by default in the byte order of this machine. value: of any length; 0 if it is
    empty."""
    return int.from_bytes(value, order, signed=signed)


def attribute(kind: int, value: bytes) -> bytes:
    """An encoded attribute, for the body of a request."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)
