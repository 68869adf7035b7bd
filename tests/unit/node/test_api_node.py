"""The Node on a fake API server, for responses that a real one cannot be made to send. tests/cluster tests the rest."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd import __version__
from capacityd.model.errors import NodeError, NodeForbidden, NodeMissing, NodeUnauthorized, NodeUnreachable
from capacityd.model.node import Event, Node, Patch
from capacityd.node import CredentialsCache, Machine, Review, client, open_node
from capacityd.node.documents.node import node_state
from capacityd.node.documents.patch import patch_document
from capacityd.node.identity import credentials_hash
from capacityd.node.kubeconfig import load
from tests.support.nodes import UID, node
from tests.support.server import SILENCE, Request, Script, Server, answer, failure, review, serve
from tests.unit.node.test_credentials import V1, config, credential, program, written

ME = review("system:node:n1")
NODE = answer(200, node(capacity={"cpu": "4"}))
PATCH = Patch(UID, "7", capacity={"example.com/x": 4, "example.com/y": None})
UUID, OTHER_UUID = "4c4c4544-0042-3510-8052-b4c04f4d5931", "4c4c4544-0042-3510-8052-b4c04f4d5932"
EVENT = Event("Normal", "CapacityChanged", "x")

Open = Callable[..., "AbstractContextManager[tuple[Server, Node]]"]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """A server that follows a script, and the Node on it. The token is secret-token."""

    @contextmanager
    def opened(
        script: Script, node_name: str | None = None, machine_id: str | None = None, system_uuid: str = ""
    ) -> Iterator[tuple[Server, Node]]:
        with serve(script) as server:
            path = tmp_path / "kubelet.conf"
            configure(path, server.url, "secret-token")
            yield server, open_node(str(path), node_name, Machine("Host-1 ", machine_id, system_uuid))

    return opened


def configure(path: Path, server: str, token: str) -> None:
    written(path.parent, config({"server": server}, {"token": token}), path.name)


def script(
    read: bytes | None = NODE, patch: bytes | None = NODE, event: bytes | None = b"", who: bytes | None = ME
) -> Script:
    """A response for each kind of request."""

    def follow(request: Request) -> bytes | None:
        if request.method == "GET":
            return read
        if request.method == "PATCH":
            return patch
        return who if "selfsubjectreviews" in request.path else event

    return follow


STATE = node_state(node())
USES: list[Callable[[Node], object]] = [
    lambda opened: opened.read(),
    lambda opened: opened.write(PATCH),
    lambda opened: opened.report(EVENT, STATE),
]


def everything(api_node: Node) -> None:
    for use in USES:
        use(api_node)


def test_each_call_sends_its_request(opened: Open) -> None:
    with opened(script(event=answer(201, {"kind": "Event"}))) as (server, api_node):
        assert api_node.identify() == "n1"
        state = api_node.read()
        assert state.capacity == {"cpu": "4"}
        assert api_node.write(PATCH) == state
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
    assert json.loads(patch.body) == patch_document(PATCH), "the null of a removal arrives too"
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
UNUSABLE = [
    (None, "closed the connection before"),
    (b"", "closed the connection"),
    (GARBAGE, "response is incomplete"),
    (HALF, ""),
    (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"', ""),
    (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", ""),
    (answer(200), "it is not JSON"),
    (answer(200, b"\xff\xfe"), "it is not "),
    (answer(200, b"\x1f\x8b", "Content-Encoding: gzip\r\n"), "it is not "),
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
        everything(api_node)
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
    """Two that do not answer, and are ignored, take 20 s. A read has none."""
    assert client._PATCH_TIMEOUTS[1] > 20
    monkeypatch.setattr(client, "_TIMEOUTS", (1.0, 0.1))

    def slow(request: Request) -> bytes | None:
        if request.method == "PATCH":
            threading.Event().wait(0.3)
        return script()(request)

    with opened(slow) as (_, api_node):
        assert api_node.write(PATCH).name == "n1"


@pytest.mark.parametrize("refused", [failure(401, "Unauthorized"), failure(403, "no")])
def test_a_denial_names_the_files_of_the_credentials(opened: Open, tmp_path: Path, refused: bytes) -> None:
    """A change of one of them may end the denial, and starts the next pass."""
    with opened(script(read=refused)) as (_, api_node), pytest.raises(NodeUnauthorized) as raised:
        api_node.read()
    assert raised.value.files == (str(tmp_path / "kubelet.conf"),)


@pytest.mark.parametrize(("uid", "version"), [("", "7"), (UID, ""), (UID, "0"), (UID, "00")])
def test_a_patch_without_a_guard_is_never_sent(opened: Open, uid: str, version: str) -> None:
    with opened(script()) as (server, api_node), pytest.raises(NodeError, match="has no uid or no resourceVersion"):
        api_node.write(replace(PATCH, uid=uid, resource_version=version))
    assert "PATCH" not in [request.method for request in server.received]


# The review -> the Node's name, and whether the Node's machine ID must equal this machine's.


@pytest.mark.parametrize(
    ("who", "configured", "name", "checked"),
    [
        (ME, None, "n1", False),
        (ME, "n1", "n1", False),
        (review("system:serviceaccount:x:y", "n7"), None, "n7", True),
        (review("system:serviceaccount:x:y", "n7"), "n7", "n7", True),
        (review("bob"), None, "host-1", True),
        (review("bob"), "Other", "Other", True),
        (review("system:node:"), "n3", "n3", True),
        (failure(403), "n3", "n3", True),
    ],
)
def test_a_read_checks_the_machine_unless_the_identity_names_its_node(
    opened: Open, who: bytes, configured: str | None, name: str, checked: bool
) -> None:
    document: dict[str, Any] = node()
    document["metadata"]["name"] = name
    document["status"]["nodeInfo"] = {"machineID": "a7"}
    with opened(script(who=who, read=answer(200, document)), configured, "9f") as (server, api_node):
        assert api_node.identify() == (None if name == "host-1" else name), "the host name is only a guess"
        if checked:
            with pytest.raises(NodeUnauthorized, match=r"is a7, this machine's is 9f\. Set node_name"):
                api_node.read()
        else:
            api_node.read()
    assert [r.method for r in server.received].count("POST") == 1, "one review is enough"
    assert server.received[1].path == f"/api/v1/nodes/{name}"


def test_each_user_of_each_cluster_has_a_review_of_its_own(tmp_path: Path) -> None:
    """Each node may reach its cluster at the same loopback address."""

    def key(name: str = "1", cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None) -> str:
        return credentials_hash(load(written(tmp_path, config(cluster, user), name)))

    by = {"apiVersion": V1, "command": program(tmp_path, f"echo '{credential(token='secret')}'")}
    written(tmp_path, "secret", "token")
    authorities = [written(tmp_path, f"authority {n}", f"ca-{n}.crt") for n in "12"]
    keys = [
        key(),
        key("2"),
        key(cluster={"server": "https://192.0.2.2:6443"}),
        *(key(cluster={"certificate-authority": path}) for path in authorities),
        *(key(user={"token": token}) for token in ("secret-1", "secret-2")),
        *(key(user={"tokenFile": path}) for path in ("token", "./token")),
        *(key(user={"exec": {**by, **arguments}}) for arguments in ({}, {"args": ["x"]})),
        credentials_hash(load(written(tmp_path, json.dumps(config()).replace('"u"', '"v"'), "1"))),
    ]
    assert len({*keys}) == len(keys)
    assert "secret" not in str(keys)


def test_renewed_credentials_are_of_the_same_user(tmp_path: Path) -> None:
    """Each time, the file or the plugin has another token, or the plugin another certificate."""
    printed = credential(token="secret-$$").replace('"', r"\"")
    by = {"apiVersion": V1, "command": program(tmp_path, f'echo "{printed}"')}
    certificates = credential(clientCertificateData="$$", clientKeyData="k").replace('"', r"\"")
    other = {"apiVersion": V1, "command": program(tmp_path, f'echo "{certificates}"', "other")}
    for user in ({"exec": by}, {"exec": other}, {"tokenFile": "new"}):
        path, api_node = written(tmp_path, config(user=user)), []
        for number in range(2):
            written(tmp_path, web_token("n1", number), "new")
            api_node.append(load(path))
        assert api_node[0] != api_node[1]
        assert credentials_hash(api_node[0]) == credentials_hash(api_node[1])


def web_token(node: str, expires: int, user: str = "system:serviceaccount:a:b") -> str:
    """A token that is bound to this Node, as Kubernetes makes it."""
    claims = {"exp": expires, "sub": user, "kubernetes.io": {"node": {"name": node}, "warnafter": expires}}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.x"


@pytest.mark.parametrize(
    ("user", "before", "after"),
    [
        ({"client-certificate": "new", "client-key": "new"}, "a certificate", "another"),
        ({"tokenFile": "new"}, "secret-1", "secret-2"),
        ({"tokenFile": "new"}, web_token("n1", 1), web_token("n2", 1)),
        ({"tokenFile": "new"}, web_token("n1", 1), web_token("n1", 1, "system:serviceaccount:a:c")),
        ({"tokenFile": "new"}, "a.b.c", "a.c.c"),
        ({"tokenFile": "new"}, "e30.WzFd.c", "e30.WzJd.c"),
    ],
)
def test_another_user_in_a_file_has_a_review_of_its_own(
    tmp_path: Path, user: dict[str, Any], before: str, after: str
) -> None:
    """The kubeconfig is unchanged, as on a machine that was renamed."""
    path, hashes = written(tmp_path, config(user=user)), []
    for text in (before, after):
        written(tmp_path, text, "new")
        hashes.append(credentials_hash(load(path)))
    assert len({*hashes}) == 2


def test_a_review_that_is_denied_at_the_start_of_a_server_is_asked_for_again(opened: Open) -> None:
    """The authorizer of a server that has just started does not know the default rights yet."""
    reviews = iter([failure(403, "forbidden"), ME])

    def follow(request: Request) -> bytes | None:
        return next(reviews) if request.method == "POST" else NODE

    with opened(follow) as (server, api_node):
        with pytest.raises(NodeUnreachable, match="as for a moment after its start; if this lasts, set node_name"):
            api_node.read()
        assert api_node.read().name == "n1"
    assert [r.method for r in server.received] == ["POST", "POST", "GET"]


ANONYMOUS = 'forbidden: User "system:anonymous" cannot create resource "selfsubjectreviews"'


def test_a_request_that_arrives_without_credentials_has_advice_about_them(opened: Open) -> None:
    """The name of the Node is not the cause, so the error does not mention it."""
    with opened(script(who=failure(403, ANONYMOUS), read=failure(403, ANONYMOUS))) as (server, api_node):
        with pytest.raises(NodeUnauthorized, match="remove the client certificate") as raised:
            api_node.read()
        assert "node_name" not in str(raised.value)
    assert [r.method for r in server.received] == ["POST"]


class Cluster:
    """A cluster with two Nodes of different machines. A kubelet reaches its own Node, another agent both."""

    def __init__(self) -> None:
        self.user = "system:node:n1"
        self.bound = ""
        self.machines = {"n1": "ours", "n2": "theirs"}
        self.missing: set[str] = set()
        self.writable = {"n1", "n2", "n9"}

    def __call__(self, request: Request) -> bytes:
        if request.method == "POST":
            return review(self.user, self.bound)
        name = request.path.split("/")[4].partition("?")[0]
        if request.method == "PATCH" and name not in self.writable:
            return failure(403, f'nodes "{name}" is forbidden: User "{self.user}" cannot patch')
        if name in self.missing:
            return failure(404, "not found", {"kind": "nodes"})
        if self.user not in ("agent", f"system:node:{name}"):
            return failure(403, "forbidden")
        document: dict[str, Any] = node()
        document["metadata"]["name"], document["status"]["nodeInfo"] = name, {"machineID": self.machines[name]}
        return answer(200, document)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[tuple[Cluster, Server, Callable[[], Node]]]:
    """A cluster, its server, and a function that opens the Node like a new process."""
    cluster, cache = Cluster(), CredentialsCache()
    with serve(cluster) as server:
        configure(tmp_path / "kubelet.conf", server.url, "secret")
        yield cluster, server, lambda: open_node(str(tmp_path / "kubelet.conf"), None, Machine("n9", "ours"), cache)


Setup = tuple[Cluster, Server, Callable[[], Node]]


def asked(server: Server) -> list[str]:
    """The requests since the last call."""
    requests = ["review" if r.method == "POST" else f"{r.method} {r.path.split('/')[4]}" for r in server.received]
    server.received.clear()
    return requests


def test_the_review_of_an_earlier_pass_is_enough(setup: Setup) -> None:
    _, server, process = setup
    for requests in (["review", "GET n1"], ["GET n1"]):
        assert process().read().name == "n1"
        assert asked(server) == requests


def _is_another_kubelets(cluster: Cluster) -> None:
    """The new credentials are in the same file, as with k3s."""
    cluster.user, cluster.machines["n2"] = "system:node:n2", "ours"


def _is_bound_to_another(cluster: Cluster) -> None:
    """An identity other than a kubelet's may read every Node, so no denial shows that it is another one."""
    cluster.bound, cluster.machines = "n9", {"n1": "theirs", "n9": "ours"}


