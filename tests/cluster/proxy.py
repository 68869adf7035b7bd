"""A proxy in front of the API server. A test decides what happens to a PATCH.

The proxy ends TLS with a certificate of the cluster's authority. So it forwards bearer tokens, but no client
certificates.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE


@dataclass(frozen=True, slots=True)
class Answer:
    """The API server's answer to a request."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Exchange(BaseHTTPRequestHandler):
    """A request. An Action of a test decides what happens to it."""

    protocol_version = "HTTP/1.1"
    body: bytes
    server: Proxy

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.command == "PATCH" and self.server.actions:
            action = self.server.actions.pop()
            action(self)
        else:
            self.relay()

    do_POST = do_PATCH = do_GET  # noqa: N815  # the names that the library looks for

    def relay(self) -> None:
        """Forwards the request, and the answer as it arrives."""
        with self._forwarded() as response:
            self._begin(response.status, response.getheaders(), chunked=response.chunked)
            while part := response.read1():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if response.chunked else part)
            if response.chunked:
                self.wfile.write(b"0\r\n\r\n")

    def fetch(self) -> Answer:
        """Forwards the request. Returns the answer, instead of sending it."""
        with self._forwarded() as response:
            return Answer(response.status, response.getheaders(), response.read())

    def send(self, answer: Answer) -> None:
        self._begin(answer.status, answer.headers)
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None: ...

    def _begin(self, status: int, headers: list[tuple[str, str]], chunked: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    @contextmanager
    def _forwarded(self) -> Iterator[http.client.HTTPResponse]:
        with self.server.upstream() as connection:
            connection.request(self.command, self.path, self.body, dict(self.headers))
            with connection.getresponse() as response:
                yield response


Action = Callable[[Exchange], None]


class Proxy(ThreadingHTTPServer):
    """A proxy that forwards every request, except for a PATCH that an action takes. fault_proxy() creates it.

    actions: the last one takes the next PATCH, and is removed.
    """

    daemon_threads = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.actions: list[Action] = []
        self.errors: list[BaseException] = []
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self._api_server = urlsplit(cluster.url)
        self._to_api_server = ssl.create_default_context(cafile=cluster.ca_file)
        self._open: set[socket.socket] = set()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*cluster.authority.server())
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @contextmanager
    def upstream(self) -> Iterator[http.client.HTTPSConnection]:
        """A connection to the API server, which ends with the proxy."""
        address = self._api_server
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=self._to_api_server)
        connection.connect()
        opened = connection.sock
        self._open.add(opened)
        try:
            yield connection
        finally:
            self._open.discard(opened)
            connection.close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Keeps the error for fault_proxy(), unless the service or the API server has only closed the connection."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, (OSError, http.client.HTTPException)):
            self.errors.append(error)

    def end(self) -> None:
        self.shutdown()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


@contextmanager
def fault_proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A proxy that runs until the context ends. Then raises an error that the proxy has kept."""
    proxy = Proxy(cluster)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.end()
        thread.join(PATIENCE)
    for error in proxy.errors:
        raise error
