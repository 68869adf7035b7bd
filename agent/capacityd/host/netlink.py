"""Asking the kernel by rtnetlink(7): one request, and the bodies of the messages that answer it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from capacityd.errors import HostError

_ERROR, _DONE = 2, 3
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_SOL_NETLINK, _GET_STRICT_CHK = 270, 12
_HEADER, _ATTRIBUTE = struct.Struct("IHHII"), struct.Struct("HH")


def ask(kind: int, body: bytes, what: str, dump: bool = True) -> Iterator[tuple[int, bytes]]:
    """The type and body of each message of the answer to a request of this type; dump: for all there are.

    Raises HostError, with the kernel's errno, that says what could not be read.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as s:
            try:
                s.setsockopt(_SOL_NETLINK, _GET_STRICT_CHK, 1)  # else a dump ignores what the body asks for
            except OSError:
                pass  # before Linux 4.20
            flags = _REQUEST | _DUMP if dump else _REQUEST
            s.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
            while True:
                data = s.recv(1 << 18)
                while data:
                    length, answer, flags, _, _ = _HEADER.unpack_from(data)
                    if answer == _DONE:
                        return
                    if answer == _ERROR:
                        raise OSError(-struct.unpack_from("i", data, _HEADER.size)[0], "")
                    if flags & _INTERRUPTED:
                        raise HostError(f"{what} changed while they were read")
                    yield answer, data[_HEADER.size : length]
                    data = data[(length + 3) & ~3 :]
                if not dump:
                    return
    except OSError as e:
        raise HostError(f"{what} could not be read: {os.strerror(e.errno or 0)}", e.errno) from e


def attributes(data: bytes) -> dict[int, bytes]:
    """A message's attributes: type -> value."""
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]
    return found


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute as a request holds it."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)