def _has_no_node(cluster: Cluster) -> None:
    cluster.bound, cluster.missing = "n9", {"n1"}


def _may_not_write(cluster: Cluster) -> None:
    cluster.bound, cluster.writable = "n9", {"n9"}


Changes = Callable[[Cluster], None]
CHANGES: list[tuple[str, Changes, type[NodeError], str, str]] = [
    ("system:node:n1", _is_another_kubelets, NodeForbidden, "GET", "n2"),
    ("agent", _is_bound_to_another, NodeUnauthorized, "GET", "n9"),
    ("agent", _has_no_node, NodeMissing, "GET", "n9"),
    ("agent", _may_not_write, NodeForbidden, "PATCH", "n9"),
]


@pytest.mark.parametrize(("user", "change", "error", "method", "name"), CHANGES)
def test_after_a_denial_the_next_pass_asks_who_we_are(
    setup: Setup, user: str, change: Changes, error: type[NodeError], method: str, name: str
) -> None:
    """A Node of another machine is never written."""
    cluster, server, process = setup
    cluster.user, cluster.bound, cluster.machines = user, "n1", {"n1": "ours", "n9": "ours"}
    first = process()
    first.read()
    asked(server)
    change(cluster)
    with pytest.raises(error):
        first.write(PATCH) if method == "PATCH" else process().read()
    again = process()
    assert (again.write(PATCH) if method == "PATCH" else again.read()).name == name
    assert asked(server) == [f"{method} n1", "review", f"{method} {name}"]


