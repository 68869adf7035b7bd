"""A whole request ends in time, even if its response arrives byte by byte; tests/unit/cli/test_exit.py has more."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacityd.model.errors import NodeUnreachable
from capacityd.node import Machine, client, open_node
from capacityd.node.deadline import DeadlineExceeded, run_within
from tests.support.server import read_request
from tests.support.tls import serve_tls
from tests.unit.node.test_credentials import config, written

# urllib3 1.26 does not close a socket if the connection ends while it asks the proxy for a tunnel.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

over = threading.Event()
"""Ends the fake server of a test."""


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


def dripping(connection: socket.socket) -> None:
    """Sends a response with endless headers, byte by byte, with pauses much shorter than a read timeout."""
    with connection.makefile("rb") as lines:
        read_request(lines)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.wait(0.02):
        connection.sendall(b"a")


@pytest.mark.parametrize("is_proxy", [False, True])
def test_a_response_that_drips_ends_at_the_deadline(tmp_path: Path, is_proxy: bool) -> None:
    with serve_tls(dripping) as server:
        url = server.url.replace("https", "http")
        cluster = {"server": "https://192.0.2.1:6443", "proxy-url": url} if is_proxy else {"server": url}
        api_node = open_node(written(tmp_path, config(cluster)), None, Machine("host", None))
        with pytest.raises(NodeUnreachable, match=r"did not complete its response within 0\.3 s"):
            api_node.read()
        over.set()


def test_an_action_in_time_has_its_outcome_and_a_late_one_is_an_error() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    assert run_within(10.0, lambda: 3) == 3
    with pytest.raises(TimeoutError, match="its own"):
        run_within(10.0, fail)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.1 s"):
        run_within(0.1, over.wait)
