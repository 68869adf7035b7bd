"""Reads the lines of a response that does not end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from queue import Empty, Full, Queue
from typing import Any, TypeAlias

from capacityd.linux.thread import start_thread

MAX_LINE_BYTES = 4 << 20  # etcd stores Nodes of up to 1.5 MiB
_PIECE_BYTES = 1 << 16
_MAX_QUEUED = 4
"""Lines in the queue. While the queue is full, nothing more is read, so the server has to wait."""
_PUT_TIMEOUT = 1.0
"""Seconds after which a thread that waits for room in the queue notices that the stream is closed."""

Item: TypeAlias = bytes | Exception | None
"""A line without its end; b"": the response has begun; None: the response has ended; the exception that ended it."""


class Silence(Exception):
    """Nothing was received in time. The stream can still be used."""


class LineTooLong(Exception):
    """A line has more than MAX_LINE_BYTES."""


class LineStream:
    """A response that a thread opens and reads.

    Only with a thread can the time of each step be limited, including name resolution, and can reading continue after a
    timeout.
    """

    def __init__(self, open_response: Callable[[], Any]) -> None:
        """open_response: returns a response of urllib3 with chunks."""
        self._items: Queue[Item] = Queue(_MAX_QUEUED)
        self._is_closed = False
        self._socket: socket.socket | None = None
        start_thread(partial(self._run, open_response))

    def next_item(self, timeout: float) -> Item:
        """Returns the next item. Raises Silence if there is none within timeout seconds."""
        try:
            return self._items.get(timeout=timeout)
        except Empty:
            raise Silence from None

    def close(self) -> None:
        """Closes the connection. If it is still being opened, the thread closes it as soon as it is open."""
        self._is_closed = True
        if self._socket:
            with suppress(OSError):  # the server has closed it
                self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self, open_response: Callable[[], Any]) -> None:
        try:
            response = open_response()
        except Exception as e:  # noqa: BLE001  # the other thread handles it
            self._put(e)
            return
        # urllib3 would keep the connection for another request.
        with closing(response.connection), closing(response):
            try:
                # close() shuts the connection down through a descriptor of its own: once urllib3 has closed the other
                # one, another file may have its number.
                with socket.socket(fileno=os.dup(response.fileno())) as self._socket:
                    # Empty lines are left out: b"" stands for the beginning.
                    for item in chain([b""], filter(None, _lines(response)), [None]):
                        if not self._put(item):
                            break
            except Exception as e:  # noqa: BLE001  # the other thread handles it
                self._put(e)

    def _put(self, item: Item) -> bool:
        """Passes an item on. Returns whether the stream is still open."""
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
