"""The Node on a fake API server, which sends responses that a real API server cannot be made to send."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd import __version__
from capacityd.model.errors import NodeError, NodeUnreachable
from capacityd.model.node import CONDITION, Condition, Event, Node, Patch
from capacityd.node import Machine, client, open_node
from capacityd.node.documents.node import node_state
from tests.support.nodes import UID, node
from tests.support.server import SILENCE, Request, Script, Server, answer, failure, review, serve
from tests.unit.node.test_credentials import config, written

ME = review("system:node:n1")
NODE = answer(200, node(capacity={"cpu": "4"}))
PATCH = Patch(UID, "7", capacity={"example.com/x": 4, "example.com/y": None})
EVENT = Event("Normal", "CapacityChanged", "x")

Open = Callable[..., "AbstractContextManager[tuple[Server, Node]]"]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """A function that starts a server with a script of responses, and opens the Node on it with secret-token."""

    @contextmanager
    def opened(script: Script) -> Iterator[tuple[Server, Node]]:
        with serve(script) as server:
            path = tmp_path / "kubelet.conf"
            configure(path, server.url, "secret-token")
            yield server, open_node(str(path), None, Machine("host", None))

    return opened


def configure(path: Path, server: str, token: str) -> None:
    written(path.parent, config({"server": server}, {"token": token}), path.name)


def script(
    read: bytes | None = NODE, patch: bytes | None = NODE, event: bytes | None = b"", who: bytes | None = ME
) -> Script:
    """A script with one response for each kind of request. who: the response to "who am I" (a review)."""

    def follow(request: Request) -> bytes | None:
        if request.method == "GET":
            return read
        if request.method == "PATCH":
            return patch
        return who if "selfsubjectreviews" in request.path else event

    return follow


def respond(request: Request) -> bytes:
    """A script that responds to the kubelet of n1, except to its Events."""
    return ME if request.method == "POST" else NODE


STATE = node_state(node())
USES: list[Callable[[Node], object]] = [
    lambda opened: opened.read(),
    lambda opened: opened.write(PATCH),
    lambda opened: opened.report(EVENT, STATE),
]
"""One call for each kind of request that a Node sends."""


def make_all_calls(api_node: Node) -> None:
    for use in USES:
        use(api_node)


def test_each_call_sends_its_request(opened: Open) -> None:
    with opened(script(event=answer(201, {"kind": "Event"}))) as (server, api_node):
        assert api_node.identify() == "n1"
        state = api_node.read()
        assert state.capacity == {"cpu": "4"}
        condition = Condition("True", "Published", "fine", heartbeat=1.0, transition="2026-01-02T03:04:05Z")
        numbers = {"example.com/x": 4, "example.com/y": None}
        changes: dict[str, Any] = {
            "capacity": numbers,
            "allocatable": numbers,
            "labels": {"x": 4, "z": None},
        }
        changes |= {"annotations": {"a": "b", "c": None}, "removes_conditions": True, "condition": condition}
        assert api_node.write(Patch(UID, "7", **changes)) == state
        api_node.report(EVENT, state)
    assert [(r.method, r.path) for r in server.received] == [
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ("GET", "/api/v1/nodes/n1"),
        ("PATCH", "/api/v1/nodes/n1/status?fieldManager=capacityd"),
        ("POST", "/api/v1/namespaces/default/events"),
    ]
    for request in server.received:
        assert request.headers["authorization"] == "Bearer secret-token"
        assert request.headers["user-agent"] == f"capacityd/{__version__}"
    patch = server.received[2]
    assert patch.headers["content-type"] == "application/strategic-merge-patch+json"
    texts = {"example.com/x": "4", "example.com/y": None}
    stamp = {"lastHeartbeatTime": "1970-01-01T00:00:01Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    published = {"type": CONDITION, "status": "True", "reason": "Published", "message": "fine", **stamp}
    assert json.loads(patch.body) == {
        "metadata": {
            "uid": UID,
            "resourceVersion": "7",
            "annotations": {"a": "b", "c": None},
            "labels": {"x": "4", "z": None},
        },
        "status": {
            "capacity": texts,
            "allocatable": texts,
            "conditions": [{"$patch": "delete", "type": CONDITION}, published],
        },
    }
    event = json.loads(server.received[3].body)
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": state.uid}
    assert (event["source"], event["type"]) == ({"component": "capacityd", "host": "n1"}, "Normal")
    assert event["reportingInstance"] == "n1", "the component alone is the same on every Node"
    assert (event["reason"], event["message"], event["reportingComponent"]) == ("CapacityChanged", "x", "capacityd")


def about(**metadata: object) -> bytes:
    """A response with the Node, but with other metadata."""
    document = node()
    return answer(200, document | {"metadata": {**document["metadata"], **metadata}})


GARBAGE = b"\x16\x03 this is not HTTP \x00\r\n\r\n"
HALF = NODE[: len(NODE) // 2]
LATER = failure(503, "slow down", headers="Retry-After: 1\r\n")
UNUSABLE = [  # a response (None: the connection is closed without one), and a part of the error
    (None, "closed the connection before"),
    (b"", "closed the connection"),
    (GARBAGE, "response is incomplete"),
    (HALF, ""),
    (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"', ""),
    (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", ""),
    (answer(200), "it is not JSON"),
    (answer(200, b"\xff\xfe"), ""),
    (answer(200, b"\x1f\x8b", "Content-Encoding: gzip\r\n"), ""),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (5 << 20), "more than 4194304 bytes"),
    (answer(302, headers="Location: http://192.0.2.1/\r\n"), "not an API server"),
    (answer(502, b"<html>"), "is unavailable (HTTP 502)"),
    (LATER, "slow down"),
]


@pytest.mark.parametrize(
    ("request_", "raw", "message"),
    [
        *(("read", *unusable) for unusable in UNUSABLE),
        *((request_, *unusable) for request_ in ("who", "patch", "event") for unusable in (UNUSABLE[0], UNUSABLE[-1])),
        ("who", answer(201, {"status": {"userInfo": {"username": 3}}}), "username is not text"),
        ("who", answer(201, [1]), "it is not a JSON object"),
        *((request_, answer(200, {"kind": "Pod"}), "not a Node") for request_ in ("read", "patch")),
        ("read", about(name="n2"), "it is about another Node"),
        ("patch", about(name="n2"), "it is about another Node"),
        ("patch", about(uid="another"), "it is about another Node"),
        *(
            ("read", about(**{guard: value}), "is missing")
            for guard in ("uid", "resourceVersion")
            for value in ("", None)
        ),
        ("read", about(resourceVersion="0"), "is missing"),
    ],
)
def test_a_broken_response_is_unreachable_and_requested_once(
    opened: Open, request_: str, raw: bytes | None, message: str
) -> None:
    with opened(script(**{request_: raw})) as (server, api_node), pytest.raises(NodeUnreachable) as raised:
        make_all_calls(api_node)
    assert message in str(raised.value)
    assert str(raised.value).isprintable()
    assert raised.value.retry_after == (1.0 if raw == LATER else 0.0)
    assert len(server.received) == ["who", "read", "patch", "event"].index(request_) + 1


def test_no_response_in_time_is_unreachable(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TIMEOUTS", (1.0, 0.1))
    with (
        opened(script(read=SILENCE)) as (server, api_node),
        pytest.raises(NodeUnreachable, match="not respond in time"),
    ):
        api_node.read()
    assert [r.method for r in server.received] == ["POST", "GET"]


def test_a_write_waits_for_slow_webhooks(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server waits up to 10 s for each webhook, also for one whose failure it ignores."""
    assert client._PATCH_TIMEOUTS[1] > 20
    monkeypatch.setattr(client, "_TIMEOUTS", (1.0, 0.1))

    def slow(request: Request) -> bytes | None:
        if request.method == "PATCH":
            threading.Event().wait(0.3)
        return script()(request)

    with opened(slow) as (_, api_node):
        assert api_node.write(PATCH).name == "n1"


@pytest.mark.parametrize(("uid", "version"), [("", "7"), (UID, ""), (UID, "0"), (UID, "00")])
def test_a_patch_without_a_guard_is_never_sent(opened: Open, uid: str, version: str) -> None:
    with opened(script()) as (server, api_node), pytest.raises(NodeError, match="has no uid or no resourceVersion"):
        api_node.write(replace(PATCH, uid=uid, resource_version=version))
    assert "PATCH" not in [request.method for request in server.received]


def test_only_the_kubeconfigs_proxy_is_used(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with opened(script()) as (_, api_node):
        assert api_node.read().name == "n1"
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "192.0.2.1")
    with serve(script()) as proxy:
        cluster = {"server": "http://192.0.2.1:6443", "proxy-url": proxy.url.replace("//", "//me%40x:p%2Fss@")}
        assert open_node(written(tmp_path, config(cluster)), None, Machine("h", None)).read().name == "n1"
    assert proxy.received[1].path == "http://192.0.2.1:6443/api/v1/nodes/n1"
    assert proxy.received[1].headers["proxy-authorization"] == f"Basic {base64.b64encode(b'me@x:p/ss').decode()}"
