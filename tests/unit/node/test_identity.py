"""Which Node the credentials lead to, when the API server is asked for its name, and that it is this machine's Node.

A review is the request with which a client asks the API server who it is (SelfSubjectReview).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import NodeError, NodeForbidden, NodeMissing, NodeUnauthorized, NodeUnreachable
from capacityd.model.node import NodeState, Patch
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import CredentialsCache, Identity, Machine
from capacityd.node.own_node import require_own_machine
from tests.support.nodes import UID, node
from tests.support.server import Request, Server, answer, failure, review, serve
from tests.unit.node.test_credentials import config, written

UUID, OTHER_UUID = "4c4c4544-0042-3510-8052-b4c04f4d5931", "4c4c4544-0042-3510-8052-b4c04f4d5932"
PATCH = Patch(UID, "7", capacity={"example.com/x": 4})
ANONYMOUS = 'forbidden: User "system:anonymous" cannot create resource "selfsubjectreviews"'
STARTING = 'forbidden: User "system:node:n1" cannot create resource "selfsubjectreviews"'


class Cluster:
    """A fake API server for one user at a time. A kubelet may access only its own Node, any other user all Nodes."""

    def __init__(self, user: str = "system:node:n1", bound: str = "") -> None:
        """bound: the Node to which a service account's token is bound."""
        self.user = user
        self.bound = bound
        self.denied_review = b""
        """The response to the next review; b"" for a valid review."""
        self.machines = dict.fromkeys(("n1", "n2", "n3", "n7", "n9", "Other", "host-1"), ("9f", ""))
        """The machineID and the systemUUID of each Node."""
        self.readonly = ""
        """The Node that the user may not write."""
        self.broken = b""
        """The response to each request for a Node; b"" for a valid response."""
        self.requests: list[str] = []
        """The requests so far."""

    def __call__(self, request: Request) -> bytes:
        if request.method == "POST":
            self.requests.append("review")
            denied, self.denied_review = self.denied_review, b""
            return denied or review(self.user, self.bound)
        name = request.path.split("/")[4].partition("?")[0]  # the path: /api/v1/nodes/NAME/status?…
        self.requests.append(f"{request.method} {name}")
        is_other_kubelet = self.user.startswith("system:node:n") and self.user != f"system:node:{name}"
        if self.broken:
            return self.broken
        if name not in self.machines:
            return failure(404, "not found", {"kind": "nodes"})
        if is_other_kubelet or (request.method == "PATCH" and name == self.readonly):
            return failure(403, f'nodes "{name}" is forbidden: User "{self.user}" cannot {request.method}')
        document: dict[str, Any] = node()
        document["metadata"]["name"] = name
        machine_id, system_uuid = self.machines[name]
        document["status"]["nodeInfo"] = {"machineID": machine_id, "systemUUID": system_uuid}
        return answer(200, document)


def opened(
    folder: Path,
    server: Server,
    name: str | None = None,
    machine: tuple[str | None, str] = ("9f", ""),
    cache: CredentialsCache | None = None,
    acts_as: str | None = None,
) -> ApiNode:
    """The Node, opened as by a new process. machine: the machine-id and UUID. acts_as: the user to impersonate."""
    path = written(folder, config({"server": server.url}, {"token": "secret", "as": acts_as}))
    return ApiNode(path, name, Machine("Host-1 ", *machine), cache)


