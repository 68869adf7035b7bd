"""A fake HTTP server for responses that a real one cannot be made to send: garbage, half a response, a reset."""

from __future__ import annotations

import json
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


Script = Callable[[Request], "bytes | None"]
"""A function that returns the raw response to a request, after which the connection ends.

None: the connection is reset. SILENCE: the server never answers.
"""

SILENCE = b"\0silence"


def answer(status: int, body: object = b"", headers: str = "") -> bytes:
    """A raw HTTP response. A body that is not bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    always = f"Connection: close\r\nContent-Length: {len(content)}\r\n"
    return f"HTTP/1.1 {status} Some Reason\r\n{always}{headers}\r\n".encode() + content


def failure(status: int, message: str = "", details: Any = None, headers: str = "") -> bytes:
    """An API server's error response."""
    body = {"kind": "Status", "status": "Failure", "message": message, "details": details or {}, "code": status}
    return answer(status, body, headers)


def review(user: str, node: str = "") -> bytes:
    """A response that names the user (SelfSubjectReview). node: the Node to which the user's token is bound."""
    extra = {"authentication.kubernetes.io/node-name": [node]} if node else {}
    return answer(201, {"kind": "SelfSubjectReview", "status": {"userInfo": {"username": user, "extra": extra}}})


def read_request(stream: BufferedIOBase) -> Request | None:
    """The next request. None: the stream has ended."""
    if not (line := stream.readline().decode()):
        return None
    method, path, _ = line.split(" ")
    headers = {}
    while line := stream.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Request(method, path, headers, stream.read(int(headers.get("content-length", "0"))))


class Listener(socketserver.ThreadingTCPServer):
    """A server that does not shut down a connection before it closes it, so that a handler can cause a reset.

    server_close() raises the first error of a handler, such as a failed assertion, unless the client disconnected.
    """

    def __init__(self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(address, handler)
        self._errors: list[BaseException] = []

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self._errors.append(error)

    def server_close(self) -> None:
        super().server_close()
        if self._errors:
            raise self._errors[0]

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)


class Server:
    """The requests that the server received, and its address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.received: list[Request] = []


@contextmanager
def serve(script: Script) -> Iterator[Server]:
    """Runs a server that answers each request as the script says."""

    def handle(connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            request = read_request(lines)
            assert request is not None, "a client that connects sends a request"
            server.received.append(request)
            response = script(request)
            if response == SILENCE:
                lines.read()  # until the client has disconnected
            elif response is None:
                reset(connection)
            else:
                connection.sendall(response)

    with listening(handle) as address:
        server = Server(f"http://{address}")
        yield server


def reset(connection: socket.socket) -> None:
    """Makes the close of a connection send a reset."""
    linger = struct.pack("ii", 1, 0)  # linger on close, for 0 s
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@contextmanager
def listening(handle: Callable[[socket.socket], None], daemon_threads: bool = False) -> Iterator[str]:
    """Handles each connection in its own thread. Yields the address, as HOST:PORT.

    daemon_threads: whether the end of the context does not wait for these threads.
    """

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client has disconnected
                handle(self.request)

    with Listener(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = daemon_threads
        with serving(listener):
            yield f"127.0.0.1:{listener.server_address[1]}"


@contextmanager
def serving(listener: socketserver.BaseServer) -> Iterator[None]:
    """Serves in a thread while the with block runs."""
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        listener.shutdown()
        thread.join()
