"""Records the service's notifications to systemd: every line sent to NOTIFY_SOCKET, in order."""

from __future__ import annotations

import itertools
import socket
import threading
from pathlib import Path

from tests.cluster.processes import PATIENCE


class Notifications:
    """Receives on the socket at this path until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._received: list[str] = []
        self._news = threading.Condition()
        self._markers = itertools.count()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def all(self) -> list[str]:
        """All lines, such as READY=1, that were sent before this call and since the last clear()."""
        # Datagrams arrive in the order in which they were sent: when the marker arrives, all earlier lines have.
        marker = f"MARKER={next(self._markers)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(marker.encode(), str(self._path))
        with self._news:
            assert self._news.wait_for(lambda: marker in self._received, PATIENCE), "nothing is received"
            self._received.remove(marker)
            return list(self._received)

    def count(self, begin: str) -> int:
        """How many lines begin with this text."""
        return sum(line.startswith(begin) for line in self.all())

    def clear(self) -> None:
        """Forgets all lines sent before this call."""
        count = len(self.all())
        with self._news:
            del self._received[:count]

    def await_line(self, text: str) -> str:
        """Waits for the next line that contains this text. Returns the line, and forgets it and all lines before it."""

        def find() -> int | None:
            return next((n for n, line in enumerate(self._received, 1) if text in line), None)

        with self._news:
            number = self._news.wait_for(find, PATIENCE)
            assert number is not None, f"{text} was not sent, but {self._received}"
            line = self._received[number - 1]
            del self._received[:number]
            return line

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RD)
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while message := self._socket.recv(65536):
            with self._news:
                self._received += message.decode().splitlines()
                self._news.notify_all()