@pytest.mark.parametrize(
    ("user", "bound", "configured", "name", "certain", "checked"),
    [
        ("system:node:n1", "", None, "n1", True, False),
        ("system:node:n1", "", "n1", "n1", True, False),
        ("system:serviceaccount:x:y", "n7", None, "n7", True, True),
        ("system:serviceaccount:x:y", "n7", "n7", "n7", True, True),
        ("bob", "", None, "host-1", False, True),
        ("bob", "", "Other", "Other", True, True),
        ("system:node:", "", "n3", "n3", True, True),
        (None, "", "n3", "n3", True, True),
    ],
)
def test_the_credentials_name_the_node_or_else_the_configuration_or_the_host_name(
    tmp_path: Path, user: str | None, bound: str, configured: str | None, name: str, certain: bool, checked: bool
) -> None:
    """user: None if the review is denied. certain: whether the name is known without a guess.

    checked: whether the machine-id is compared with the Node's.
    """
    cluster = Cluster(user or "bob", bound)
    if user is None:
        cluster.denied_review = failure(403, STARTING)
    cluster.machines[name] = ("a7", "")
    with serve(cluster) as server:
        api_node = opened(tmp_path, server, configured)
        assert api_node.identify() == (name if certain else None)
        if checked:
            with pytest.raises(NodeUnauthorized, match="its machineID is not the one in /etc/machine-id"):
                api_node.read()
        else:
            assert api_node.read().name == name
    assert cluster.requests == ["review", f"GET {name}"], "one review is enough"


@pytest.mark.parametrize(
    ("user", "bound", "acts_as"), [("system:node:n1", "", None), ("bob", "n1", None), ("bob", "", "system:node:n1")]
)
def test_a_configured_name_of_another_node_is_an_error(
    tmp_path: Path, user: str, bound: str, acts_as: str | None
) -> None:
    with serve(Cluster(user, bound)) as server, pytest.raises(NodeUnauthorized) as raised:
        opened(tmp_path, server, "n2", acts_as=acts_as).identify()
    assert 'node_name is "n2", but the credentials belong to Node "n1"' in str(raised.value)


def test_every_request_acts_as_the_user_that_the_kubeconfig_names(tmp_path: Path) -> None:
    """Then no review is needed. The machine-id is checked, because the credentials may come from an image."""
    cluster = Cluster()
    with serve(cluster) as server:
        kubelet = "system:node:n1"
        assert opened(tmp_path, server, acts_as=kubelet).read().name == "n1"
        assert opened(tmp_path, server, acts_as=kubelet).write(PATCH).name == "n1"
        with pytest.raises(NodeUnauthorized, match="belongs to another machine"):
            opened(tmp_path, server, machine=("0" * 32, ""), acts_as=kubelet).read()
    assert cluster.requests == ["GET n1", "PATCH n1", "GET n1"]
    assert {request.headers.get("impersonate-user") for request in server.received} == {kubelet}


ID = "0123456789abcdef0123456789abcdef"
DIFFERS = "its machineID is not the one in /etc/machine-id. Set node_name"


@pytest.mark.parametrize(
    ("of_node", "of_machine", "error"),  # two pairs of machine-id and UUID; a part of the error
    [
        ((ID, ""), (ID, ""), ""),
        ((ID, ""), (None, ""), ""),  # None: any Node is accepted
        (("a7", ""), ("9f", ""), DIFFERS),
        (("", ""), ("", ""), DIFFERS),
        (("", ""), ("x", ""), DIFFERS),
        # Clones have equal machine-ids. Their UUIDs are compared if both are known.
        ((ID, UUID), (ID, UUID), ""),
        ((ID, UUID.upper()), (ID, UUID), ""),
        ((ID, UUID), (ID, OTHER_UUID), "although the machine-id is equal: give each"),
        ((ID, ""), (ID, UUID), ""),
        ((ID, UUID), (ID, ""), ""),  # not readable, or a machine without DMI
        ((ID, ID), (ID, UUID), ""),  # a kubelet that could read the machine-id only
        ((ID, "Not Settable"), (ID, UUID), ""),
        ((ID, "not-settable"), (ID, UUID), ""),
    ],
)
def test_another_identity_needs_this_machines_id(
    of_node: tuple[str, str], of_machine: tuple[str | None, str], error: str
) -> None:
    """So capacityd never writes the Node of another machine. A kubelet can only access its own Node, and is not
    checked. The error does not show this machine's UUID, which only root may read."""
    state = NodeState("n1", machine_id=of_node[0], system_uuid=of_node[1])
    machine = Machine("host", *of_machine)
    require_own_machine(Identity("n1", is_certain=True, is_own_node=True), state, machine)
    other = Identity("n1", is_certain=True, is_own_node=False)
    if not error:
        require_own_machine(other, state, machine)
        return
    with pytest.raises(NodeUnauthorized) as raised:
        require_own_machine(other, state, machine)
    assert error in str(raised.value)
    assert OTHER_UUID not in str(raised.value)


