"""The Node on a double of an API server, for what no real one can be made to say; the rest is in tests/cluster."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from capacityd import __version__
from capacityd.capacity import Event
from capacityd.errors import NodeConflict, NodeDenied, NodeError, NodeMissing, NodeRejected, NodeUnreachable
from capacityd.node import Node, client, open_node
from tests.unit.nodes import node
from tests.unit.server import SILENCE, Request, Script, Server, answer, failure, review, serve

ME = review("system:node:n1")
NODE = answer(200, node(capacity={"cpu": "4"}))
PATCH: list[dict[str, object]] = [
    {"op": "test", "path": "/metadata/uid", "value": None},
    {"op": "remove", "path": "/status/capacity/cpu"},
]
EVENT = Event("Normal", "CapacityChanged", "x")

Open = Callable[..., "AbstractContextManager[tuple[Server, Node]]"]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """A server that follows a script, and the Node on it; its token is secret-token."""

    @contextmanager
    def opened(
        script: Script, node_name: str | None = None, machine_id: str | None = None
    ) -> Iterator[tuple[Server, Node]]:
        with serve(script) as server:
            path = tmp_path / "kubelet.conf"
            configure(path, server.url, "secret-token")
            yield server, open_node(str(path), node_name, None, "Host-1 ", machine_id)

    return opened


def configure(path: Path, server: str, token: str) -> None:
    context = {"name": "c", "context": {"cluster": "k", "user": "u"}}
    cluster = {"name": "k", "cluster": {"server": server}}
    user = {"name": "u", "user": {"token": token}}
    path.write_text(json.dumps({"current-context": "c", "contexts": [context], "clusters": [cluster], "users": [user]}))


def script(
    read: bytes | None = NODE, patch: bytes | None = NODE, event: bytes | None = b"", who: bytes | None = ME
) -> Script:
    """One answer for each kind of request."""

    def follow(request: Request) -> bytes | None:
        if request.method == "GET":
            return read
        if request.method == "PATCH":
            return patch
        return who if "selfsubjectreviews" in request.path else event

    return follow


def everything(found: Node) -> None:
    state = found.read()
    found.write(PATCH)
    found.report(EVENT, state)


def test_importing_it_loads_no_library() -> None:
    libraries = {"kubernetes", "urllib3", "yaml", "jsonpatch", "ssl"}
    code = f"import sys, capacityd.node; print(sorted({libraries} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_the_requests(opened: Open) -> None:
    with opened(script(event=answer(201, {"kind": "Event"}))) as (server, found):
        assert found.name == "n1"
        state = found.read()
        assert state.capacity == {"cpu": "4"}
        assert found.write(PATCH) == state
        found.report(EVENT, state)
    assert [(r.method, r.path) for r in server.heard] == [
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ("GET", "/api/v1/nodes/n1"),
        ("PATCH", "/api/v1/nodes/n1/status?fieldManager=capacityd"),
        ("POST", "/api/v1/namespaces/default/events"),
    ]
    for request in server.heard:
        assert request.headers["authorization"] == "Bearer secret-token"
        assert request.headers["user-agent"] == f"capacityd/{__version__}"
    patch = server.heard[2]
    assert patch.headers["content-type"] == "application/json-patch+json"
    assert json.loads(patch.body) == PATCH, "the null of a guard arrives too"
    event = json.loads(server.heard[3].body)
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": state.uid}
    assert (event["source"], event["type"]) == ({"component": "capacityd", "host": "n1"}, "Normal")
    assert (event["reason"], event["message"], event["reportingComponent"]) == ("CapacityChanged", "x", "capacityd")


GARBAGE = b"\x16\x03 this is not HTTP \x00\r\n\r\n"
HALF = NODE[: len(NODE) // 2]
UNUSABLE = [
    (None, "closed the connection before"),
    (b"", "closed the connection"),
    (GARBAGE, "no whole answer"),
    (HALF, ""),
    (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"', ""),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ""),
    (b"HTTP/1.1 999999 \xff\r\n\r\n", ""),
    (b"HTTP/1.1 200 " + b"x" * 70_000, ""),
    (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", ""),
    (answer(200), "it is not JSON"),
    (answer(200, b"<html>"), "it is not JSON"),
    (answer(200, b"\xff\xfe"), "it is not JSON"),
    (answer(200, b"[" * 100_000), "it is not JSON"),
    (answer(200, b"\x1f\x8b", "Content-Encoding: gzip\r\n"), "it is not JSON"),
    (answer(204), "it is not JSON"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (5 << 20), "more than 4194304 bytes"),
    (answer(302, headers="Location: http://192.0.2.1/\r\n"), "not an API server"),
    (answer(502, b"<html>"), "not now (502)"),
]


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """A finalizer that runs in the depths of a hostile answer fails for want of stack, and with it the test."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("raw", "says"), UNUSABLE)
@pytest.mark.parametrize("method", ["GET", "PATCH", "POST"])
def test_a_broken_answer_is_unreachable_and_asked_for_once(
    opened: Open, method: str, raw: bytes | None, says: str
) -> None:
    answers = {"GET": "read", "PATCH": "patch", "POST": "event"}
    with opened(script(**{answers[method]: raw})) as (server, found), pytest.raises(NodeUnreachable) as raised:
        everything(found)
    assert says in str(raised.value)
    assert str(raised.value).isprintable()
    asked = [r for r in server.heard if r.method == method and "selfsubject" not in r.path]
    assert len(asked) == 1


