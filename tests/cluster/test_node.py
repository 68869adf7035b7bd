"""The Node on a real API server: capacityd's identity and rights, and the errors."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import NodeConflict, NodeRejected, NodeUnauthorized
from capacityd.model.node import ANNOTATION, Condition, Event, Node, NodeState, Patch
from capacityd.model.quantity import LARGEST_QUANTITY, is_storable
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import CredentialsCache, Identity, Machine
from tests.cluster.api import ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, Credentials, kubeconfig, node_user
from tests.cluster.versions import OWN_NODE_ONLY, has_feature

pytestmark = pytest.mark.protocol

NAME = "example.com/x"
TEXT = "é<&>\u2028 e\u0301 \U0001ffff 0/0 ~1"  # characters that JSON in Go, or a JSON patch, writes in another form
MESSAGE = "é<&> e\u0301 0/0 ~1"  # unprintable characters would be read as escapes
CONDITION = Condition("True", "Published", MESSAGE, heartbeat=1767323045.0, transition="2026-01-02T03:04:05Z")


def patch_of(state: NodeState, number: int | None = 1, **more: Any) -> Patch:
    """A patch that sets one number, on the Node as it was read."""
    return Patch(state.uid, state.resource_version, capacity={NAME: number}, **more)


def write(api_node: Node, number: int | None = 1) -> NodeState:
    """Reads the Node, and sets one number."""
    return api_node.write(patch_of(api_node.read(), number))


def node_of(kubeconfig: Path, name: str | None = None) -> Node:
    """The Node that this kubeconfig leads to. name: node_name in the configuration."""
    return ApiNode(str(kubeconfig), name, Machine("no-such-host", None))


def without_version(state: NodeState) -> NodeState:
    """The Node without the fields that only the API server sets."""
    return replace(state, resource_version="", fingerprint="")


@pytest.mark.parametrize("credentials", ["token", "certificate", "exec"])
def test_read_and_write_as_the_node(cluster: Cluster, node: str, credentials: Credentials) -> None:
    api_node = node_of(cluster.kubeconfig(node_user(node), credentials=credentials))
    assert api_node.identify() == node
    state = api_node.read()
    assert (state.name, state.annotation, state.conditions) == (node, None, ())
    assert state.uid == cluster.node(node)["metadata"]["uid"]
    annotations, labels = {ANNOTATION: TEXT}, {NAME: 5}
    patch = patch_of(state, 1000, allocatable={NAME: 7}, labels=labels, annotations=annotations, condition=CONDITION)
    after = api_node.write(patch)
    assert cluster.capacity(node)[NAME] == "1k", "as the API server stores it"
    assert (after.capacity[NAME], after.allocatable[NAME], after.labels[NAME]) == ("1000", "7", "5")
    assert (after.annotation, after.conditions) == (TEXT, (CONDITION,))
    assert api_node.read() == after
    assert without_version(after) == without_version(state.after(patch))
    removal = {"allocatable": {NAME: None}, "labels": {NAME: None}, "annotations": {ANNOTATION: None}}
    cleaned = api_node.write(patch_of(after, None, **removal, removes_conditions=True))
    assert without_version(cleaned) == without_version(state), "nothing is left"


@pytest.mark.parametrize("arguments", [{"capacity": None}, {"status": {"conditions": []}}, {}])
def test_missing_parents_are_created_and_other_entries_stay(cluster: Cluster, arguments: dict[str, Any]) -> None:
    name = cluster.create_node(**arguments)
    before = cluster.node(name)
    api_node = node_of(cluster.kubeconfig(node_user(name)))
    api_node.write(patch_of(api_node.read(), 1, annotations={ANNOTATION: "{}"}, condition=CONDITION))
    after = cluster.node(name)
    assert after["status"]["capacity"] == {**before["status"].get("capacity", {}), NAME: "1"}
    assert after["metadata"]["annotations"] == {**before["metadata"].get("annotations", {}), ANNOTATION: "{}"}
    theirs = {condition["type"] for condition in before["status"].get("conditions", [])}
    assert {condition["type"] for condition in after["status"]["conditions"]} == theirs | {"CapacityPublished"}


def test_of_several_conditions_of_capacityds_type_one_is_left(cluster: Cluster, node: str) -> None:
    entries = [{"type": "CapacityPublished", "status": status} for status in ("Unknown", "False")]
    path, ready = f"/api/v1/nodes/{node}/status", {"type": "Ready", "status": "True"}
    added = [{"op": "add", "path": "/status/conditions", "value": [entries[0], ready, entries[1]]}]
    cluster.admin.patch(path, added, "json")
    api_node = node_of(cluster.kubeconfig(node_user(node)))
    state = api_node.read()
    assert len(state.conditions) == 2
    after = api_node.write(replace(patch_of(state), removes_conditions=True, condition=CONDITION))
    assert after.conditions == (CONDITION,)
    assert {c["type"] for c in cluster.node(node)["status"]["conditions"]} == {"Ready", "CapacityPublished"}


@pytest.mark.parametrize("registered_anew", [False, True])
def test_any_change_since_the_node_was_read_is_a_conflict(cluster: Cluster, node: str, registered_anew: bool) -> None:
    """Another writer sets a label, or the Node is registered anew."""
    api_node = node_of(cluster.kubeconfig(node_user(node)))
    state = api_node.read()
    path = f"/api/v1/nodes/{node}"
    if registered_anew:
        cluster.admin.delete(path)
        cluster.create_node(node)
    else:
        cluster.admin.patch(path, {"metadata": {"labels": {"example.com/theirs": "x"}}})
    with pytest.raises(NodeConflict):
        api_node.write(patch_of(state))
    assert NAME not in cluster.capacity(node)
    write(api_node)
    assert cluster.capacity(node)[NAME] == "1"


def test_an_invalid_content_is_rejected(cluster: Cluster, node: str) -> None:
    api_node = node_of(cluster.kubeconfig(node_user(node)))
    state = api_node.read()
    with pytest.raises(NodeRejected):
        api_node.write(patch_of(state, -1))
    with pytest.raises(NodeRejected, match="HTTP 422"):
        api_node.write(patch_of(state, annotations={ANNOTATION: "x" * 300_000}))  # more than 256 KiB
    assert NAME not in cluster.capacity(node)


def test_a_kubelets_identity_cannot_access_another_node(cluster: Cluster, node: str, kubernetes: str) -> None:
    own = cluster.create_node()
    cache = CredentialsCache(Identity(node, is_certain=True, is_own_node=True))
    another = ApiNode(str(cluster.kubeconfig(node_user(own))), None, Machine("no-such-host", None), cache)
    denied = "A kubelet's identity has access to its own Node only"
    if has_feature(kubernetes, OWN_NODE_ONLY):
        with pytest.raises(NodeUnauthorized, match=f'get nodes with HTTP 403: .*"system:node:{own}" .*{denied}'):
            another.read()
    else:
        assert another.read().name == node
    cache.identity = Identity(node, is_certain=True, is_own_node=True)
    with pytest.raises(NodeUnauthorized, match=f"patch nodes/status with HTTP 403: .*{denied}"):
        another.write(Patch("uid", "1", capacity={NAME: 1}))
    with pytest.raises(NodeUnauthorized, match=f'node_name is "{node}", but the credentials belong to Node "{own}"'):
        node_of(cluster.kubeconfig(node_user(own)), node).read()


def test_the_missing_right_is_named(cluster: Cluster, node: str) -> None:
    user = f"agent-of-{node}"
    config = cluster.kubeconfig(user, credentials="certificate")

    api_node = node_of(config, node)
    with pytest.raises(NodeUnauthorized, match=f'"{user}" cannot get .* needs a role with the verb "get" on "nodes"'):
        api_node.read()
    cluster.grant(user, "get", "nodes")
    state = api_node.read()
    with pytest.raises(NodeUnauthorized, match=r'needs a role with the verb "patch" on "nodes/status"'):
        api_node.write(patch_of(state))
    cluster.grant(user, "patch", "nodes/status")
    write(api_node)
    with pytest.raises(NodeUnauthorized, match='verb "create" on "events" in the namespace "default"'):
        api_node.report(Event("Normal", "Reason", "x"), state)
    cluster.grant(user, "create", "events")
    api_node.report(Event("Normal", "Reason", "x"), state)


def test_without_credentials_the_user_is_anonymous(cluster: Cluster, node: str) -> None:
    config = cluster.kubeconfig(ADMIN)
    config.write_text(kubeconfig(cluster.url, cluster.ca_file, {}))
    with pytest.raises(NodeUnauthorized, match="The request arrived without credentials"):
        node_of(config, node).read()


def test_only_the_authority_of_the_kubeconfig_is_trusted(cluster: Cluster, node: str) -> None:
    """Debian's urllib3 1.26 would also trust the system's authorities, any of which could impersonate the server."""
    used: list[ssl.SSLContext] = []
    wrap_socket = ssl.SSLContext.wrap_socket

    def remember(context: ssl.SSLContext, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        used.append(context)
        return wrap_socket(context, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "wrap_socket", remember)
        api_node = node_of(cluster.kubeconfig(node_user(node)))
        assert api_node.read().name == node
    assert [context.cert_store_stats()["x509"] for context in used] == [1]


def test_which_quantities_the_api_server_accepts(cluster: Cluster, node: str) -> None:
    edge = LARGEST_QUANTITY // 1000  # the thousandths of a larger number overflow 64 bits
    numbers = [0, 1, edge - 1, edge, *(2**n for n in range(52, 63)), LARGEST_QUANTITY - 1, LARGEST_QUANTITY]
    numbers += [edge + 1, edge + 2, *(10**n for n in range(15, 19)), 9 * 10**18, 123_456_789_012_345_678]
    assert {n: is_accepted(cluster, node, n) for n in numbers} == {n: is_storable(n) for n in numbers}


def is_accepted(cluster: Cluster, node: str, number: int) -> bool:
    """Whether the API server accepts this quantity."""
    try:
        cluster.set_capacity(node, {NAME: str(number)})
    except ApiError as error:
        if error.status != 422:
            raise
        return False
    return True


def test_names_and_numbers_at_the_limits_are_stored_unchanged(cluster: Cluster, node: str) -> None:
    domain = ".".join(["a" * 60] * 4)
    names = [f"example.com/{'x' * 63}", f"{domain}/x", "example.com/A_b.C-d", "example.com/0", "x/y"]
    numbers = dict.fromkeys(names, LARGEST_QUANTITY)
    numbers |= {f"example.com/x{n}": n for n in (1000, 0, 3000, 10**6, 1024, 2048, 9 * 10**15, 1500)}
    api_node = node_of(cluster.kubeconfig(node_user(node)))
    state = api_node.read()
    after = api_node.write(Patch(state.uid, state.resource_version, capacity=numbers))
    assert {name: after.capacity[name] for name in numbers} == {name: str(number) for name, number in numbers.items()}
