"""The identity that the API server itself limits to one Node, by constrained impersonation."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests import ROOT
from tests.cluster.agent import DONGLE, condition_of, our_events
from tests.cluster.api import PATCHES, Api, ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.identity import account_token, create_node
from tests.cluster.kubectl import succeed
from tests.cluster.service import DONGLES, Service, service_on_machine
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
def service(cluster: Cluster, applied: None) -> Iterator[Service]:
    """The service, not started yet, with a token that is bound to its Node."""
    with service_on_machine(cluster, usb_device("1-1"), node=create_node(cluster)) as new_service:
        cluster.kubeconfig("account", new_service.kubeconfig, token=account_token(cluster, new_service.node))
        act_as_node(new_service)
        yield new_service


def act_as_node(service: Service) -> None:
    """Makes the service impersonate its Node, with the credentials in its kubeconfig."""
    content = json.loads(service.kubeconfig.read_text())
    content["users"][0]["user"]["as"] = node_user(service.node)
    service.kubeconfig.write_text(json.dumps(content))


def status_of(cluster: Cluster, token: str, method: str, path: str, user: str = "", group: str = "") -> int:
    """The HTTP status of the answer to a request. user, group: the request asks to act as them."""
    api = Api(cluster.url, cluster.ca_file, token)
    api._headers |= {"Impersonate-User": user} if user else {}
    api._headers |= {"Impersonate-Group": group} if group else {}
    patch = [{"op": "add", "path": "/status/capacity/example.com~1x", "value": "1"}]
    try:
        api.request(method, path, patch if method == "PATCH" else None, PATCHES["json"])
    except ApiError as refused:
        return refused.status
    return 200


@pytest.mark.protocol
@pytest.mark.since(CONSTRAINED_IMPERSONATION)
def test_it_publishes_watches_and_withdraws(cluster: Cluster, service: Service) -> None:
    service.configure(f"{DONGLES}label = true\n")
    mark = cluster.audit.mark()
    service.start()
    node = cluster.node(service.node)
    assert (node["status"]["capacity"][DONGLE], node["metadata"]["labels"][DONGLE]) == ("1", "1")
    assert condition_of(node)["status"] == "True"
    assert service.watched
    service.stop()
    service.cli("withdraw", status=0)
    requests = [r for r in cluster.audit.since(mark) if r.user_agent.startswith("capacityd/")]
    assert {r.code for r in requests} == {200, 201}
    assert len(our_events(cluster, service.node)) >= 2
    assert condition_of(cluster.node(service.node)) == {}


@pytest.mark.protocol
@pytest.mark.since(CONSTRAINED_IMPERSONATION)
def test_everything_else_is_refused(cluster: Cluster, service: Service) -> None:
    other, token = create_node(cluster), account_token(cluster, service.node)
    itself, the_other = node_user(service.node), node_user(other)
    path, others_path = f"/api/v1/nodes/{service.node}", f"/api/v1/nodes/{other}"
    allowed: list[tuple[str, ...]] = [("GET", path, itself), ("PATCH", f"{path}/status", itself)]
    refused: list[tuple[str, ...]] = [  # method, path, and the user and group to act as
        # Another Node, or as another Node.
        ("GET", others_path, itself),
        ("GET", others_path, the_other),
        ("PATCH", f"{others_path}/status", itself),
        ("PATCH", f"{others_path}/status", the_other),
        ("GET", path, the_other),
        # Another verb, or another resource.
        ("PATCH", path, itself),
        ("DELETE", path, itself),
        ("GET", "/api/v1/nodes", itself),
        ("GET", "/api/v1/namespaces/default/secrets", itself),
        ("GET", "/api/v1/pods", itself),
        # No user to act as, the administrator, or a group.
        ("GET", path, ""),
        ("PATCH", f"{path}/status", ""),
        ("GET", path, "admin"),
        ("GET", path, itself, "system:nodes"),
    ]
    statuses = {request: status_of(cluster, token, *request) for request in [*allowed, *refused]}
    assert statuses == {**dict.fromkeys(allowed, 200), **dict.fromkeys(refused, 403)}


@pytest.mark.protocol
@pytest.mark.since(CONSTRAINED_IMPERSONATION)
@pytest.mark.parametrize("bound_to", ["another Node", "no Node"])
def test_a_token_that_is_not_bound_to_the_node(cluster: Cluster, service: Service, bound_to: str) -> None:
    token = account_token(cluster, create_node(cluster) if bound_to == "another Node" else "")
    cluster.kubeconfig("account", service.kubeconfig, token=token)
    act_as_node(service)
    message = service.cli("apply", status=3).stderr
    assert "This needs Kubernetes 1.36 or later" in message
    assert "bound to this Node" in message
    assert service.capacity() is None


@pytest.mark.protocol
def test_without_the_rights(cluster: Cluster) -> None:
    """An older cluster gives the same answer with any roles, because it knows only impersonation of users."""
    cluster.grant("plain", "get", "nodes")
    with service_on_machine(cluster, usb_device("1-1"), node=create_node(cluster)) as service:
        cluster.kubeconfig("plain", service.kubeconfig, credentials="certificate")
        act_as_node(service)
        message = service.cli("apply", status=3).stderr
    assert "This needs Kubernetes 1.36 or later" in message
    assert 'use identity.yaml, and remove "as"' in message
