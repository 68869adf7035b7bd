"""A watch of the Node on a server that sends whatever a test wants, over a real connection."""

from __future__ import annotations

import base64
import json
import os
import socket
import socketserver
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.errors import (
    NodeError,
    NodeForbidden,
    NodeRejected,
    NodeUnauthorized,
    NodeUnreachable,
    WatchHeldBack,
)
from capacityd.model.node import NodeState
from capacityd.node.line_stream import MAX_LINE_BYTES
from capacityd.node.watch import Limits, NodeWatch
from capacityd.node.watch_target import WatchTarget
from tests import ROOT
from tests.cluster.credentials import Authority
from tests.support.forked import forked
from tests.support.server import SILENCE, Listener, Server, answer, failure, read_request, serving
from tests.support.tls import DRIPS, certificate, serve_tls
from tests.support.watch_server import DEADLINE, MISSING, Stream, WatchServer, target_of, version, watch_server

BRIEF = Limits(connect=0.2, header=0.2, first_event=0.2, idle=0.1)
"""Limits for a server that is silent on purpose."""
FOREVER = Limits(DEADLINE, DEADLINE, DEADLINE, DEADLINE)
Script = Callable[[Stream], object]


def watch(server: WatchServer, limits: Limits = FOREVER, **access: Any) -> NodeWatch:
    return NodeWatch(target_of(server, **access), limits)


def states(watch: NodeWatch) -> list[NodeState | None]:
    """All states until the server ends the connection."""
    return list(watch.connect())


def error_of(node_watch: NodeWatch) -> NodeError:
    """The error that ends the next connection."""
    with pytest.raises(NodeError) as raised:
        states(node_watch)
    assert str(raised.value).isprintable()
    return raised.value


def shown(state: NodeState | None) -> str:
    """The state in short: a Node's resourceVersion."""
    return state.resource_version if state else "missing"


def sends(*content: tuple[str, object], end: bool = True) -> Script:
    """A server that sends these events. end: whether it then ends the response; else it waits for the client."""

    def script(stream: Stream) -> None:
        stream.begin()
        for kind, value in content:
            stream.send(kind, value)
        stream.end() if end else stream.wait_closed()

    return script


def writes(*pieces: bytes) -> Script:
    """A server that sends these bytes in chunks, and ends the response."""

    def script(stream: Stream) -> None:
        stream.begin()
        for piece in pieces:
            stream.write(piece)
        stream.end()

    return script


def silent(stream: Stream) -> None:
    """A server that sends no event."""
    stream.begin().wait_closed()


def gets(server: WatchServer) -> int:
    """The number of GETs of the Node."""
    return sum("watch=" not in request.path for request in server.requests)


def test_every_change_is_an_event() -> None:
    new = version(5)
    new["metadata"]["uid"] = "new"
    bookmark = {"kind": "Node", "metadata": {"resourceVersion": "9"}}
    sent = [
        ("ADDED", version(1, dongle="2")),
        ("BOOKMARK", bookmark),
        ("MODIFIED", version(2)),
        ("DELETED", version(3)),
        ("ADDED", new),
    ]
    with watch_server(sends(*sent)) as server:
        received = states(watch(server))
    assert [*map(shown, received)] == ["1", "2", "missing", "5"], "a bookmark is no change"
    first, last = received[0], received[-1]
    assert isinstance(first, NodeState)
    assert first.capacity == {"example.com/dongle": "2"}
    assert isinstance(last, NodeState)
    assert last.uid == "new"


def test_the_request_selects_one_node_by_its_name() -> None:
    with watch_server(sends(("ADDED", version(name="a,b=c\\d&e")))) as server:
        target = WatchTarget(target_of(server, token="t").access, "a,b=c\\d&e")
        assert len(states(NodeWatch(target))) == 1
    (request,) = server.requests
    assert request.path == (
        "/api/v1/nodes?watch=1&allowWatchBookmarks=true&fieldSelector=metadata.name=a%5C%2Cb%5C=c%5C%5Cd%26e"
    )
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["user-agent"].startswith("capacityd/")


