"""The Node on a fake API server, which sends responses that a real API server cannot be made to send."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd import __version__
from capacityd.model.errors import NodeError, NodeUnreachable
from capacityd.model.node import CONDITION, Condition, Event, Patch
from capacityd.node import client
from capacityd.node.api_node import ApiNode
from capacityd.node.documents.node import node_state
from capacityd.node.identity import Machine
from tests.support.nodes import UID, node
from tests.support.server import SILENCE, Request, Script, Server, answer, failure, review, serve
from tests.unit.node.test_credentials import config, written

REVIEW = review("system:node:n1")
NODE = answer(200, node(capacity={"cpu": "4"}))
PATCH = Patch(UID, "7", capacity={"example.com/x": 4, "example.com/y": None})


def write_kubeconfig(path: Path, server: str, token: str) -> None:
    """Writes a kubeconfig for this server and this token."""
    written(path.parent, config({"server": server}, {"token": token}), path.name)


@contextmanager
def opened(folder: Path, script: Script) -> Iterator[tuple[Server, ApiNode]]:
    """Starts a server that follows the script. The Node is opened with the token secret-token."""
    with serve(script) as server:
        path = folder / "kubelet.conf"
        write_kubeconfig(path, server.url, "secret-token")
        yield server, ApiNode(str(path), None, Machine("host", None))


def script(
    read: bytes | None = NODE, patch: bytes | None = NODE, event: bytes | None = b"", review: bytes | None = REVIEW
) -> Script:
    """A script with one response for each kind of request. review: for a SelfSubjectReview."""

    def follow(request: Request) -> bytes | None:
        if request.method == "GET":
            return read
        if request.method == "PATCH":
            return patch
        return review if "selfsubjectreviews" in request.path else event

    return follow


def respond(request: Request) -> bytes:
    """A script with valid responses for the kubelet of n1: to its review, its GET and its PATCH."""
    return REVIEW if request.method == "POST" else NODE


def make_all_requests(api_node: ApiNode) -> None:
    """Sends each kind of request: a review, a GET, a PATCH and an Event."""
    api_node.read()
    api_node.write(PATCH)
    api_node.report(Event("Normal", "CapacityChanged", "x"), node_state(node()))


def test_each_call_sends_its_request(tmp_path: Path) -> None:
    with opened(tmp_path, script(event=answer(201, {"kind": "Event"}))) as (server, api_node):
        assert api_node.identify() == "n1"
        assert api_node.read().capacity == {"cpu": "4"}
        condition = Condition("True", "Published", "fine", heartbeat=1.0, transition="2026-01-02T03:04:05Z")
        numbers = {"example.com/x": 4, "example.com/y": None}
        patch = Patch(
            UID,
            "7",
            capacity=numbers,
            allocatable=numbers,
            labels={"x": 4, "z": None},
            annotations={"a": "b", "c": None},
            removes_conditions=True,
            condition=condition,
        )
        assert api_node.write(patch) == api_node.read()
        make_all_requests(api_node)
    review_, read, sent_patch, *_, short_patch, event = server.received
    assert (review_.method, review_.path) == ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
    assert (read.method, read.path) == ("GET", "/api/v1/nodes/n1")
    assert (sent_patch.method, sent_patch.path) == ("PATCH", "/api/v1/nodes/n1/status?fieldManager=capacityd")
    assert (event.method, event.path) == ("POST", "/api/v1/namespaces/default/events")
    for request in server.received:
        assert request.headers["authorization"] == "Bearer secret-token"
        assert request.headers["user-agent"] == f"capacityd/{__version__}"
    assert sent_patch.headers["content-type"] == "application/strategic-merge-patch+json"
    times = {"lastHeartbeatTime": "1970-01-01T00:00:01Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    published = {"type": CONDITION, "status": "True", "reason": "Published", "message": "fine", **times}
    texts = {"example.com/x": "4", "example.com/y": None}
    assert json.loads(sent_patch.body) == {
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
    assert json.loads(short_patch.body) == {
        "metadata": {"uid": UID, "resourceVersion": "7"},
        "status": {"capacity": texts},
    }
    document = json.loads(event.body)
    assert document["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": UID}
    assert (document["source"], document["type"]) == ({"component": "capacityd", "host": "n1"}, "Normal")
    assert document["reportingInstance"] == "n1", "the component alone is the same on every Node"
    assert (document["reason"], document["message"]) == ("CapacityChanged", "x")


def with_metadata(**metadata: object) -> bytes:
    """A response with the Node, in which these metadata differ."""
    document = node()
    return answer(200, document | {"metadata": {**document["metadata"], **metadata}})


LATER = failure(503, "slow down", headers="Retry-After: 1\r\n")
REQUESTS = ("review", "read", "patch", "event")  # in the order in which make_all_requests() sends them
BROKEN: list[tuple[str, bytes | None, str]] = [  # the request, its response (None: a reset), a part of the error
    *((request, None, "Connection reset by peer") for request in REQUESTS),
    *((request, LATER, "slow down") for request in REQUESTS),
    ("read", b"", "RemoteDisconnected"),
    ("read", b"\x16\x03 this is not HTTP \x00\r\n\r\n", "BadStatusLine"),
    ("read", NODE[: len(NODE) // 2], "incomplete"),
    ("read", b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"', "IncompleteRead"),
    ("read", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "HTTPException"),  # too many headers
    ("read", answer(200), "it is not JSON"),
    ("read", answer(200, b"\xff\xfe"), "it is not JSON"),
    ("read", answer(200, b"[" * 100_000), "it is not JSON"),  # nested too deeply
    ("read", answer(200, b"\x1f\x8b", "Content-Encoding: gzip\r\n"), "it is not JSON"),
    ("read", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (5 << 20), "more than 4194304 bytes"),
    ("read", answer(302, headers="Location: http://192.0.2.1/\r\n"), "not an API server"),
    ("review", answer(201, {"status": {"userInfo": {"username": 3}}}), "username is not text"),
    ("review", answer(201, [1]), "it is not a JSON object"),
    ("read", answer(200, {"kind": "Pod"}), "not a Node"),
    ("patch", answer(200, {"kind": "Pod"}), "not a Node"),
    ("read", with_metadata(name="n2"), "it is about another Node"),
    ("patch", with_metadata(name="n2"), "it is about another Node"),
    ("patch", with_metadata(uid="another"), "it is about another Node"),
    ("read", with_metadata(uid=""), "is missing"),
    ("read", with_metadata(uid=None), "is missing"),
    ("read", with_metadata(resourceVersion=""), "is missing"),
    ("read", with_metadata(resourceVersion=None), "is missing"),
    ("read", with_metadata(resourceVersion="0"), "is missing"),
]


@pytest.mark.parametrize(("request_", "response", "message"), BROKEN)
def test_a_broken_response_raises_node_unreachable_after_one_request(
    tmp_path: Path, request_: str, response: bytes | None, message: str
) -> None:
    responses: dict[str, Any] = {request_: response}
    with opened(tmp_path, script(**responses)) as (server, api_node), pytest.raises(NodeUnreachable) as raised:
        make_all_requests(api_node)
    assert message in str(raised.value)
    assert str(raised.value).isprintable()
    assert raised.value.retry_after == (1.0 if response == LATER else 0.0)
    assert len(server.received) == REQUESTS.index(request_) + 1


def test_no_response_in_time_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TIMEOUT", 0.1)
    with (
        opened(tmp_path, script(read=SILENCE)) as (server, api_node),
        pytest.raises(NodeUnreachable, match="timed out"),
    ):
        api_node.read()
    assert [request.method for request in server.received] == ["POST", "GET"]


def test_a_write_waits_for_slow_webhooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server waits up to 10 s for each webhook, also for one whose failure it ignores."""
    assert client._PATCH_TIMEOUT > 20
    monkeypatch.setattr(client, "_TIMEOUT", 0.1)

    def slow(request: Request) -> bytes | None:
        if request.method == "PATCH":
            threading.Event().wait(0.3)
        return respond(request)

    with opened(tmp_path, slow) as (_, api_node):
        assert api_node.write(PATCH).name == "n1"