@pytest.mark.parametrize(("raw", "says"), UNUSABLE)
def test_a_broken_review_is_unreachable_too(opened: Open, raw: bytes | None, says: str) -> None:
    with opened(script(who=raw)) as (_, found), pytest.raises(NodeUnreachable) as raised:
        _ = found.name
    assert says in str(raised.value)


def test_json_that_is_no_node(opened: Open) -> None:
    with (
        opened(script(read=answer(200, {"kind": "Pod"}))) as (_, found),
        pytest.raises(NodeUnreachable, match="no Node"),
    ):
        found.read()


def test_no_answer_in_time(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client._TIMEOUT[1] > 10, "that is an admission webhook's, and the API server names one that hangs"
    monkeypatch.setattr(client, "_TIMEOUT", (1.0, 0.1))
    with opened(script(read=SILENCE)) as (server, found), pytest.raises(NodeUnreachable, match="took too long"):
        found.read()
    assert [r.method for r in server.heard] == ["POST", "GET"]


def test_nobody_listens(opened: Open) -> None:
    with opened(script()) as (_, found):
        pass
    with pytest.raises(
        NodeUnreachable, match=r"refuses the connection; is it up, and is the address in .*kubelet.conf"
    ):
        found.read()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["read", "patch"])
def test_a_server_that_says_later_is_not_asked_again(opened: Open, method: str, status: int) -> None:
    later = failure(status, "slow down", headers="Retry-After: 1\r\n")
    with opened(script(**{method: later})) as (server, found), pytest.raises(NodeUnreachable) as raised:
        everything(found)
    assert raised.value.retry_after == 1.0
    assert [r.method for r in server.heard] == (["POST", "GET"] if method == "read" else ["POST", "GET", "PATCH"])


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (failure(409), NodeConflict),
        (failure(422, "the server rejected our request due to an error in our request"), NodeConflict),
        (failure(422, "invalid", {"causes": [{"message": "x"}]}), NodeRejected),
        (failure(400, "bad"), NodeRejected),
        (failure(413, "large"), NodeRejected),
        (failure(404, "none", {"kind": "nodes"}), NodeMissing),
        (failure(401, "Unauthorized"), NodeDenied),
        (failure(403, "forbidden"), NodeDenied),
    ],
)
def test_refusals_of_a_patch(opened: Open, raw: bytes, kind: type[NodeError]) -> None:
    with opened(script(patch=raw)) as (server, found), pytest.raises(NodeError) as raised:
        found.write(PATCH)
    assert type(raised.value) is kind
    assert "secret-token" not in str(raised.value)
    assert [r.method for r in server.heard] == ["POST", "GET", "PATCH"]


def test_credentials_that_were_renewed_are_tried_once_more(opened: Open, tmp_path: Path) -> None:
    def only_the_new(request: Request) -> bytes | None:
        if request.headers["authorization"] != "Bearer new":
            configure(tmp_path / "kubelet.conf", server.url, "new")
            return failure(401, "Unauthorized")
        return script()(request)

    with opened(only_the_new) as (server, found):
        assert found.read().name == "n1"
    assert [r.method for r in server.heard] == ["POST", "POST", "GET"]


def test_who_is_not_let_in_is_told_with_renewed_credentials_too(opened: Open, tmp_path: Path) -> None:
    def follow(request: Request) -> bytes | None:
        if request.method != "PATCH":
            return script()(request)
        if request.headers["authorization"] == "Bearer new":
            return failure(403)
        configure(tmp_path / "kubelet.conf", server.url, "new")
        return failure(401, "Unauthorized")

    with opened(follow) as (server, found), pytest.raises(NodeDenied, match="system:node:n1"):
        found.write(PATCH)


# What the review says -> the name, and whether the Node's machineID must be this machine's.
TOKEN_OF = {"authentication_kubernetes_io__node-name": ["n7"]}