def test_events_do_not_depend_on_how_they_are_divided() -> None:
    line = json.dumps({"type": "ADDED", "object": version(1)}).encode() + b"\n"
    rest = json.dumps({"type": "MODIFIED", "object": version(2)}).encode()
    pieces = [line[:5], line[5:] + line + line[:1], line[1:], b"\n\n", rest]
    with watch_server(writes(*pieces)) as server:
        assert [*map(shown, states(watch(server)))] == ["1", "1", "1"], "the last line is incomplete"


def test_a_missing_node_is_found_by_one_get_and_seen_when_it_is_created() -> None:
    with watch_server() as server:
        server.get = lambda _: MISSING
        node_watch = watch(server, Limits(first_event=0.1))
        for connection in range(2):
            with closing(node_watch.connect()) as received:
                server.script = lambda stream: stream.begin().wait_ended()
                assert next(received) is None
                server.streams[-1].send("ADDED", version(7))
                assert shown(next(received)) == "7"
                server.streams[-1].send("DELETED", version(7))
                assert next(received) is None
            assert gets(server) == 1, f"connection {connection}: the Node is known as missing"


def test_a_bookmark_before_any_event_says_that_the_node_is_missing() -> None:
    with watch_server(sends(("BOOKMARK", {"kind": "Node"}), ("BOOKMARK", {"kind": "Node"}))) as server:
        assert states(watch(server)) == [None], "a later bookmark says nothing new"
        assert gets(server) == 0


def test_a_node_that_is_created_just_before_the_get_is_seen() -> None:
    def late(stream: Stream) -> None:
        stream.begin()
        asked.wait(DEADLINE)
        stream.send("ADDED", version(3))
        stream.end()

    asked = Event()
    with watch_server(late) as server:

        def get(_: object) -> bytes:
            asked.set()
            return answer(200, version(3))

        server.get = get
        assert [*map(shown, states(watch(server, Limits(first_event=0.5))))] == ["3"]
        assert gets(server) == 1


def test_silence_ends_the_connection_and_what_was_known() -> None:
    with watch_server(silent) as server:
        server.get = lambda _: MISSING
        node_watch = watch(server, BRIEF)
        for connection in (1, 2):
            assert "has sent nothing for 0.1 s" in str(error_of(node_watch))
            assert gets(server) == connection
        server.script = sends(("ADDED", version()), end=False)
        error = error_of(node_watch)
    assert type(error) is NodeUnreachable
    assert gets(server) == 2


HELD_BACK: dict[str, Script] = {
    "no header": lambda stream: stream.wait_closed(),
    "no event": silent,
    "the whole response": lambda stream: stream.raw(answer(200, json.dumps({"type": "ADDED", "object": version()}))),
    "an empty response": lambda stream: stream.raw(answer(200)),
    "HTTP 1.0": lambda stream: stream.begin(b"HTTP/1.0 200 OK\r\n\r\n").send("ADDED", version()),
}


@pytest.mark.parametrize("how", HELD_BACK)
def test_a_proxy_that_holds_the_responses_back_is_named(how: str) -> None:
    with watch_server(HELD_BACK[how]) as server:
        error = error_of(watch(server, BRIEF))
        assert type(error) is WatchHeldBack
        assert "a load balancer on the way hold responses back" in str(error)
        server.get = lambda _: MISSING
        if how == "no header":
            assert type(error_of(watch(server, BRIEF))) is WatchHeldBack


@pytest.mark.parametrize("how", ["no header", "no event"])
def test_a_server_that_does_not_respond_at_all_is_unreachable(how: str) -> None:
    """That a proxy holds responses back is said only if the server responds to a GET."""
    with watch_server(HELD_BACK[how]) as server:
        server.get = lambda _: SILENCE
        assert type(error_of(watch(server, BRIEF))) is NodeUnreachable


@pytest.mark.parametrize("how", ["no header", "no event"])
def test_an_overloaded_server_is_unreachable_with_its_retry_after(how: str) -> None:
    with watch_server(HELD_BACK[how]) as server:
        server.get = lambda _: failure(503, "later", headers="Retry-After: 7\r\n")
        error = error_of(watch(server, BRIEF))
        assert isinstance(error, NodeUnreachable)
        assert error.retry_after == 7


