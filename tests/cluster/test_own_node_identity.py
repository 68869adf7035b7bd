"""The identity that the API server itself limits to one Node, by constrained impersonation."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests import ROOT
from tests.cluster.agent import DONGLE, condition_of, our_events
from tests.cluster.api import PATCHES, Api, ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.identity import account_token, create_node
from tests.cluster.kubectl import succeed
from tests.cluster.service import DONGLES, Service, service
from tests.cluster.versions import CONSTRAINED_IMPERSONATION
from tests.support.machines import usb_device

MANIFEST = ROOT / "packaging/kubernetes/identity-own-node.yaml"


@pytest.fixture(scope="module")
def applied(cluster: Cluster) -> Iterator[None]:
    """The manifest is applied, as the only rights of the ServiceAccount."""
    unbind = ("delete", "--ignore-not-found", "--namespace=default", "clusterrolebinding,rolebinding")
    succeed(cluster, *unbind, "capacityd")
    succeed(cluster, "apply", "-f", MANIFEST)
    yield
    succeed(cluster, *unbind, "capacityd-own-node")


@pytest.fixture
def s(cluster: Cluster, applied: None) -> Iterator[Service]:
    """The service, not started yet, with a token that is bound to its Node."""
    with service(cluster, usb_device("1-1"), node=create_node(cluster)) as made:
        cluster.kubeconfig("account", made.kubeconfig, token=account_token(cluster, made.node))
        act_as_node(made)
        yield made


def act_as_node(s: Service) -> None:
    """Makes the service impersonate its Node, with the credentials in its kubeconfig."""
    content = json.loads(s.kubeconfig.read_text())
    content["users"][0]["user"]["as"] = f"system:node:{s.node}"
    s.kubeconfig.write_text(json.dumps(content))


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
def test_it_publishes_watches_and_withdraws(cluster: Cluster, s: Service) -> None:
    s.configure(f"{DONGLES}label = true\n")
    with cluster.audit.requests(user_agent="capacityd/") as requests:
        s.start()
        node = cluster.node(s.node)
        assert (node["status"]["capacity"][DONGLE], node["metadata"]["labels"][DONGLE]) == ("1", "1")
        assert condition_of(node)["status"] == "True"
        assert s.watched
        s.stop()
        s.cli("withdraw", status=0)
    assert {r.code for r in requests.all()} == {200, 201}
    assert len(our_events(cluster, s.node)) >= 2
    assert condition_of(cluster.node(s.node)) == {}


@pytest.mark.protocol
@pytest.mark.since(CONSTRAINED_IMPERSONATION)
def test_everything_else_is_refused(cluster: Cluster, s: Service) -> None:
    other, bearer = create_node(cluster), account_token(cluster, s.node)
    own = {"Impersonate-User": f"system:node:{s.node}"}
    path, patch = (
        f"/api/v1/nodes/{s.node}",
        [{"op": "add", "path": "/status/capacity/example.com~1x", "value": "1"}],
    )

    def code(method: str, path: str, headers: dict[str, str], body: object = None) -> int:
        return answer(cluster, bearer, method, path, headers, body)

    assert (code("GET", path, own), code("PATCH", f"{path}/status", own, patch)) == (200, 200)
    # Another Node, with either name.
    for name in (s.node, other):
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
def test_a_token_that_is_not_bound_to_the_node(cluster: Cluster, s: Service, bound_to: str) -> None:
    token = account_token(cluster, create_node(cluster) if bound_to == "another Node" else "")
    cluster.kubeconfig("account", s.kubeconfig, token=token)
    act_as_node(s)
    message = s.cli("apply", status=3).stderr
    assert "This needs Kubernetes 1.36 or later" in message
    assert "bound to this Node" in message
    assert s.capacity() is None


@pytest.mark.protocol
def test_without_the_rights(cluster: Cluster) -> None:
    """An older cluster gives the same answer with any roles, because it knows only impersonation of users."""
    cluster.grant("plain", "get", "nodes")
    with service(cluster, usb_device("1-1"), node=create_node(cluster)) as s:
        cluster.kubeconfig("plain", s.kubeconfig, credentials="certificate")
        act_as_node(s)
        message = s.cli("apply", status=3).stderr
    assert "This needs Kubernetes 1.36 or later" in message
    assert 'use identity.yaml, and remove "as"' in message