@pytest.mark.parametrize("raw", [None, failure(500), failure(401)])
def test_other_errors_cause_no_review(tmp_path: Path, raw: bytes | None) -> None:
    cache = CredentialsCache(Review("x", "n9", "another user's"))
    with serve(lambda request: ME if request.method == "POST" else raw) as server:
        configure(tmp_path / "kubelet.conf", server.url, "secret")
        for _ in range(3):
            with pytest.raises(NodeError):
                open_node(str(tmp_path / "kubelet.conf"), None, Machine("host", None), cache).read()
    assert [r.method for r in server.received] == ["POST", "GET", "GET", "GET"]
    assert cache.review
    assert (cache.review.user, cache.review.node) == ("system:node:n1", ""), "only the last is remembered"


@pytest.mark.parametrize(("theirs", "ours"), [("", ""), ("x", ""), ("", "x")])
def test_another_identity_needs_this_machines_id(opened: Open, theirs: str, ours: str) -> None:
    """Two missing IDs are not equal. Two different IDs are tested above, with the name of the Node."""
    document: dict[str, Any] = node()
    document["status"]["nodeInfo"] = {"machineID": theirs}
    follow = script(who=review("bob", "n1"), read=answer(200, document))
    with (
        opened(follow, None, ours) as (_, api_node),
        pytest.raises(NodeUnauthorized, match="belongs to another machine"),
    ):
        api_node.read()
    with opened(follow, None, None) as (_, api_node):
        assert api_node.read().name == "n1", "None accepts any Node"


