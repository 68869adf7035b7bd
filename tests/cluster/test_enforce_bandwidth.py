"""The shipped policy that copies a pod's bandwidth into annotations for CNI plugins, on the real API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests import ROOT
from tests.cluster.controlplane import PODS, Cluster
from tests.cluster.kubectl import applied
from tests.cluster.pods import UNUSUAL, annotations_of, binds_with, container, dry_run, pod, runtime_class
from tests.cluster.versions import MUTATING_POLICIES

pytestmark = [pytest.mark.protocol, pytest.mark.since(MUTATING_POLICIES), pytest.mark.usefixtures("in_force")]

MANIFEST = ROOT / "packaging/kubernetes/enforce-bandwidth.yaml"
RESOURCE = "example.com/nic-mbps"
INGRESS, EGRESS = "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"


@pytest.fixture(scope="module")
def in_force(cluster: Cluster) -> Iterator[None]:
    """The shipped policy is in force."""
    with applied(cluster, MANIFEST, lambda: annotations_of(dry_run(cluster, pod([needs(1)])))):
        yield


def needs(mbps: str | int | None = None, **more: object) -> dict[str, Any]:
    """A container with this limit of the resource. None: without a limit."""
    return container({"cpu": "1m"} if mbps is None else {"cpu": "1m", RESOURCE: mbps}, **more)


def sidecar(mbps: int) -> dict[str, Any]:
    return needs(mbps, restartPolicy="Always")


def cni_limits(limit: str) -> dict[str, str]:
    """The annotations with this limit in both directions."""
    return {INGRESS: limit, EGRESS: limit}


@dataclass(frozen=True, slots=True)
class Shape:
    """A pod's containers, and the Mbit/s that the pod requests."""

    mbps: int
    containers: list[dict[str, Any]]
    init: list[dict[str, Any]] = field(default_factory=list)
    overhead: Mapping[str, str] = field(default_factory=dict)
    """The overhead of the pod's RuntimeClass. Empty: the pod has no RuntimeClass."""


SHAPES = {  # Mbit/s that the pod requests, containers, init containers
    "a quantity with a suffix": Shape(2000, [needs("2k")]),
    "several containers": Shape(350, [needs(200), needs(), needs(150)]),
    "a small init container": Shape(200, [needs(200)], [needs(100)]),
    "a large init container": Shape(500, [needs(200)], [needs(100), needs(500)]),
    "a sidecar": Shape(250, [needs(200)], [sidecar(50)]),
    "init containers among sidecars": Shape(630, [needs(100)], [needs(500), sidecar(30), needs(600), sidecar(300)]),
    "sidecars that outweigh an init container": Shape(
        730, [needs(100)], [needs(500), sidecar(30), needs(600), sidecar(600)]
    ),
    "an overhead": Shape(220, [needs(200)], overhead={RESOURCE: "20"}),
    "an overhead with a suffix": Shape(2300, [needs(200)], [sidecar(100)], overhead={RESOURCE: "2k"}),
    "an overhead and a large init container": Shape(520, [needs(200)], [needs(500)], {RESOURCE: "20"}),
    "an overhead of other resources": Shape(200, [needs(200)], overhead={"cpu": "1m", "example.com/dongle": "0"}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_limit_is_what_the_scheduler_counts(cluster: Cluster, name: str) -> None:
    """The pod is bound only when the Node has this bandwidth, and not while the Node has 1 less."""
    shape = SHAPES[name]
    with ExitStack() as stack:
        body = pod(shape.containers, shape.init)
        if shape.overhead:
            body["spec"]["runtimeClassName"] = stack.enter_context(runtime_class(cluster, shape.overhead))
        created = binds_with(cluster, body, RESOURCE, shape.mbps)
    assert annotations_of(created) == cni_limits(f"{shape.mbps}M")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(pod([needs()]), {}, id="no limit"),
        # containerd does not start a pod with a limit below 1k.
        pytest.param(pod([needs(0)]), {}, id="a limit of 0"),
        pytest.param(pod([needs(7)], annotations={}), cni_limits("7M"), id="empty annotations"),
        pytest.param(pod([needs(7)], annotations={"a": "b"}), {"a": "b", **cni_limits("7M")}, id="other annotations"),
        pytest.param(
            pod([needs(7)], annotations={INGRESS: "1G"}), {INGRESS: "1G", EGRESS: "7M"}, id="ingress is there"
        ),
        pytest.param(pod([needs(7)], annotations={EGRESS: "1M"}), {INGRESS: "7M", EGRESS: "1M"}, id="egress is there"),
        pytest.param(pod([needs(7)], hostNetwork=True), {}, id="in the network of its node"),
        pytest.param(pod([needs("9E"), needs("9E")]), {}, id="the sum overflows: an error stops no pod"),
    ],
)
def test_a_pod_gets_the_annotations_of_its_limits(
    cluster: Cluster, body: dict[str, Any], expected: dict[str, str]
) -> None:
    assert annotations_of(dry_run(cluster, body)) == expected


def test_an_overhead_alone_is_no_limit(cluster: Cluster) -> None:
    with runtime_class(cluster, {RESOURCE: "20"}) as name:
        created = dry_run(cluster, pod([needs()], runtimeClassName=name))
    assert created["spec"]["overhead"] == {RESOURCE: "20"}
    assert annotations_of(created) == {}


def test_nothing_else_of_a_pod_changes(cluster: Cluster) -> None:
    unusual = needs(7, **UNUSUAL)
    by_policy = dry_run(cluster, pod([unusual], [sidecar(1)]))
    by_hand = dry_run(cluster, pod([unusual], [sidecar(1)], annotations=cni_limits("8M")))
    assert annotations_of(by_policy) == cni_limits("8M")
    assert by_policy["spec"] == by_hand["spec"]
    assert [v["value"] for v in by_policy["spec"]["containers"][0]["env"]] == ["1", "2"]


def test_an_update_of_a_pod_is_left_alone(cluster: Cluster) -> None:
    """The pod has no annotations, like a pod that is older than the policy."""
    created = cluster.admin.create(PODS, pod([needs(7)]))
    path = f"{PODS}/{created['metadata']['name']}"
    for removed in (INGRESS, EGRESS):
        cluster.admin.patch(path, {"metadata": {"annotations": {removed: None}}})
    cluster.admin.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert annotations_of(cluster.admin.get(path)) == {}
