"""What the shipped roles and the policy allow to capacityd's own identity, on the real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cluster.agent import ANNOTATION, CONDITION, DONGLE, condition_of, our_events, published_on
from tests.cluster.controlplane import Cluster
from tests.cluster.identity import FOREIGN, Kind, account_token, create_node, event, identity, request, write
from tests.cluster.kubectl import succeed
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, Service, service_on_machine
from tests.cluster.versions import BOUND_TOKENS
from tests.support.machines import usb_device
from tests.support.pages import blocks, commands

pytestmark = pytest.mark.protocol

MANIFESTS = ROOT / "packaging/kubernetes"


@pytest.fixture(scope="module")
def in_force(cluster: Cluster) -> None:
    """The shipped manifests are applied and in force."""
    for name in ("identity.yaml", "policy.yaml"):
        succeed(cluster, "apply", "-f", MANIFESTS / name)
    # A policy is not in force at once: until then, a write to another Node passes.
    own, other = create_node(cluster), create_node(cluster)
    canary = identity(cluster, own, "certificate", cluster.folder / "canary")
    wait_until(lambda: "own Node only" in write(cluster, canary, other, []), PATIENCE, "the policy is in force")
    denies_event = "about its own Node only"
    wait_until(lambda: denies_event in event(cluster, canary, other), PATIENCE, "the policy for Events is in force")


@pytest.fixture(params=["certificate", pytest.param("account", marks=pytest.mark.since(BOUND_TOKENS))])
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind of capacityd's own identity: a client certificate, or a ServiceAccount's token."""
    param: Kind = request.param
    return param


@pytest.fixture
def service(in_force: None, cluster: Cluster, kind: Kind) -> Iterator[Service]:
    """The service, not started yet, with capacityd's own identity. Each test has its own Node."""
    with service_on_machine(cluster, usb_device("1-1"), usb_device("1-2"), node=create_node(cluster)) as new_service:
        identity(cluster, new_service.node, kind, new_service.kubeconfig)
        # A token that is bound to a Node contains the Node's name.
        new_service.configure(kubernetes=f'node_name = "{new_service.node}"' if kind == "certificate" else "")
        yield new_service


def test_the_services_own_traffic_passes(cluster: Cluster, service: Service, kind: Kind) -> None:
    before = cluster.node(service.node)
    node_name = f'node_name = "{service.node}"' if kind == "certificate" else ""
    labelled_dongles = f"{DONGLES}label = true\n"
    service.configure(labelled_dongles, node_name)
    mark = cluster.audit.mark()
    service.cli("apply", status=0)
    node = cluster.node(service.node)
    assert (node["status"]["capacity"][DONGLE], node["metadata"]["labels"][DONGLE]) == ("2", "2")
    service.machine.unplug("1-1", events=False)
    foreign = f'[resources."{FOREIGN}"]\nstatic = {{ quantity = 9 }}\n'
    service.configure(labelled_dongles + foreign, node_name)
    service.cli("apply", status=4)
    node = cluster.node(service.node)
    for key in ("capacity", "allocatable"):
        assert node["status"][key] == {**before["status"][key], DONGLE: "1"}
    assert node["metadata"]["labels"] == before["metadata"]["labels"] | {DONGLE: "1"}
    assert published_on(node) == {DONGLE: 1, f"label {DONGLE}": 1}
    assert condition_of(node)["reason"] == "Refused"
    service.start()
    assert service.watched
    service.stop()
    service.cli("withdraw", status=0)
    requests = [r for r in cluster.audit.since(mark) if r.user_agent.startswith("capacityd/")]
    assert {r.code for r in requests} == {200, 201}
    assert len(our_events(cluster, service.node)) >= 3
    after = cluster.node(service.node)
    for changed in (before, after):
        for key in ("resourceVersion", "managedFields"):
            changed["metadata"].pop(key, None)
    assert after == before, "nothing of capacityd's is left on the Node"