@pytest.mark.parametrize(
    ("theirs", "ours", "same"),
    [
        (UUID, UUID, True),
        (UUID.upper(), UUID, True),
        ("44434241-4645-4847-898a-8b8c8d8e8f90", "41424344-4546-4748-898a-8b8c8d8e8f90", True),  # byte orders
        (UUID, OTHER_UUID, False),
        (UUID, "44434241-4645-4847-898a-8b8c8d8e8f90", False),
        ("", UUID, True),
        (UUID, "", True),  # not readable, or a machine without DMI
        ("0123456789abcdef0123456789abcdef", UUID, True),  # a kubelet that could read the machine-id only
        ("Not Settable", UUID, True),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", UUID, True),
        (UUID, "00000000-0000-0000-0000-000000000000", True),
        (UUID, "03000200-0400-0500-0006-000700080009", True),
        ("00020003-0004-0005-0006-000700080009", UUID, True),
    ],
)
def test_clones_with_one_machine_id_are_told_apart_by_their_uuid(
    opened: Open, theirs: str, ours: str, same: bool
) -> None:
    """A machine is refused only if both UUIDs are known. The message does not show ours, which only root may read."""
    document: dict[str, Any] = node()
    document["status"]["nodeInfo"] = {"machineID": "abc", "systemUUID": theirs}
    with opened(script(who=review("bob", "n1"), read=answer(200, document)), None, "abc", ours) as (server, api_node):
        if same:
            assert api_node.read().name == "n1"
            return
        with pytest.raises(
            NodeUnauthorized, match="belongs to another machine, which has the same machine-id"
        ) as raised:
            api_node.read()
    assert ours not in str(raised.value)
    assert "PATCH" not in [request.method for request in server.received]
    follow = script(who=ME, read=answer(200, document))
    with opened(follow, None, "abc", ours) as (_, api_node):
        assert api_node.read().name == "n1", "a kubelet's identity has access to its own Node only"


