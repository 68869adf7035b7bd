"""A fake API server behind TLS. Each new connection gets the behaviour, such as a fault, that the test has set."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

from tests.cluster.credentials import Authority
from tests.support.server import Script, listening, read_request

Behaviour = Callable[[socket], None]
"""Handles a connection from its first byte on."""


def certificate(authority: Authority, name: str, names: str = "IP:127.0.0.1", days: int = 2) -> tuple[Path, Path]:
    """A server's certificate and key. names: in subjectAltName. days: until it expires (negative: it has expired)."""
    key = authority.key(name)
    request, signed = key.with_suffix(".csr"), key.with_suffix(".crt")
    new = ("req", "-new", "-config", authority.folder / "openssl.cnf", "-subj", "/CN=x", "-key", key)
    signer = ("-CA", authority.ca_file, "-CAkey", authority.folder / "ca.key", "-copy_extensions", "copy")
    for command in (
        (*new, "-addext", f"subjectAltName={names}", "-out", request),
        ("x509", "-req", "-in", request, *signer, "-days", f"{days}", "-out", signed),
    ):
        process = subprocess.run(["openssl", *command], capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
    return signed, key


def answers(script: Script, pair: tuple[Path, Path], clients: Path | None = None) -> Behaviour:
    """A behaviour that follows the script. clients: the authority that must have signed the clients' certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")  # the client decides what is too weak
    context.load_cert_chain(*pair)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED

    def behave(connection: socket) -> None:
        tls = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with tls, tls.makefile("rb") as lines:
            try:
                tls.do_handshake()
            except ssl.SSLError:
                while os.read(tls.fileno(), 1 << 16):  # unread data would cause a reset, which overtakes the alert
                    pass
                return
            if (request := read_request(lines)) is None:
                return
            tls.sendall(script(request) or b"")

    return behave


def closes_after_client_hello(connection: socket) -> None:
    """Closes the connection, like a load balancer without any server left."""
    connection.recv(1 << 16)


def resets_after_client_hello(connection: socket) -> None:
    """Closes the connection without reading the ClientHello, which causes a reset."""
    connection.recv(1)


def plain_http(connection: socket) -> None:
    """Sends the response of a server without TLS to a ClientHello."""
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


class TlsServer:
    """A running server. behave: handles each connection. connections: the number of connections so far."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.connections = 0
        self.url = ""


@contextmanager
def serve_tls(behave: Behaviour) -> Iterator[TlsServer]:
    """Runs a server. It begins with this behaviour, and the test may set another one."""

    def handle(connection: socket) -> None:
        server.connections += 1
        server.behave(connection)

    server = TlsServer(behave)
    with listening(handle) as address:
        server.url = f"https://{address}"
        yield server