@pytest.mark.parametrize(("uid", "version"), [("", "7"), (UID, ""), (UID, "0"), (UID, "00")])
def test_a_patch_without_a_guard_is_never_sent(tmp_path: Path, uid: str, version: str) -> None:
    """Without both guards, the patch could change another Node, or a newer state of this one."""
    with (
        opened(tmp_path, script()) as (server, api_node),
        pytest.raises(NodeError, match="has no uid or no resourceVersion"),
    ):
        api_node.write(replace(PATCH, uid=uid, resource_version=version))
    assert server.received == []


def test_only_the_kubeconfigs_proxy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with opened(tmp_path, script()) as (_, api_node):
        assert api_node.read().name == "n1"
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "192.0.2.1")
    with serve(script()) as proxy:
        proxy_url = proxy.url.replace("//", "//me%40x:p%2Fss@")  # the user me@x with the password p/ss
        path = written(tmp_path, config({"server": "http://192.0.2.1:6443", "proxy-url": proxy_url}))
        assert ApiNode(path, None, Machine("h", None)).read().name == "n1"
    credentials = base64.b64encode(b"me@x:p/ss").decode()
    assert proxy.received[1].path == "http://192.0.2.1:6443/api/v1/nodes/n1"
    assert proxy.received[1].headers["proxy-authorization"] == f"Basic {credentials}"
