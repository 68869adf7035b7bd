"""A request ends in time as a whole, whatever arrives one byte after another.

The servers here are doubles: no real one drips on cue.
"""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacityd.model.errors import NodeUnreachable
from capacityd.node import client, open_node
from capacityd.node.deadline import DeadlineExceeded, run_within
from tests.support.server import read_request
from tests.support.tls import serve_tls
from tests.unit.node.test_credentials import config, written

# urllib3 1.26 does not close a socket if the connection ends while the proxy is asked for a tunnel.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

over = threading.Event()
"""Ends the servers and look-ups of a test."""


@pytest.fixture(autouse=True)
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    assert client.REQUEST_TIMEOUT == 30.0
    monkeypatch.setattr(client, "REQUEST_TIMEOUT", 0.3)
    over.clear()
    threads = {*threading.enumerate()}
    yield
    over.set()
    for thread in {*threading.enumerate()} - threads:
        thread.join()
    gc.collect()


def silent(_: socket.socket) -> None:
    over.wait()


def dripping(connection: socket.socket) -> None:
    """Sends a response whose headers never end, one byte after another, each long before a silence would count."""
    with connection.makefile("rb") as lines:
        read_request(lines)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.wait(0.02):
        connection.sendall(b"a")


FAULTS = {"headers": dripping, "tunnel": dripping, "silence": silent, "silent handshake": silent}


def read_from(kubeconfig: str) -> str:
    """Returns the error of a read."""
    with pytest.raises(NodeUnreachable) as raised:
        open_node(kubeconfig, None, "host", None).read()
    return str(raised.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_ends(tmp_path: Path, fault: str) -> None:
    with serve_tls(FAULTS[fault]) as server:
        cluster = {"server": server.url if "handshake" in fault else server.url.replace("https", "http")}
        if "tunnel" in fault:
            cluster = {"server": "https://192.0.2.1:6443", "proxy-url": cluster["server"]}
        path = written(tmp_path, config(cluster))
        assert read_from(path) == f"API server {cluster['server']} did not complete its response within 0.3 s"
        over.set()


def test_a_name_that_is_not_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver waits 5 s for each server and name, and no signal ends that."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait())
    path = written(tmp_path, config({"server": "https://api.example:6443"}))
    assert "API server https://api.example:6443 did not complete" in read_from(path)


def test_the_outcome_of_an_action_in_time() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    assert run_within(10.0, lambda: 3) == 3
    with pytest.raises(TimeoutError, match="its own"):
        run_within(10.0, fail)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.1 s"):
        run_within(0.1, over.wait)