def set_(path: str, value: object) -> dict[str, Any]:
    """An operation of a JSON patch that sets a value. In the path, "~1" stands for "/" in a name."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


# Parts of the policy's messages.
OTHER_DOMAIN = "these domains only: example.com"
ALLOCATABLE = "of these domains only, and to the value of capacity: example.com"
STATUS = "in the status of a Node only"
LABELS = "labels of published resources of these domains only, and to the value of capacity: example.com"
NO_LABEL = "remove labels that it has published only"
METADATA = "no owner, finalizer or other metadata"
DENIED = {  # an operation of a JSON patch, and a part of the message that denies it
    "cpu": (set_("/status/capacity/cpu", "64"), OTHER_DOMAIN),
    "a foreign key": (set_("/status/capacity/other.example~1new", "1"), OTHER_DOMAIN),
    "a foreign key changed": (set_("/status/capacity/other.example~1card", "3"), OTHER_DOMAIN),
    "a foreign key removed": (remove("/status/capacity/other.example~1card"), OTHER_DOMAIN),
    "a longer domain": (set_("/status/capacity/example.community~1card", "3"), OTHER_DOMAIN),
    "a subdomain": (set_("/status/capacity/a.example.com~1card", "3"), OTHER_DOMAIN),
    "all capacity removed": (remove("/status/capacity"), OTHER_DOMAIN),
    "less allocatable than capacity": (set_("/status/allocatable/example.com~1dongle", "1"), ALLOCATABLE),
    "more allocatable than capacity": (set_("/status/allocatable/example.com~1dongle", "5"), ALLOCATABLE),
    "allocatable without capacity": (set_("/status/allocatable/example.com~1other", "1"), ALLOCATABLE),
    "allocatable cpu": (set_("/status/allocatable/cpu", "3"), ALLOCATABLE),
    "a foreign key's allocatable": (set_("/status/allocatable/other.example~1card", "2"), ALLOCATABLE),
    "a key's allocatable removed": (remove("/status/allocatable/example.com~1kept"), ALLOCATABLE),
    "all allocatable removed": (remove("/status/allocatable"), ALLOCATABLE),
    "nodeInfo": (set_("/status/nodeInfo/machineID", "x"), STATUS),
    "an address": (set_("/status/addresses/-", {"type": "InternalIP", "address": "10.0.0.9"}), STATUS),
    "addresses removed": (remove("/status/addresses"), STATUS),
    "images": (set_("/status/images", [{"names": ["x"], "sizeBytes": 1}]), STATUS),
    "a label": (set_("/metadata/labels/zone", "b"), LABELS),
    "a new label": (set_("/metadata/labels/node-role.kubernetes.io~1control-plane", ""), LABELS),
    "a label of another number": (set_("/metadata/labels/example.com~1labelled", "4"), LABELS),
    "a label that is no number": (set_("/metadata/labels/example.com~1labelled", "3k"), LABELS),
    "a label of an unpublished resource": (set_("/metadata/labels/example.com~1kept", "2"), LABELS),
    "a label of a resource whose label is not published": (set_("/metadata/labels/example.com~1dongle", "4"), LABELS),
    "a label of a missing resource": (set_("/metadata/labels/example.com~1missing", "1"), LABELS),
    "a label of a foreign resource": (set_("/metadata/labels/other.example~1card", "2"), LABELS),
    "a label removed": (remove("/metadata/labels/zone"), NO_LABEL),
    "another's label in the domain removed": (remove("/metadata/labels/example.com~1theirs"), NO_LABEL),
    "labels removed": (remove("/metadata/labels"), NO_LABEL),
    "a finalizer": (set_("/metadata/finalizers", ["other.example/keep"]), METADATA),
    "a foreign annotation": (set_("/metadata/annotations/other.example~1note", "2"), "capacityd/configuration only"),
    "a new annotation": (set_("/metadata/annotations/capacityd~1more", "2"), "capacityd/configuration only"),
    "annotations removed": (remove("/metadata/annotations"), "capacityd/configuration only"),
    "another condition": (set_("/status/conditions/0/status", "False"), f"{CONDITION} only"),
    "another condition removed": (remove("/status/conditions/0"), f"{CONDITION} only"),
    "a new condition": (set_("/status/conditions/-", {"type": "DiskPressure", "status": "True"}), f"{CONDITION} only"),
}


@pytest.fixture(scope="module")
def node_and_identity(in_force: None, cluster: Cluster) -> tuple[str, Path]:
    """A Node that several tests share, because no write to it passes, and the identity that tries to write."""
    node = create_node(cluster)
    kept = {"example.com/kept": "2", "example.com/labelled": "3000"}
    record = {"example.com/labelled": 3000, "label example.com/labelled": 3000, "label example.com/missing": 1}
    metadata = {
        "annotations": {ANNOTATION: json.dumps(record, separators=(",", ":"))},
        "labels": {"example.com/theirs": "1"},
    }
    cluster.admin.patch(f"/api/v1/nodes/{node}", {"metadata": metadata})
    cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": kept, "allocatable": kept}})
    return node, identity(cluster, node, "certificate", cluster.folder / "own")


@pytest.mark.parametrize("what", DENIED)
def test_the_policy_denies_each_other_change(cluster: Cluster, node_and_identity: tuple[str, Path], what: str) -> None:
    node, kubeconfig = node_and_identity
    operation, reason = DENIED[what]
    before = cluster.node(node)
    # The patch also contains an allowed change, which must not make the policy accept the other change.
    refusal = write(cluster, kubeconfig, node, [set_("/status/capacity/example.com~1dongle", "4"), operation])
    assert "ValidatingAdmissionPolicy 'capacityd-nodes'" in refusal
    assert reason in refusal
    assert cluster.node(node) == before


def test_another_node_is_denied(cluster: Cluster, service: Service) -> None:
    other = create_node(cluster)
    own_key = [set_("/status/capacity/example.com~1dongle", "4")]
    assert f'its own Node only, which is "{service.node}"' in write(cluster, service.kubeconfig, other, own_key)
    assert "about its own Node only" in event(cluster, service.kubeconfig, other)
    assert DONGLE not in cluster.capacity(other)
    assert write(cluster, service.kubeconfig, service.node, own_key) == ""
    assert event(cluster, service.kubeconfig, service.node) == ""


def test_an_account_without_a_node_is_denied(cluster: Cluster, node_and_identity: tuple[str, Path]) -> None:
    node, _ = node_and_identity
    kubeconfig = cluster.kubeconfig("account", token=account_token(cluster))
    own_key = [set_("/status/capacity/example.com~1dongle", "4")]
    assert 'its own Node only, which is ""' in write(cluster, kubeconfig, node, own_key)
    assert "about its own Node only" in event(cluster, kubeconfig, node)


def test_the_own_identity_has_no_further_rights(cluster: Cluster, node_and_identity: tuple[str, Path]) -> None:
    node, kubeconfig = node_and_identity
    path, document = f"/api/v1/nodes/{node}", cluster.node(node)
    taint = [set_("/spec/taints", [{"key": "a", "effect": "NoExecute"}])]
    assert "cannot patch resource" in request(cluster, kubeconfig, "PATCH", path, taint, "json")
    assert "is forbidden" in request(cluster, kubeconfig, "DELETE", path)
    assert "is forbidden" in request(cluster, kubeconfig, "PUT", path, document)
    assert "cannot list resource" in request(cluster, kubeconfig, "GET", "/api/v1/nodes")
    assert "is forbidden" in request(cluster, kubeconfig, "GET", "/api/v1/pods")


@pytest.mark.parametrize("kind", ["certificate"])
def test_an_administrator_can_withdraw_by_hand(cluster: Cluster, service: Service) -> None:
    """The command `kubectl patch node NAME …` is in docs/operations.md."""
    before = cluster.node(service.node)["status"]
    service.cli("apply", status=0)
    page = (ROOT / "docs/operations.md").read_text()
    shown = [words for block in blocks(page) if block.kind == "sh" for words in commands(block)]
    (options,) = (words[4:] for words in shown if words[:3] == ["kubectl", "patch", "node"])
    succeed(cluster, "patch", "node", service.node, *options)
    after = cluster.node(service.node)
    assert after["status"] == before
    assert ANNOTATION not in after["metadata"]["annotations"]
