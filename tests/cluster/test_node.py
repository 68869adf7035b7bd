"""The Node on a real API server: our identity, our rights, and the errors."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import NodeConflict, NodeMissing, NodeRejected, NodeUnauthorized
from capacityd.model.node import ANNOTATION, CONDITION, Event, Node
from capacityd.node import open_node
from capacityd.node.api_node import ApiNode
from capacityd.node.client import Client
from capacityd.node.kubeconfig import load
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, Authority, Credentials, kubeconfig, node_user
from tests.cluster.identity import node_info
from tests.cluster.versions import OWN_NODE_ONLY, fits

pytestmark = pytest.mark.protocol

KEY = "/status/capacity/example.com~1x"
RECORD = "/metadata/annotations/" + ANNOTATION.replace("/", "~1")
CONDITION_VALUE = {
    "type": CONDITION,
    "status": "True",
    "reason": "Published",
    "message": "m",
    "lastHeartbeatTime": "2026-01-02T03:04:05Z",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


def check(path: str, value: object) -> dict[str, object]:
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: object) -> dict[str, object]:
    return {"op": "add", "path": path, "value": value}


def opened(kubeconfig: Path, name: str | None = None, machine_id: str | None = None) -> Node:
    return open_node(str(kubeconfig), name, "no-such-host", machine_id)


@pytest.mark.parametrize("credentials", ["token", "certificate", "exec"])
def test_read_and_write_as_the_node(cluster: Cluster, node: str, credentials: Credentials) -> None:
    api_node = opened(cluster.kubeconfig(node_user(node), credentials=credentials))
    assert api_node.name == node
    state = api_node.read()
    assert (state.name, state.has_annotations, state.condition_count) == (node, False, None)
    assert state.uid == cluster.node(node)["metadata"]["uid"]
    patch = [check("/metadata/uid", state.uid), check(KEY, None), add(KEY, "1000")]
    patch += [check("/metadata/annotations", None), add("/metadata/annotations", {ANNOTATION: "{}"})]
    patch += [check("/status/conditions", None), add("/status/conditions", [CONDITION_VALUE])]
    state = api_node.write(patch)
    assert state.capacity is not None
    assert state.capacity["example.com/x"] == "1k", "as stored"
    assert (state.annotation, state.condition_count) == ("{}", 1)
    assert state.condition is not None
    assert state.condition.document == CONDITION_VALUE
    assert api_node.read() == state
    api_node.write([check("/status/conditions/0", dict(state.condition.document)), check(KEY, "1k")])


def test_one_call_is_one_request(cluster: Cluster, node: str) -> None:
    api_node = opened(cluster.kubeconfig(node_user(node)))
    with cluster.audit.requests(user=node_user(node)) as requests:
        event = Event("Warning", "CapacityRefused", "example.com/x: a → b " + "x" * 2000)
        api_node.report(event, api_node.write([add(KEY, "1")]))
        assert [(r.verb, r.resource, r.subresource, r.code) for r in requests.all()] == [
            ("create", "selfsubjectreviews", "", 201),
            ("get", "nodes", "", 200),
            ("patch", "nodes", "status", 200),
            ("create", "events", "", 201),
        ]
        assert all(r.user_agent.startswith("capacityd/") for r in requests.all())
    managers = {field["manager"]: field for field in cluster.node(node)["metadata"]["managedFields"]}
    assert managers["capacityd"]["subresource"] == "status"
    (created,) = cluster.events_of(node)
    assert (created["type"], created["reason"]) == ("Warning", "CapacityRefused")
    assert created["source"] == {"component": "capacityd", "host": node}
    assert created["message"].startswith("example.com/x: a → b ")


def test_a_failed_guard_and_an_invalid_value_are_distinguished(cluster: Cluster, node: str) -> None:
    api_node = opened(cluster.kubeconfig(node_user(node)))
    for guard in (check(KEY, "1"), check("/metadata/uid", "other"), check("/status/capacity/cpu", None)):
        with pytest.raises(NodeConflict):
            api_node.write([guard, add(KEY, "1")])
    with pytest.raises(NodeConflict):
        api_node.write([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}, add(KEY, "1")])
    for value in ("-1", "1.5", "abc", {"a": "b"}):
        with pytest.raises(NodeRejected):
            api_node.write([add(KEY, value)])
    with pytest.raises(NodeRejected, match=r"\(HTTP 422\)"):
        api_node.write([add("/metadata/annotations", {ANNOTATION: "x" * 300_000})])
    with pytest.raises(NodeRejected, match=r"\(HTTP 413\)"):
        api_node.write([check("/metadata/name", node)] * 10_001)
    assert "example.com/x" not in cluster.capacity(node)


def test_a_guard_for_what_is_absent_holds(cluster: Cluster) -> None:
    bare = cluster.create_node(capacity=None)
    api_node = opened(cluster.kubeconfig(node_user(bare)))
    state = api_node.read()
    assert (state.capacity, state.allocatable, state.has_annotations, state.condition_count) == (
        None,
        None,
        False,
        None,
    )
    for path in (KEY, RECORD, "/status/conditions/0"):
        with pytest.raises(NodeConflict):
            api_node.write([check(path, None)])
    patch = [check("/status/capacity", None), add("/status/capacity", {"example.com/x": "1"})]
    patch += [check("/metadata/annotations", None), add("/metadata/annotations", {"other": "y"})]
    patch += [check("/status/conditions", None), add("/status/conditions", [{"type": "Ready", "status": "True"}])]
    assert api_node.write(patch).capacity == {"example.com/x": "1"}
    api_node.write([check(RECORD, None), check("/status/capacity/other", None)])


def test_a_list_has_nothing_beyond_its_end_that_could_be_tested(cluster: Cluster) -> None:
    """So a guard for an append tests the whole list; without it, a list could get the same type twice."""
    name = cluster.create_node(status={"conditions": [{"type": "Ready", "status": "True"}]})
    api_node = opened(cluster.kubeconfig(node_user(name)))
    for place in ("1", "-"):
        with pytest.raises(NodeConflict):
            api_node.write([check(f"/status/conditions/{place}", None)])
    whole = cluster.node(name)["status"]["conditions"]
    append = [check("/status/conditions", whole), add("/status/conditions/-", CONDITION_VALUE)]
    assert api_node.write(append).condition_count == 2
    with pytest.raises(NodeConflict):
        api_node.write(append)
    assert api_node.write(append[1:]).condition_count == 3


def test_another_nodes_node_is_refused(cluster: Cluster, node: str, kubernetes: str) -> None:
    mine = cluster.create_node()
    asked = Client(load(str(cluster.kubeconfig(node_user(mine)))))
    asked.user = node_user(mine)
    denied = f'the identity "system:node:{mine}" may not '
    if fits(kubernetes, "since", OWN_NODE_ONLY):
        with pytest.raises(
            NodeUnauthorized, match=f'{denied}get Node "{node}" .HTTP 403.: a kubelet\'s identity has access'
        ):
            asked.read_node(node)
    else:
        assert asked.read_node(node).name == node
    with pytest.raises(NodeUnauthorized, match=f'{denied}patch nodes/status of Node "{node}" .HTTP 403.: a kubelet\'s'):
        asked.patch_node_status(node, [add(KEY, "1")])
    with pytest.raises(NodeUnauthorized, match=f'node_name is "{node}", but the credentials belong to Node "{mine}"'):
        opened(cluster.kubeconfig(node_user(mine)), node).read()


def test_a_missing_node_is_named_until_it_is_created(cluster: Cluster) -> None:
    name = cluster.node_name()
    api_node = opened(cluster.kubeconfig(node_user(name)))
    for use in (api_node.read, lambda: api_node.write([add(KEY, "1")])):
        with pytest.raises(NodeMissing, match=f'the API server in .* has no Node "{name}". Has the kubelet'):
            use()
    assert isinstance(api_node, ApiNode)
    cluster.create_node(name)
    assert api_node.read().name == name


def test_another_identity_needs_the_machines_own_id(cluster: Cluster) -> None:
    name = cluster.create_node(status=node_info("abc"))
    config = cluster.kubeconfig(ADMIN)
    assert opened(config, name, "abc").write([add(KEY, "1")]).machine_id == "abc"
    with pytest.raises(NodeUnauthorized, match="another machine: its machineID is abc, this machine's is not an id"):
        opened(config, name, "x").write([add(KEY, "2")])
    assert cluster.capacity(name)["example.com/x"] == "1"
    with pytest.raises(NodeMissing, match='no Node "no-such-host"'):
        opened(config, None, "abc").read()
    assert opened(cluster.kubeconfig(node_user(name)), None, "x").read().machine_id == "abc"


def test_a_clone_with_the_same_machine_id_is_another_machine(cluster: Cluster) -> None:
    ours, theirs = "4c4c4544-0042-3510-8052-b4c04f4d5931", "4c4c4544-0042-3510-8052-b4c04f4d5932"
    config = str(cluster.kubeconfig(ADMIN))
    name = cluster.create_node(status=node_info("abc", theirs))
    clone = open_node(config, name, "no-such-host", "abc", system_uuid=ours)
    with pytest.raises(NodeUnauthorized, match="belongs to another machine, which has the same machine-id"):
        clone.write([add(KEY, "2")])
    assert "example.com/x" not in cluster.capacity(name)
    open_node(config, name, "no-such-host", "abc", system_uuid=theirs).write([add(KEY, "1")])
    assert cluster.capacity(name)["example.com/x"] == "1"


def test_exactly_the_right_that_is_missing_is_named(cluster: Cluster, node: str) -> None:
    user = f"agent-of-{node}"
    config = cluster.kubeconfig(user, credentials="certificate")

    api_node = opened(config, node)
    with pytest.raises(
        NodeUnauthorized, match=f'"{user}" may not get Node .* needs a role with the verb "get" on "nodes"'
    ):
        api_node.read()
    cluster.grant(user, "get", "nodes")
    state = api_node.read()
    with pytest.raises(NodeUnauthorized, match=r'needs a role with the verb "patch" on "nodes/status"\.'):
        api_node.write([add(KEY, "1")])
    cluster.grant(user, "patch", "nodes/status")
    api_node.write([add(KEY, "1")])
    with pytest.raises(NodeUnauthorized, match='verb "create" on "events" in the namespace "default"'):
        api_node.report(Event("Normal", "Reason", "x"), state)
    cluster.grant(user, "create", "events")
    api_node.report(Event("Normal", "Reason", "x"), state)


def test_unknown_credentials_are_named_without_their_secret(cluster: Cluster) -> None:
    config = cluster.kubeconfig(ADMIN, token="secret-of-nobody")
    with pytest.raises(NodeUnauthorized) as raised:
        opened(config).read()
    assert f"the API server in {config} rejected the credentials in the same file (HTTP 401)" in str(raised.value)
    assert "secret-of-nobody" not in str(raised.value)


def test_without_credentials_the_user_is_anonymous(cluster: Cluster, node: str) -> None:
    config = cluster.kubeconfig(ADMIN)
    config.write_text(kubeconfig(cluster.url, cluster.ca_file, {}))
    with pytest.raises(NodeUnauthorized, match="as system:anonymous"):
        opened(config, node).read()


def test_a_client_certificate_of_another_authority_is_refused_until_it_is_renewed(
    cluster: Cluster, node: str, tmp_path: Path
) -> None:
    config = cluster.kubeconfig(node_user(node), tmp_path / "kubeconfig", credentials="certificate")
    pem = tmp_path / "kubeconfig.pem"
    good = pem.read_text()
    Authority.create(tmp_path / "other").client(node_user(node), ["system:nodes"], pem)
    api_node = opened(config)
    with pytest.raises(NodeUnauthorized, match=r"\(HTTP 401\)|rejected the client certificate"):
        api_node.read()
    pem.write_text(good)
    assert api_node.read().name == node


def test_a_server_is_verified_as_the_kubeconfig_says(cluster: Cluster, node: str) -> None:
    def read(**settings: object) -> str:
        kubeconfig = cluster.kubeconfig(node_user(node))
        document = json.loads(kubeconfig.read_text())
        document["clusters"][0]["cluster"].update(settings)
        kubeconfig.write_text(json.dumps(document))
        return opened(kubeconfig).read().name

    assert read(**{"tls-server-name": "localhost"}) == node
    with pytest.raises(NodeUnauthorized, match="certificate for other names"):
        read(**{"tls-server-name": "kubernetes.example"})
    assert read(**{"certificate-authority": "", "insecure-skip-tls-verify": True}) == node


def test_only_the_authority_of_the_kubeconfig_is_trusted(cluster: Cluster, node: str) -> None:
    """Debian's urllib3 1.26 would also trust the system's authorities, and each could then impersonate the server."""
    used: list[ssl.SSLContext] = []
    wrap_socket = ssl.SSLContext.wrap_socket

    def remember(context: ssl.SSLContext, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        used.append(context)
        return wrap_socket(context, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "wrap_socket", remember)
        api_node = opened(cluster.kubeconfig(node_user(node)))
        assert api_node.read().name == node
    assert [context.cert_store_stats()["x509"] for context in used] == [1]
