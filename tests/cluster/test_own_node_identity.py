"""The identity that the API server itself limits to its own Node, by constrained impersonation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacityd.model.node import CONDITION
from tests import ROOT
from tests.cluster.agent import DONGLE, Agent, condition_of, our_events
from tests.cluster.api import PATCHES, Api, ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.identity import MACHINE_ID, account_token, create_node, node_info
from tests.cluster.kubectl import kubectl
from tests.cluster.service import service
from tests.cluster.versions import CONSTRAINED_IMPERSONATION
from tests.support.machines import usb_device

MANIFEST = ROOT / "packaging/kubernetes/identity-own-node.yaml"


@pytest.fixture(scope="module")
def applied(cluster: Cluster) -> Iterator[None]:
    """The manifest is applied, as the only rights of the ServiceAccount."""
    admin = cluster.kubeconfig("admin")
    unbind = ("delete", "--ignore-not-found", "--namespace=default", "clusterrolebinding,rolebinding")
    kubectl(cluster, admin, *unbind, "capacityd")
    done = kubectl(cluster, admin, "apply", "-f", MANIFEST)
    assert done.returncode == 0, done.stderr
    yield
    kubectl(cluster, admin, *unbind, "capacityd-own-node")


def acting_as(path: Path, user: str | None) -> Path:
    """Adds the user to a kubeconfig."""
    content = json.loads(path.read_text())
    content["users"][0]["user"] |= {} if user is None else {"as": user}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def agent(cluster: Cluster, applied: None, tmp_path: Path) -> Agent:
    node = create_node(cluster)
    agent = Agent(cluster, node, tmp_path / "agent")
    path = cluster.kubeconfig("account", tmp_path / "own.conf", token=account_token(cluster, node))
    agent.kubeconfig = acting_as(path, f"system:node:{node}")
    return agent


def answer(cluster: Cluster, bearer: str, method: str, path: str, headers: dict[str, str], body: object = None) -> int:
    """The status of the API server's response."""
    api = Api(cluster.url, cluster.ca_file, bearer)
    api._headers |= headers
    try:
        api.request(method, path, body, PATCHES["json"] if method == "PATCH" else "application/json")
    except ApiError as refused:
        return refused.status
    return 200


@pytest.mark.protocol
@pytest.mark.since(CONSTRAINED_IMPERSONATION)
def test_it_publishes_and_withdraws(cluster: Cluster, agent: Agent) -> None:
    text = agent.config.read_text()
    agent.configure(f"{text}label = true\n")
    with cluster.audit.requests(user_agent="capacityd/") as requests:
        agent.run("apply")
        node = cluster.node(agent.node)
        assert (node["status"]["capacity"][DONGLE], node["metadata"]["labels"][DONGLE]) == ("4", "4")
        assert (condition_of(node) or {})["status"] == "True"
        agent.run("withdraw")
    assert {r.code for r in requests.all()} == {200, 201}
    assert [(r.verb, r.resource) for r in requests.all()][:2] == [("get", "nodes"), ("patch", "nodes")]
    assert len(our_events(cluster, agent.node)) >= 2
    assert CONDITION not in json.dumps(cluster.node(agent.node)["status"]["conditions"])


@pytest.mark.protocol
@pytest.mark.since(CONSTRAINED_IMPERSONATION)
def test_everything_else_is_refused(cluster: Cluster, agent: Agent) -> None:
    other, bearer = create_node(cluster), account_token(cluster, agent.node)
    own = {"Impersonate-User": f"system:node:{agent.node}"}
    path, patch = (
        f"/api/v1/nodes/{agent.node}",
        [{"op": "add", "path": "/status/capacity/example.com~1x", "value": "1"}],
    )

    def code(method: str, path: str, headers: dict[str, str], body: object = None) -> int:
        return answer(cluster, bearer, method, path, headers, body)

    assert (code("GET", path, own), code("PATCH", f"{path}/status", own, patch)) == (200, 200)
    # Another Node, with either name.
    for name in (agent.node, other):
        header = {"Impersonate-User": f"system:node:{name}"}
        assert code("GET", f"/api/v1/nodes/{other}", header) == 403
        assert code("PATCH", f"/api/v1/nodes/{other}/status", header, patch) == 403
    assert code("GET", path, {"Impersonate-User": f"system:node:{other}"}) == 403
    # Another verb, or another resource.
    assert code("PATCH", path, own, patch) == 403
    assert code("DELETE", path, own) == 403
    assert code("GET", "/api/v1/nodes", own) == 403
    assert code("GET", "/api/v1/namespaces/default/secrets", own) == 403
    assert code("GET", "/api/v1/pods", own) == 403
    # Without the header, or with a group or another user.
    assert (code("GET", path, {}), code("PATCH", f"{path}/status", {}, patch)) == (403, 403)
    assert code("GET", path, own | {"Impersonate-Group": "system:nodes"}) == 403
    assert code("GET", path, {"Impersonate-User": "admin"}) == 403


@pytest.mark.protocol
@pytest.mark.since(CONSTRAINED_IMPERSONATION)
@pytest.mark.parametrize("bound_to", ["another Node", "no Node"])
def test_a_token_that_is_not_bound_to_the_node(cluster: Cluster, agent: Agent, tmp_path: Path, bound_to: str) -> None:
    bearer = account_token(cluster, create_node(cluster) if bound_to == "another Node" else "")
    path = cluster.kubeconfig("account", tmp_path / "other.conf", token=bearer)
    agent.kubeconfig = acting_as(path, f"system:node:{agent.node}")
    message = agent.run("apply", status=3).stderr
    assert "this needs Kubernetes 1.36 or later" in message
    assert "bound to this Node" in message
    assert DONGLE not in cluster.capacity(agent.node)


@pytest.mark.protocol
def test_without_the_rights(cluster: Cluster, tmp_path: Path) -> None:
    """An older cluster gives the same answer, whatever roles it has: it knows impersonation of users only."""
    node = create_node(cluster)
    cluster.grant("plain", "get", "nodes")
    agent = Agent(cluster, node, tmp_path / "agent")
    agent.kubeconfig = acting_as(
        cluster.kubeconfig("plain", tmp_path / "plain.conf", credentials="certificate"), f"system:node:{node}"
    )
    message = agent.run("apply", status=3).stderr
    assert "this needs Kubernetes 1.36 or later" in message
    assert 'use identity.yaml, and remove "as"' in message


@pytest.mark.since(CONSTRAINED_IMPERSONATION)
def test_the_service_watches_and_shows_whom_it_acts_as(cluster: Cluster, applied: None) -> None:
    with service(cluster, usb_device("1-1")) as s:
        cluster.admin.patch(f"/api/v1/nodes/{s.node}/status", {"status": node_info(MACHINE_ID)})
        path = cluster.kubeconfig("account", s.kubeconfig, token=account_token(cluster, s.node))
        acting_as(path, f"system:node:{s.node}")
        with cluster.audit.requests(user_agent="capacityd/") as requests:
            s.start()
            s.wait_capacity("1")
            s.wait_watched()
        assert {r.code for r in requests.all()} <= {200, 201}
        assert s.status()["impersonated"] == f"system:node:{s.node}"