REFUSALS: dict[str, tuple[bytes, type[NodeError], str]] = {
    "401": (failure(401, "Unauthorized"), NodeUnauthorized, "rejected the credentials in the same file (HTTP 401)"),
    "403": (
        failure(403, 'nodes "n1" is forbidden: User "u" cannot watch resource "nodes"', {"kind": "nodes"}),
        NodeForbidden,
        'may not watch Node "n1" (HTTP 403)',
    ),
    "404": (answer(404, b"not found"), NodeUnreachable, "is not an API server (HTTP 404 for watch nodes)"),
    "302": (answer(302, headers="Location: http://192.0.2.1/\r\n"), NodeUnreachable, "is not an API server (HTTP 302"),
    "204": (answer(204), NodeUnreachable, "is not an API server (HTTP 204"),
    "400": (failure(400, "no"), NodeRejected, "refused to watch nodes (HTTP 400): no"),
    "410": (failure(410, "too old"), NodeUnreachable, "is unavailable (HTTP 410)"),
    "429": (failure(429, "later", headers="Retry-After: 7\r\n"), NodeUnreachable, "is unavailable (HTTP 429)"),
    "503": (failure(503, "starting"), NodeUnreachable, "is unavailable (HTTP 503): starting"),
    "garbage": (b"garbage\r\n\r\n", NodeUnreachable, "cannot be reached, or its response is incomplete"),
    "nothing": (b"", NodeUnreachable, "closed the connection before it responded"),
}


@pytest.mark.parametrize("status", REFUSALS)
def test_each_refusal_of_a_watch_has_its_error(status: str) -> None:
    response, kind, message = REFUSALS[status]
    with watch_server() as server:
        server.refuse = lambda _: response
        error = error_of(watch(server))
    assert type(error) is kind
    assert message in str(error)
    assert getattr(error, "retry_after", None) == (7 if status == "429" else None)
    assert len(server.requests) == 1


def test_a_missing_right_is_named() -> None:
    with watch_server() as server:
        server.refuse = lambda _: failure(403, 'User "capacityd:n1" cannot watch resource "nodes"', {"kind": "nodes"})
        target = WatchTarget(target_of(server).access, "n1", "capacityd:n1")
        error = error_of(NodeWatch(target))
    assert 'it needs a role with the verb "watch" on "nodes"' in str(error)


def status(code: object = 410, message: str = "too old resource version") -> dict[str, object]:
    return {"kind": "Status", "status": "Failure", "message": message, "reason": "Expired", "code": code}


def event_line(kind: object, content: object) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


