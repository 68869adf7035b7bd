"""A fake API server for watches. A test decides what it sends on each connection, and when."""

from __future__ import annotations

import json
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from capacityd.model.cluster_access import ClusterAccess
from tests.support.nodes import node
from tests.support.server import SILENCE, Request, answer, listening, read_request, reset

DEADLINE = 30.0
"""Seconds within which everything that a test waits for must happen."""
HEADER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def version(number: int = 1, name: str = "n1", **capacity: str) -> dict[str, Any]:
    """A Node with this resourceVersion and these extended resources of example.com."""
    document = node({f"example.com/{key}": value for key, value in capacity.items()})
    document["metadata"] |= {"name": name, "resourceVersion": str(number)}
    return document


class Stream:
    """A connection on which a client has requested a watch."""

    def __init__(self, connection: Any, request: Request) -> None:
        self.request = request
        self._connection = connection
        self._ended = threading.Event()

    def begin(self, header: bytes = HEADER) -> Stream:
        self._connection.sendall(header)
        return self

    def send(self, kind: str, content: object) -> Stream:
        """Sends an event."""
        self.write(json.dumps({"type": kind, "object": content}).encode() + b"\n")
        return self

    def write(self, data: bytes) -> None:
        """Sends a chunk."""
        self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def end(self) -> None:
        """Ends the response in order, and closes the connection."""
        self.raw(b"0\r\n\r\n")
        self.close()

    def close(self) -> None:
        """Closes the connection in the middle of the response."""
        self._ended.set()

    def reset(self) -> None:
        reset(self._connection)
        self.close()

    def wait_closed(self) -> None:
        """Waits until the client has closed the connection."""
        self._connection.settimeout(DEADLINE)
        with suppress(ConnectionError):
            assert self._connection.recv(1) == b"", "the client sends nothing"

    def wait_ended(self) -> None:
        self._ended.wait()


class WatchServer:
    """A running fake server."""

    def __init__(self) -> None:
        self.url = ""
        self.get: Callable[[Request], bytes] = lambda _: answer(200, version())
        """The response to a GET of the Node."""
        self.refuse: Callable[[Request], bytes | None] = lambda _: None
        """The response that refuses a watch. None: the watch is accepted, and the test continues the stream."""
        self.script: Callable[[Stream], object] | None = None
        """What the server does on each stream. None: accept() returns the stream to the test."""
        self.requests: list[Request] = []
        self.connects: list[Request | None] = []
        """The CONNECT requests that the server got as a proxy."""
        self.streams: list[Stream] = []
        """All streams so far."""
        self._waiting: queue.Queue[Stream] = queue.Queue()

    def accept(self) -> Stream:
        """Waits for the next watch."""
        return self._waiting.get(timeout=DEADLINE)

    def handle(self, connection: Any) -> None:
        with connection.makefile("rb") as lines:
            request = read_request(lines)
        if request is None:
            return
        self.requests.append(request)
        if "watch=" not in request.path:
            response = self.get(request)
            if response == SILENCE:
                connection.recv(1)  # until the client has disconnected
            else:
                connection.sendall(response)
            return
        if (refusal := self.refuse(request)) is not None:
            connection.sendall(refusal)
            return
        stream = Stream(connection, request)
        self.streams.append(stream)
        if self.script:
            self.script(stream)
        else:
            self._waiting.put(stream)
            stream.wait_ended()

    def close(self) -> None:
        for stream in self.streams:
            stream.close()


@contextmanager
def watch_server(
    script: Callable[[Stream], object] | None = None, pair: tuple[Path, Path] | None = None, *, via_proxy: bool = False
) -> Iterator[WatchServer]:
    """Runs a fake server. script: see WatchServer. pair: a certificate and its key, for TLS.

    via_proxy: whether the server also stands for a proxy, and first answers a CONNECT without TLS.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if pair:
        context.load_cert_chain(*pair)

    def handle(connection: socket.socket) -> None:
        if via_proxy:
            with connection.makefile("rb") as lines:
                server.connects.append(read_request(lines))
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        if pair:
            with context.wrap_socket(connection, server_side=True) as encrypted:
                server.handle(encrypted)
        else:
            server.handle(connection)

    server = WatchServer()
    server.script = script
    with listening(handle, daemon_threads=True) as address:
        server.url = f"{'https' if pair else 'http'}://{address}"
        try:
            yield server
        finally:
            server.close()


def target_of(server: WatchServer, url: str = "", node: str = "n1", **more: Any) -> ClusterAccess:
    """A watcher's target at this server. url: another URL than the server's. more: further fields of the target."""
    return ClusterAccess("/etc/kubeconfig", url or server.url, node=node, **more)