# When capacityd requests a review.


@pytest.mark.parametrize("broken", [b"", failure(500), failure(409)])
def test_the_review_of_an_earlier_pass_is_enough(tmp_path: Path, broken: bytes) -> None:
    cluster, cache = Cluster(), CredentialsCache()
    with serve(cluster) as server:
        opened(tmp_path, server, cache=cache).read()
        cluster.broken = broken
        with pytest.raises(NodeError) if broken else nullcontext():
            opened(tmp_path, server, cache=cache).read()
        cluster.broken = b""
        assert opened(tmp_path, server, cache=cache).read().name == "n1"
    assert cluster.requests == ["review", *["GET n1"] * 3]


def _become_another_kubelet(cluster: Cluster) -> None:
    """The new credentials are in the same file, as with k3s."""
    cluster.user = "system:node:n2"


def _bind_token_to_n9(cluster: Cluster) -> None:
    """The user may read every Node, so the API server denies nothing. But n1 is another machine's Node now."""
    cluster.bound, cluster.machines["n1"] = "n9", ("a7", "")


def _replace_n1_with_n9(cluster: Cluster) -> None:
    cluster.bound = "n9"
    del cluster.machines["n1"]


def _allow_writing_only_n9(cluster: Cluster) -> None:
    cluster.bound, cluster.readonly = "n9", "n1"


Change = Callable[[Cluster], None]


@pytest.mark.parametrize(
    ("user", "change", "error", "method", "name"),  # the last two: the request that is denied, then sent for this Node
    [
        ("system:node:n1", _become_another_kubelet, NodeForbidden, "GET", "n2"),
        ("agent", _bind_token_to_n9, NodeUnauthorized, "GET", "n9"),
        ("agent", _replace_n1_with_n9, NodeMissing, "GET", "n9"),
        ("agent", _allow_writing_only_n9, NodeForbidden, "PATCH", "n9"),
    ],
)
def test_after_a_denial_the_next_pass_requests_a_review(
    tmp_path: Path, user: str, change: Change, error: type[NodeError], method: str, name: str
) -> None:
    cluster, cache = Cluster(user, "n1"), CredentialsCache()
    with serve(cluster) as server:
        first = opened(tmp_path, server, cache=cache)
        first.read()
        change(cluster)
        with pytest.raises(error):
            first.write(PATCH) if method == "PATCH" else opened(tmp_path, server, cache=cache).read()
        again = opened(tmp_path, server, cache=cache)
        assert (again.write(PATCH) if method == "PATCH" else again.read()).name == name
    assert cluster.requests == ["review", "GET n1", f"{method} n1", "review", f"{method} {name}"]


@pytest.mark.parametrize(
    ("denied", "kind", "message"),
    [
        # The authorizer of a server that has just started does not know the default rights yet.
        (STARTING, NodeUnreachable, "as for a moment after its start; if this lasts, set node_name"),
        # The name of the Node is not the cause.
        (ANONYMOUS, NodeUnauthorized, "end TLS, and so remove the client certificate?"),
    ],
)
def test_a_denied_review_is_requested_again(tmp_path: Path, denied: str, kind: type[NodeError], message: str) -> None:
    cluster = Cluster()
    cluster.denied_review = failure(403, denied)
    with serve(cluster) as server:
        api_node = opened(tmp_path, server)
        with pytest.raises(kind) as raised:
            api_node.read()
        assert str(raised.value).endswith(message)
        assert api_node.read().name == "n1"
    assert cluster.requests == ["review", "review", "GET n1"]
