"""Reads the lines of a response that does not end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from queue import Empty, Full, Queue
from typing import Any, TypeAlias

from capacityd.linux.thread import start_thread

MAX_LINE_BYTES = 4 << 20  # etcd stores Nodes of up to 1.5 MiB
_PIECE_BYTES = 1 << 16
"""Bytes to read at once."""
_MAX_QUEUED = 4
"""Lines in the queue. While the queue is full, nothing more is read, so the server has to wait."""
_PUT_TIMEOUT = 1.0
"""Seconds after which a thread that waits for room in the queue notices that the stream is closed."""

_Item: TypeAlias = bytes | Exception | None
"""b"" for the header, then each line without its end, then None for the end; or the exception that ended the stream."""


class Silence(Exception):
    """Nothing was received in time. The next call may still receive something."""


class LineTooLong(Exception):
    """A line has more than MAX_LINE_BYTES bytes."""


class LineStream:
    """A response that a thread opens and reads.

    Only with a thread can the time of each step be limited, including name resolution, and can reading continue after a
    timeout. The methods raise the thread's exceptions: those of open_response(), those of urllib3, and LineTooLong.
    """

    def __init__(self, open_response: Callable[[], Any]) -> None:
        """open_response: returns a response of urllib3 with chunks."""
        self._items: Queue[_Item] = Queue(_MAX_QUEUED)
        self._is_closed = False
        self._socket: socket.socket | None = None
        start_thread(partial(self._run, open_response))

    def wait_for_header(self, timeout: float) -> None:
        """Returns when the response has begun. Raises Silence if it does not within timeout seconds."""
        self._take(timeout)

    def next_line(self, timeout: float) -> bytes | None:
        """Returns the next line without its end; None if the response has ended. Call wait_for_header() before.

        Raises Silence if nothing is received within timeout seconds.
        """
        return self._take(timeout)

    def close(self) -> None:
        """Closes the connection. If it is still being opened, the thread closes it as soon as it is open."""
        self._is_closed = True
        if self._socket:
            with suppress(OSError):  # the server has closed the connection
                self._socket.shutdown(socket.SHUT_RDWR)

    def _take(self, timeout: float) -> bytes | None:
        try:
            item = self._items.get(timeout=timeout)
        except Empty:
            raise Silence from None
        if isinstance(item, Exception):
            raise item
        return item

    def _run(self, open_response: Callable[[], Any]) -> None:
        try:
            response = open_response()
            with (
                closing(response.connection),  # urllib3 would keep the connection for another request
                closing(response),
                # A duplicate of the descriptor, for close(): once urllib3 has closed its own, another file may get that
                # number.
                socket.socket(fileno=os.dup(response.fileno())) as self._socket,
            ):
                self._pass_on(response)
        except Exception as e:  # noqa: BLE001  # _take() raises it in the other thread
            self._put(e)

    def _pass_on(self, response: Any) -> None:
        """Passes on the header, the lines and the end. Stops early if the stream is closed."""
        self._put(b"")
        for line in _lines(response):
            if line and not self._put(line):  # an empty line has no content, and b"" stands for the header
                return
        self._put(None)

    def _put(self, item: _Item) -> bool:
        """Waits for room in the queue, and puts the item there. Returns False if the stream has been closed instead."""
        while not self._is_closed:
            try:
                self._items.put(item, timeout=_PUT_TIMEOUT)
            except Full:
                continue
            return True
        return False


def _lines(response: Any) -> Iterator[bytes]:
    """Yields each complete line without its end. Raises LineTooLong, and urllib3's exceptions."""
    line = bytearray()
    for piece in response.stream(_PIECE_BYTES, decode_content=False):
        rest_of_line, *next_lines = piece.split(b"\n")
        line += rest_of_line
        for next_line in next_lines:
            yield bytes(line)
            line = bytearray(next_line)
        if len(line) > MAX_LINE_BYTES:
            raise LineTooLong
