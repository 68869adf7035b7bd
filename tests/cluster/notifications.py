"""Records the service's notifications to systemd: every message sent to NOTIFY_SOCKET, in order."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.processes import PATIENCE

_SO_TIMESTAMPNS = 35
"""The socket module lacks this constant. Source: asm-generic/socket.h."""

_TIMESPEC = struct.Struct("qq")


@dataclass(frozen=True, slots=True)
class Notification:
    """line: such as READY=1. at: when it was sent (not received), in seconds of time.monotonic()."""

    line: str
    at: float


class Notifications:
    """Receives on the socket at this path until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._received: list[Notification] = []
        self._news = threading.Condition()
        self._markers = itertools.count()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def all(self) -> list[Notification]:
        """All messages sent before this call and since the last clear()."""
        # Datagrams arrive in the order in which they were sent: when the marker arrives, all earlier messages have.
        marker = f"MARKER={next(self._markers)}"
        self._send(marker)
        with self._news:
            there = self._news.wait_for(lambda: any(n.line == marker for n in self._received), PATIENCE)
            assert there, "what is sent to the socket is not received"
            self._received = [n for n in self._received if n.line != marker]
            return list(self._received)

    def times(self, line: str) -> list[float]:
        """The times at which this line was sent. A line that ends with "=" matches all lines with this prefix."""
        return [n.at for n in self.all() if n.line == line or (line.endswith("=") and n.line.startswith(line))]

    def clear(self) -> None:
        """Forgets all messages sent before this call."""
        count = len(self.all())
        with self._news:
            del self._received[:count]

    def await_line(self, wanted: str) -> str:
        """Waits for the next line that contains this text. Returns the line, and forgets it and all lines before it."""

        def find() -> int | None:
            return next((n for n, received in enumerate(self._received, 1) if wanted in received.line), None)

        with self._news:
            number = self._news.wait_for(find, PATIENCE)
            assert number is not None, f"{wanted} was not sent, but {[n.line for n in self._received]}"
            line = self._received[number - 1].line
            del self._received[:number]
            return line

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RD)
        self._thread.join()
        self._socket.close()

    def _send(self, message: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(message.encode(), str(self._path))

    def _receive(self) -> None:
        while True:
            message, ancillary, *_ = self._socket.recvmsg(65536, socket.CMSG_SPACE(_TIMESPEC.size))
            if not message:
                return
            ((_, _, stamp),) = ancillary
            seconds, nanoseconds = _TIMESPEC.unpack(stamp)
            at = time.monotonic() - (time.time() - (seconds + nanoseconds / 1e9))
            with self._news:
                self._received += [Notification(line, at) for line in message.decode().splitlines()]
                self._news.notify_all()