@pytest.mark.parametrize("who", [ME, review("system:serviceaccount:x:y", "n1")])
def test_a_configured_name_of_another_node_is_an_error(opened: Open, who: bytes) -> None:
    with opened(script(who=who), "n2") as (_, api_node), pytest.raises(NodeUnauthorized) as raised:
        api_node.identify()
    assert 'node_name is "n2", but the credentials belong to Node "n1"' in str(raised.value)


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


def test_every_request_acts_as_the_user_that_the_kubeconfig_names(tmp_path: Path) -> None:
    """Nobody is asked who that is. The machine is checked, because the credentials may come from an image."""
    cache = CredentialsCache()
    with serve(script(event=answer(201, {}))) as server:
        user = {"token": "secret-token", "as": "system:node:n1"}
        path = written(tmp_path, config({"server": server.url}, user), "own.conf")
        opened = open_node(path, None, Machine("host-1", None), cache)
        everything(opened)
        assert opened.identify() == "n1"
        assert {request.headers.get("impersonate-user") for request in server.received} == {"system:node:n1"}
        assert {request.method for request in server.received} == {"GET", "PATCH", "POST"}
        assert not [request for request in server.received if "selfsubjectreviews" in request.path]
        assert cache.review is not None
        assert (cache.review.user, cache.review.impersonated) == ("system:node:n1", True)
        with pytest.raises(NodeUnauthorized, match="belongs to another machine"):
            open_node(path, None, Machine("host-1", "0" * 32)).read()
        with pytest.raises(NodeUnauthorized, match='node_name is "n2", but the credentials belong to Node "n1"'):
            open_node(path, "n2", Machine("host-1", None)).read()