DAMAGED: dict[str, tuple[bytes, type[NodeError], str]] = {
    "too old": (event_line("ERROR", status()), NodeUnreachable, "is unavailable (HTTP 410): too old resource version"),
    "denied": (event_line("ERROR", status(401)), NodeUnauthorized, "(HTTP 401)"),
    "an error without a code": (event_line("ERROR", status(None)), NodeUnreachable, "unavailable (HTTP 500): too old"),
    "an error with a strange code": (event_line("ERROR", status(200)), NodeUnreachable, "unavailable (HTTP 500)"),
    "an error that is no status": (event_line("ERROR", [1]), NodeUnreachable, "unavailable (HTTP 500)"),
    "not JSON": (b"<html>\n", NodeUnreachable, "an event is not JSON"),
    "NaN": (b'{"type": NaN}\n', NodeUnreachable, "an event is not JSON"),
    "not UTF-8": (b'{"type": "\xff"}\n', NodeUnreachable, "an event is not JSON"),
    "nested too deeply": (b"[" * 100_000 + b"\n", NodeUnreachable, "an event is not JSON"),
    "not an object": (b"[]\n", NodeUnreachable, "an event is not JSON, or is incomplete"),
    "without a type": (b"{}\n", NodeUnreachable, "an event is not JSON, or is incomplete"),
    "without an object": (b'{"type": "ADDED"}\n', NodeUnreachable, "is incomplete"),
    "not a Node": (event_line("ADDED", {"kind": "Pod"}), NodeUnreachable, "its kind is"),
    "a damaged Node": (event_line("ADDED", {**version(), "status": 1}), NodeUnreachable, "status is not a JSON object"),
    "another Node": (event_line("ADDED", version(name="n2")), NodeUnreachable, "an event is about another Node"),
    "another Node is deleted": (event_line("DELETED", version(name="n2")), NodeUnreachable, "another Node"),
    "an unknown type": (event_line("OTHER", version()), NodeUnreachable, "an event is of an unknown type"),
    "a type that is no text": (event_line(["ADDED"], version()), NodeUnreachable, "an event is of an unknown type"),
    "a long line": (b"x" * (MAX_LINE_BYTES + 1), NodeUnreachable, f"an event has more than {MAX_LINE_BYTES} bytes"),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_event_ends_the_connection(how: str) -> None:
    sent, kind, message = DAMAGED[how]
    with watch_server(writes(sent)) as server:
        error = error_of(watch(server))
    assert type(error) is kind
    assert message in str(error)


def test_no_message_contains_the_token() -> None:
    token = "s3cret-token-of-this-node"
    lines = [
        event_line("ADDED", version(name=token)),
        event_line("ADDED", {"kind": token}),
        event_line("ERROR", status(message=f"not with Bearer {token}")),
        event_line("ERROR", status(403, message=f'User "{token}" cannot watch')),
    ]
    for line in lines:
        with watch_server(writes(line)) as server:
            assert token not in str(error_of(watch(server, token=token)))


LOST: dict[str, Callable[[Stream], object]] = {
    "closed": Stream.close,
    "reset": Stream.reset,
    "closed in a chunk": lambda stream: stream.raw(b"100\r\nabc"),
    "a damaged chunk": lambda stream: stream.raw(b"zz\r\n"),
    "a negative chunk": lambda stream: stream.raw(b"-1\r\n"),
}


@pytest.mark.parametrize("how", LOST)
def test_a_lost_connection_is_unreachable(how: str) -> None:
    def script(stream: Stream) -> None:
        stream.begin().send("ADDED", version())
        LOST[how](stream)

    with watch_server(script) as server:
        received = watch(server).connect()
        assert shown(next(received)) == "1"
        with pytest.raises(NodeUnreachable, match="has closed the connection, or sent a damaged response"):
            next(received)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with watch_server() as server:
        pass
    assert "refused the connection" in str(error_of(watch(server)))


@pytest.mark.parametrize("where", DRIPS)
def test_a_response_that_drips_ends_at_the_time_limit(where: str) -> None:
    """The time limits are for the whole of each step, not for each byte."""

    def attempt() -> str:
        # The child ends without leaving the context: nothing ends a connection in the middle of a header.
        context = serve_tls(DRIPS[where])
        server = WatchServer()
        server.url = context.__enter__().url
        if where != "handshake":
            server.url = server.url.replace("https", "http")
        limits = replace(BRIEF, header=DEADLINE) if where == "handshake" else BRIEF
        return str(error_of(watch(server, limits)))

    messages = {"handshake": "did not respond in time", "header": "did not complete", "body": "hold responses back"}
    assert messages[where] in forked(attempt)


def test_an_event_that_drips_ends_at_the_time_limit() -> None:
    def script(stream: Stream) -> None:
        stream.begin().send("ADDED", version())
        stream.raw(b"fffff\r\n")
        while True:
            stream.raw(b" ")

    with watch_server(script) as server:
        assert "has sent nothing for" in str(error_of(watch(server, BRIEF)))


def test_a_reader_that_stops_closes_the_connection() -> None:
    with watch_server() as server:
        with closing(watch(server).connect()) as received:
            server.script = lambda stream: stream.begin().send("ADDED", version()).wait_ended()
            assert shown(next(received)) == "1"
        server.streams[-1].wait_closed()


def test_a_storm_is_delivered_whole() -> None:
    count = 1000
    with watch_server(sends(*(("MODIFIED", version(n)) for n in range(count)))) as server:
        assert [*map(shown, states(watch(server)))] == [*map(str, range(count))]


def test_a_peer_that_is_gone_is_noticed_by_keepalive() -> None:
    with watch_server() as server:
        server.script = lambda stream: stream.begin().send("ADDED", version()).wait_ended()
        with closing(watch(server).connect()) as received:
            next(received)
            port = int(server.url.rpartition(":")[2])
            options = {_options(fd) for fd in os.listdir("/proc/self/fd") if _is_connected(fd, port)}
    assert options == {(1, 15, 5, 3, 1)}


@contextmanager
def _duplicate(fd: str) -> Iterator[socket.socket]:
    with socket.socket(fileno=os.dup(int(fd))) as made:
        yield made


def _is_connected(fd: str, port: int) -> bool:
    """Whether the file descriptor is a connection to this port."""
    try:
        with _duplicate(fd) as made:
            return bool(made.getpeername()[1:] == (port,))
    except OSError:
        return False


def _options(fd: str) -> tuple[int, ...]:
    tcp = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_NODELAY)
    with _duplicate(fd) as made:
        values = [made.getsockopt(socket.IPPROTO_TCP, option) for option in tcp]
        return (made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *values)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("tls") / "authority")


