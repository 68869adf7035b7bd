"""The watcher as a real process, connected to a fake API server that sends what each test wants."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from capacityd.model.fingerprint import fingerprint
from capacityd.model.messages import NodeSeen
from tests import ROOT
from tests.cluster.credentials import Authority
from tests.support.server import answer, failure
from tests.support.tls import certificate
from tests.support.watch_server import Stream, WatchServer, target_of, version, watch_server
from tests.support.watching import BRIEF, Watching, watching

pytestmark = pytest.mark.slow

SHORT = 0.1
"""A connection that has lasted these seconds counts as long, in tests that end a connection."""


@pytest.fixture
def server() -> Iterator[WatchServer]:
    with watch_server() as running:
        yield running


def accept_watch(server: WatchServer, number: int = 1, **capacity: str) -> Stream:
    """Accepts the watcher's next request, and sends the Node as its first event."""
    stream = server.accept().begin()
    stream.send("ADDED", version(number, **capacity))
    return stream


def test_only_a_change_that_a_plan_may_depend_on_is_reported(server: WatchServer) -> None:
    with watching(target_of(server)) as watcher:
        stream = accept_watch(server, 1, dongle="1")
        first = watcher.wait_seen(1)
        heartbeat = version(2, dongle="1")
        heartbeat["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}]
        stream.send("MODIFIED", heartbeat)
        stream.send("BOOKMARK", {"kind": "Node"})
        stream.send("MODIFIED", version(3, dongle="2"))
        second = watcher.wait_seen(2)
        stream.send("DELETED", version(4, dongle="2"))
        assert watcher.wait_seen(3) == NodeSeen("")
        stream.send("ADDED", version(5, dongle="1"))
        assert watcher.wait_seen(4) == first
    assert first != second


def test_the_request_selects_one_node_by_its_name(server: WatchServer) -> None:
    target = target_of(server, node="a,b=c\\d&e", token="t")  # the name has all characters that must be escaped
    with watching(target) as watcher:
        server.accept().begin().send("ADDED", version(name="a,b=c\\d&e"))
        watcher.wait_seen()
    (request,) = server.requests
    assert request.path == (
        "/api/v1/nodes?watch=1&allowWatchBookmarks=true&fieldSelector=metadata.name=a%5C%2Cb%5C=c%5C%5Cd%26e"
    )
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["user-agent"].startswith("capacityd/")


def test_a_node_that_does_not_exist_yet_is_seen_when_it_is_created(server: WatchServer) -> None:
    """Without a Node, the API server sends only a bookmark, at first."""
    with watching(target_of(server)) as watcher:
        stream = server.accept().begin()
        stream.send("BOOKMARK", {"kind": "Node"})
        assert watcher.wait_seen(1) == NodeSeen("")
        stream.send("ADDED", version())
        assert watcher.wait_seen(2) != NodeSeen("")
    assert len(server.requests) == 1


def test_only_whole_events_are_signs_of_life(server: WatchServer) -> None:
    """The service ends a watcher that shows no sign of life, for example if its response arrives byte by byte."""
    with watching(target_of(server), _SIGN_PERIOD=0.0) as watcher:
        stream = server.accept()
        watcher.wait(lambda: watcher.signs == 1, "it connects")
        stream.begin()
        for _ in range(50):
            stream.write(b"\n")
        event = event_line("ADDED", version())
        for number in range(len(event)):
            stream.write(event[number : number + 1])
        watcher.wait_seen(1)
        assert watcher.signs == 1
        stream.send("BOOKMARK", {"kind": "Node"})
        watcher.wait(lambda: watcher.signs == 2, "it has received a bookmark")
    assert len(watcher.messages) == 1


def test_a_watcher_that_pauses_shows_that_it_lives(server: WatchServer) -> None:
    server.refuse = lambda _: failure(429, "later", headers="Retry-After: 50\r\n")
    with watching(target_of(server), _SIGN_PERIOD=0.1) as watcher:
        watcher.wait_not_watched()
        watcher.wait(lambda: watcher.signs >= 5, "it shows that it lives")


def send_in_chunks(stream: Stream, line: bytes, size: int) -> None:
    stream.begin()
    for position in range(0, len(line), size):
        stream.write(line[position : position + size])


FRAMES: dict[str, Callable[[Stream, bytes], object]] = {
    "a line in several chunks": lambda s, line: send_in_chunks(s, line, size=50),
    "one byte in each chunk": lambda s, line: send_in_chunks(s, line, size=1),
    "ended by closing": lambda s, line: s.begin(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").raw(line),
    "HTTP 1.0": lambda s, line: s.begin(b"HTTP/1.0 200 OK\r\n\r\n").raw(line),
    "Content-Length": lambda s, line: s.begin(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n").raw(line),
}
"""Ways to begin an HTTP response and to send a line in it."""


@pytest.mark.parametrize("how", FRAMES)
def test_a_response_in_each_framing_is_read(server: WatchServer, how: str) -> None:
    """A proxy may not use chunks (nginx with chunked_transfer_encoding off)."""
    with watching(target_of(server)) as watcher:
        stream = server.accept()
        FRAMES[how](stream, json.dumps({"type": "ADDED", "object": version()}).encode() + b"\n")
        watcher.wait_seen()


@pytest.mark.parametrize("end", [Stream.end, Stream.close, Stream.reset])
def test_a_cut_is_not_reported_if_the_next_connection_works(
    server: WatchServer, end: Callable[[Stream], object]
) -> None:
    with watching(target_of(server), LONG_CONNECTION=SHORT) as watcher:
        stream = accept_watch(server)
        watcher.wait_seen(1)
        Event().wait(2 * SHORT)
        end(stream)
        accept_watch(server, 2)
        assert watcher.wait_seen(2) == watcher.messages[0]


def test_each_failed_attempt_is_reported(server: WatchServer) -> None:
    server.refuse = lambda _: failure(503, "starting")
    with watching(target_of(server)) as watcher:
        first, second = watcher.wait_messages(2)
        assert first == second
        server.refuse = lambda _: None
        accept_watch(server)
        watcher.wait_last("NodeSeen")


@pytest.mark.parametrize(("header", "obeyed"), [("1", True), ("99999999999", False), ("Wed, 21 Oct 2026", False)])
def test_retry_after_is_obeyed_within_bounds(server: WatchServer, header: str, obeyed: bool) -> None:
    times: list[float] = []

    def refuse(_: object) -> bytes | None:
        times.append(time.monotonic())
        return failure(429, "later", headers=f"Retry-After: {header}\r\n") if len(times) == 1 else None

    server.refuse = refuse
    with watching(target_of(server)) as watcher:
        accept_watch(server)
        watcher.wait_seen(2)
    assert (times[1] - times[0] >= 2 / 3) is obeyed


def event_line(kind: object, content: object) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


def error_line(code: object) -> bytes:
    return event_line("ERROR", {"kind": "Status", "message": "s3cret", "reason": "Expired", "code": code})


UNUSABLE = "has sent an event that cannot be used"
DAMAGED: dict[str, tuple[bytes, str]] = {  # what the server sends, and a part of the reported reason
    "too old": (error_line(410), "(HTTP 410)"),
    "denied": (error_line(401), "(HTTP 401)"),
    "an error without a code": (error_line(None), UNUSABLE),
    "not JSON": (b"<html>s3cret\n", UNUSABLE),
    "not UTF-8": (b'{"type": "\xff"}\n', UNUSABLE),
    "nested too deeply": (b"[" * 100_000 + b"\n", UNUSABLE),
    "a deep Node": (event_line("ADDED", version())[:-3] + b', "x": ' + b'{"x":' * 5000 + b"\n", UNUSABLE),
    "not an object": (b"[]\n", UNUSABLE),
    "a text as object": (event_line("ADDED", "s3cret"), UNUSABLE),
    "another Node": (event_line("ADDED", version(name="s3cret")), "has sent an event about another Node"),
    "a long line": (b"x" * ((4 << 20) + 1), "has sent an event of more than 4 MiB"),
}
LOST: dict[str, bytes] = {  # what the server sends, outside of a chunk, before it closes the connection
    "closed in a chunk": b"100\r\nabc",  # 3 of 0x100 bytes
    "a damaged chunk": b"zz\r\n",
}


@pytest.mark.parametrize("how", [*DAMAGED, *LOST])
def test_after_a_damaged_event_the_watcher_connects_again(server: WatchServer, how: str) -> None:
    with watching(target_of(server)) as watcher:
        stream = server.accept().begin()
        if how in LOST:
            message = "has closed the connection, or sent a damaged response"
            stream.raw(LOST[how])
            stream.close()
        else:
            sent, message = DAMAGED[how]
            with suppress(OSError):  # the watcher closes the connection in the middle of a long line
                stream.write(sent)
        reason = watcher.wait_not_watched(1).reason
        assert message in reason
        assert "s3cret" not in reason
        accept_watch(server)
        watcher.wait_last("NodeSeen")


ODD: tuple[dict[str, Any], ...] = (
    {**version(), "status": 1},
    {**version(), "status": {"capacity": [1]}},
    {**version(), "status": {"conditions": {"a": 1}}},
    {**version(), "status": {"conditions": [1]}},
)


def test_a_node_with_odd_parts_counts_as_changed() -> None:
    """Then the service makes a pass, which reports what is wrong."""
    assert fingerprint(version()) not in {fingerprint(odd) for odd in ODD}


UNREACHABLE = "cannot be reached, or its response is damaged"
REFUSALS: dict[str, tuple[bytes, str, bool]] = {  # the response, a part of the reported reason, look_now
    "401": (failure(401, "s3cret"), "rejected the watcher's credentials (HTTP 401)", True),
    "403": (failure(403, "s3cret"), 'needs a role with the verb "watch" on "nodes"', False),
    "302": (answer(302, headers="Location: http://192.0.2.1/\r\n"), "(HTTP 302)", False),
    "garbage": (b"garbage s3cret\r\n\r\n", UNREACHABLE, False),
    "nothing": (b"", UNREACHABLE, False),
}


@pytest.mark.parametrize("how", REFUSALS)
def test_each_refusal_is_reported_and_tried_again(server: WatchServer, how: str) -> None:
    response, message, look_now = REFUSALS[how]
    server.refuse = lambda _: response
    with watching(target_of(server)) as watcher:
        failed = watcher.wait_not_watched(1)
        assert message in failed.reason
        assert "s3cret" not in failed.reason
        assert failed.look_now is look_now
        server.refuse = lambda _: None
        accept_watch(server)
        watcher.wait_last("NodeSeen")


def test_a_server_that_does_not_answer_is_reported(server: WatchServer) -> None:
    with watching(target_of(server), **BRIEF) as watcher:
        server.accept()
        assert "has not answered a watch of the Node in time" in watcher.wait_not_watched().reason


def test_a_live_address_is_found_after_dead_ones(server: WatchServer) -> None:
    """A dead address drops connections, because the queue of its listening socket is full."""
    port = urlsplit(server.url).port
    dead = []
    for number in (2, 3, 4):
        full = socket.create_server((f"127.0.0.{number}", port or 0), backlog=0)
        waiting = [socket.socket() for _ in range(2)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        dead += [full, *waiting]
    # as getaddrinfo() returns them: AF_INET, SOCK_STREAM, IPPROTO_TCP, no canonical name, the address
    addresses = [(2, 1, 6, "", (f"127.0.0.{number}", port)) for number in (2, 3, 4, 1)]
    resolve = f"import socket\nsocket.getaddrinfo = lambda *_, **__: {addresses}\n"
    target = target_of(server, f"http://api.example:{port}")
    watcher = Watching(target, limits=BRIEF, before=resolve)
    try:
        accept_watch(server)
        watcher.wait_seen(1)
    finally:
        assert watcher.end() == ""
        for opened in dead:
            opened.close()


def test_a_server_that_is_not_there_is_named(server: WatchServer) -> None:
    with watching(target_of(server, "http://127.0.0.1:1")) as watcher:
        assert watcher.wait_not_watched().reason.endswith("cannot be reached: Connection refused")


def test_the_watcher_does_not_grow_with_events_and_connections(server: WatchServer) -> None:
    with watching(target_of(server), LONG_CONNECTION=0.0) as watcher:
        process = psutil.Process(watcher.process.pid)
        sizes = []
        for _ in range(3):
            for _ in range(30):
                stream = accept_watch(server, 0, dongle="1")
                for number in range(1, 100):
                    stream.send("MODIFIED", version(number, dongle="1"))
                stream.end()
            sizes.append(process.memory_full_info().uss)
        assert {type(message) for message in watcher.messages} == {NodeSeen}
    assert sizes[2] - sizes[1] < 1 << 20  # 1 MiB


@pytest.mark.parametrize("paused", [False, True])
def test_the_watcher_does_not_outlive_the_service(server: WatchServer, paused: bool) -> None:
    """paused: the service ends while the watcher waits for its next attempt, and not for an event."""
    if paused:
        server.refuse = lambda _: failure(429, "later", headers="Retry-After: 3000\r\n")
    watcher = Watching(target_of(server))
    try:
        if not paused:
            accept_watch(server)
        watcher.wait_messages(1)
        assert watcher.process.stdin
        watcher.process.stdin.close()  # as the kernel does when the service is killed
        assert watcher.wait_ended() == 0
    finally:
        assert watcher.end() == ""


def test_the_watcher_imports_little() -> None:
    program = "import sys, capacityd.watcher.main; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    loaded = set(done.stdout.split())
    assert "http.client" in loaded
    assert not loaded & {"dataclasses", "typing", "kubernetes", "urllib3", "yaml", "asyncio", "ctypes", "argparse"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("tls") / "authority")


def test_a_watch_trusts_only_its_authority_and_server_name(authority: Authority, tmp_path: Path) -> None:
    ca = authority.ca_file.read_text()
    other = Authority.create(tmp_path / "other").ca_file.read_text()
    pair = certificate(authority, "elsewhere", "DNS:elsewhere.example")
    refused = "presented a certificate that the watcher does not accept"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"authority": f"Ein Zertifikat für n1:\n{ca}", "server_name": "elsewhere.example"}, "NodeSeen"),  # not ASCII
        ({"authority": other, "verify": False}, "NodeSeen"),
        ({"authority": ca}, refused),
        ({"authority": other, "server_name": "elsewhere.example"}, refused),
        ({"authority": "garbage"}, "cannot be watched with these certificates"),
    ]
    with watch_server(lambda stream: stream.begin().send("ADDED", version()).wait_closed(), pair) as server:
        for access, message in cases:
            with watching(target_of(server, **access)) as watcher:
                watcher.wait_last(message)


def with_user(url: str) -> str:
    """The URL with a user and a password."""
    return url.replace("//", "//me:pass@")


def test_a_watch_goes_through_a_proxy_with_its_user_and_password(authority: Authority) -> None:
    """For a server without TLS, the proxy gets the whole URL. For one with TLS, it gets a CONNECT."""
    header = f"Basic {base64.b64encode(b'me:pass').decode()}"

    def sends(stream: Stream) -> None:
        stream.begin().send("ADDED", version()).wait_closed()

    with watch_server(sends) as proxy:
        with watching(target_of(proxy, "http://192.0.2.1:6443", proxy=with_user(proxy.url))) as watcher:
            watcher.wait_seen()
        assert proxy.requests[0].path.startswith("http://192.0.2.1:6443/api/v1/nodes?watch=1")
        assert proxy.requests[0].headers["proxy-authorization"] == header
    with watch_server(sends, authority.server(), via_proxy=True) as server:
        url, ca = server.url.replace("https", "http"), authority.ca_file.read_text()
        with watching(target_of(server, "https://127.0.0.1:6443", proxy=with_user(url), authority=ca)) as watcher:
            watcher.wait_seen()
        (connect,) = server.connects
        assert connect
        assert (connect.method, connect.path) == ("CONNECT", "127.0.0.1:6443")
        assert connect.headers["proxy-authorization"] == header
        assert "proxy-authorization" not in server.requests[0].headers
