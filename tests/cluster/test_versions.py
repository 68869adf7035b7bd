"""What happens on versions of Kubernetes that lack a feature. tests.cluster.matrix runs these tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests import ROOT
from tests.cluster.api import ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.test_docs import ON_CLAIMS
from tests.cluster.versions import BOUND_TOKENS, CLAIMS, CLAIMS_GONE, CLASS_NAMES, DEVICE_CLASSES, MUTATING_POLICIES

pytestmark = pytest.mark.protocol

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
DONGLE = "example.com/dongle"


@pytest.mark.before(BOUND_TOKENS)
def test_no_token_is_bound_to_a_node(cluster: Cluster, node: str) -> None:
    cluster.admin.create(ACCOUNTS, {"metadata": {"name": f"agent-{node}"}})
    bound = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": cluster.node(node)["metadata"]["uid"]}
    with pytest.raises(ApiError, match="cannot bind token to a Node object") as raised:
        cluster.admin.create(f"{ACCOUNTS}/agent-{node}/token", {"spec": {"boundObjectRef": bound}})
    assert raised.value.status == 400


@pytest.mark.before(DEVICE_CLASSES)
def test_there_are_no_device_classes(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as raised:
        cluster.admin.get(CLASSES)
    assert raised.value.status == 404


@pytest.mark.since(DEVICE_CLASSES)
@pytest.mark.before(CLASS_NAMES)
def test_the_name_of_an_extended_resource_is_dropped(cluster: Cluster) -> None:
    spec: Mapping[str, object] = {"extendedResourceName": DONGLE, "selectors": []}
    made = cluster.admin.create(CLASSES, {"metadata": {"name": "dropped.example.com"}, "spec": spec})
    assert "extendedResourceName" not in made["spec"]


@pytest.mark.parametrize(
    "names_claims",
    [
        pytest.param(False, marks=pytest.mark.before(CLAIMS)),
        pytest.param(True, marks=[pytest.mark.since(CLAIMS), pytest.mark.before(CLAIMS_GONE)]),
        pytest.param(False, marks=pytest.mark.since(CLAIMS_GONE)),
    ],
)
def test_why_a_pod_is_not_placed(cluster: Cluster, node: str, names_claims: bool) -> None:
    pod = cluster.create_pod(node, {DONGLE: "1"})
    message = wait_until(lambda: cluster.unschedulable(pod), PATIENCE, "the scheduler has tried")
    assert f"Insufficient {DONGLE}" in message
    assert (ON_CLAIMS in message) == names_claims


@pytest.mark.before(MUTATING_POLICIES)
def test_the_optional_policies_cannot_be_applied(cluster: Cluster) -> None:
    manifest = ROOT / "packaging/kubernetes/enforce-bandwidth.yaml"
    applied = kubectl(cluster, "apply", "-f", manifest)
    assert applied.returncode == 1
    assert 'no matches for kind "MutatingAdmissionPolicy"' in applied.stderr