@pytest.mark.parametrize(
    ("who", "configured", "name", "checked"),
    [
        (ME, None, "n1", False),
        (ME, "n1", "n1", False),
        (review("system:serviceaccount:x:y", **TOKEN_OF), None, "n7", True),
        (review("system:serviceaccount:x:y", **TOKEN_OF), "n7", "n7", True),
        (review("bob"), None, "host-1", True),
        (review("bob"), "Other", "Other", True),
        (review("system:node:"), "n3", "n3", True),
        (failure(404), None, "host-1", True),
        (failure(403), None, "host-1", True),
        (failure(405), "n3", "n3", True),
        (
            answer(
                201, {"status": {"userInfo": {"username": 3, "extra": {"authentication.kubernetes.io/node-name": "x"}}}}
            ),
            None,
            "host-1",
            True,
        ),
        (answer(201, []), None, "host-1", True),
        (answer(201, {"status": {"userInfo": []}}), None, "host-1", True),
    ],
)
def test_which_node_it_is(opened: Open, who: bytes, configured: str | None, name: str, checked: bool) -> None:
    document: dict[str, Any] = node()
    document["status"]["nodeInfo"] = {"machineID": "theirs"}
    follow = script(who=who, read=answer(200, document), patch=answer(200, document))
    with opened(follow, configured, "ours") as (server, found):
        assert found.name == name
        if checked:
            for use in (found.read, lambda: found.write(PATCH)):
                with pytest.raises(
                    NodeDenied, match=r"its machineID is theirs, this machine's is ours\. Set node_name"
                ):
                    use()
        else:
            found.write(PATCH)
    assert [r.method for r in server.heard].count("POST") == 1, "one review is enough"
    assert any(r.method == "PATCH" for r in server.heard) is not checked


def test_whose_credentials_are_is_asked_once_for_each(tmp_path: Path) -> None:
    """Of the next process, too. What is not told is asked again."""
    whose = {"a": ME, "b": review("system:node:n2"), "c": failure(404)}
    reviews: dict[str, Sequence[str]] = {}
    with serve(lambda request: whose[request.headers["authorization"].removeprefix("Bearer secret-")]) as server:

        def name(token: str, kubeconfig: str = "1") -> str:
            configure(tmp_path / kubeconfig, server.url, f"secret-{token}")
            return open_node(str(tmp_path / kubeconfig), None, None, "host", None, reviews).name

        assert [name("a"), name("b"), name("a"), name("b")] == ["n1", "n2", "n1", "n2"]
        assert len(server.heard) == 2
        assert [name("c"), name("c"), name("a", "2")] == ["host", "host", "n1"]
        assert len(server.heard) == 5
    assert "secret" not in str(reviews)


@pytest.mark.parametrize(
    ("theirs", "ours", "allowed"),
    [
        ("same", "same", True),
        ("same", None, True),
        ("", None, True),
        ("", "", False),
        ("x", "", False),
        ("", "x", False),
    ],
)
def test_another_identity_needs_this_machines_id(opened: Open, theirs: str, ours: str | None, allowed: bool) -> None:
    document: dict[str, Any] = node()
    document["status"]["nodeInfo"] = {"machineID": theirs}
    with opened(script(who=review("bob"), read=answer(200, document)), None, ours) as (_, found):
        if allowed:
            assert found.write(PATCH).name == "n1"
        else:
            with pytest.raises(NodeDenied, match="is another machine's"):
                found.write(PATCH)


@pytest.mark.parametrize("who", [ME, review("system:serviceaccount:x:y", **{k: ["n1"] for k in TOKEN_OF})])
def test_a_configured_name_of_another_node(opened: Open, who: bytes) -> None:
    with opened(script(who=who), "n2") as (_, found), pytest.raises(NodeDenied) as raised:
        _ = found.name
    assert 'node_name is "n2", but the credentials are those of Node "n1"' in str(raised.value)


def test_what_the_environment_says_of_proxies_does_not_count(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with opened(script()) as (_, found):
        assert found.read().name == "n1"


def test_a_proxy_of_the_kubeconfig(tmp_path: Path) -> None:
    with serve(script()) as proxy:
        path = tmp_path / "kubelet.conf"
        configure(path, "http://192.0.2.1:6443", "t")
        document = json.loads(path.read_text())
        document["clusters"][0]["cluster"]["proxy-url"] = proxy.url.replace("//", "//me:pass@")
        path.write_text(json.dumps(document))
        assert open_node(str(path), None, None, "h", None).read().name == "n1"
    assert proxy.heard[1].path == "http://192.0.2.1:6443/api/v1/nodes/n1"
    assert proxy.heard[1].headers["proxy-authorization"].startswith("Basic ")