def test_a_watch_trusts_only_its_authority_and_server_name(authority: Authority, tmp_path: Path) -> None:
    ca = authority.ca_file.read_text()
    other = Authority.create(tmp_path / "other").ca_file.read_text()
    pair = certificate(authority, "elsewhere", "DNS:elsewhere.example")
    with watch_server(sends(("ADDED", version())), pair) as server:
        assert len(states(watch(server, authority=ca, server_name="elsewhere.example"))) == 1
        assert len(states(watch(server, authority=other, verify=False))) == 1
        assert "presented a certificate for other names" in str(error_of(watch(server, authority=ca)))
        error = error_of(watch(server, authority=other, server_name="elsewhere.example"))
        assert type(error) is NodeUnauthorized
        assert "did not sign" in str(error)
        error = error_of(watch(server, authority="garbage"))
        assert type(error) is NodeUnauthorized
        assert "contains no usable certificate" in str(error)


def test_a_watch_goes_through_the_proxy_with_its_user(authority: Authority) -> None:
    """A proxy of plain HTTP gets the whole URL, one of TLS a CONNECT. Both get the user."""
    proxy_user = f"Basic {base64.b64encode(b'me:pass').decode()}"
    with watch_server(sends(("ADDED", version()))) as proxy:
        access: dict[str, Any] = {"proxy": proxy.url.replace("//", "//me:pass@")}
        server = WatchServer()
        server.url = "http://192.0.2.1:6443"
        assert len(states(watch(server, **access))) == 1
        assert proxy.requests[0].path.startswith("http://192.0.2.1:6443/api/v1/nodes?watch=1")
        assert proxy.requests[0].headers["proxy-authorization"] == proxy_user
    with watch_server(sends(("ADDED", version())), authority.server()) as server, tunnel(server) as connecting:
        access = {"proxy": connecting.url.replace("//", "//me:pass@"), "authority": authority.ca_file.read_text()}
        assert len(states(watch(server, **access))) == 1
        assert connecting.received[0].method == "CONNECT"
        assert connecting.received[0].headers["proxy-authorization"] == proxy_user
        assert "proxy-authorization" not in server.requests[0].headers


@contextmanager
def tunnel(server: WatchServer) -> Iterator[Server]:
    """A proxy that connects each client to the server."""
    port = int(server.url.rpartition(":")[2])

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            request = read_request(self.rfile)
            assert request is not None
            proxy.received.append(request)
            with socket.create_connection(("127.0.0.1", port)) as out:
                self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                back = Thread(target=_pump, args=(out, self.connection))
                back.start()
                _pump(self.connection, out)
                back.join()

    with Listener(("127.0.0.1", 0), Handler) as listener:
        proxy = Server(f"http://127.0.0.1:{listener.server_address[1]}")
        with serving(listener):
            yield proxy


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def damaged_server() -> Iterator[WatchServer]:
    with watch_server() as server:
        server.get = lambda _: MISSING
        yield server


@given(st.lists(st.binary(max_size=60) | st.from_regex(rb'\{"type": ?"[A-Z]{1,8}", ?"object": ?[\[{1n"].{0,20}\n')))
def test_whatever_is_received_nothing_but_a_node_error_is_raised(
    damaged_server: WatchServer, pieces: list[bytes]
) -> None:
    damaged_server.script = writes(*filter(None, pieces))
    with suppress(NodeError):
        states(watch(damaged_server))


@pytest.mark.slow
def test_a_watch_imports_neither_the_kubernetes_client_nor_yaml() -> None:
    program = "import sys, capacityd.watcher.watcher; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    loaded = set(done.stdout.split())
    assert "urllib3" in loaded
    assert loaded.isdisjoint({"kubernetes", "yaml", "systemd", "psutil", "pyudev", "capacityd.node.client"})
