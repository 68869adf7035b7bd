"""The shipped policy that copies a pod's bandwidth into annotations for CNI plugins, on the real API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.cluster.controlplane import BASE_CAPACITY, IMAGE, PODS, Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.versions import MUTATING_POLICIES
from tests.support.pages import blocks

pytestmark = pytest.mark.protocol

MANIFEST = ROOT / "packaging/kubernetes/enforce-bandwidth.yaml"
PAGE = ROOT / "docs/how-to/nic-bandwidth.md"
RESOURCE = "example.com/nic-mbps"
INGRESS, EGRESS = "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Path:
    return cluster.kubeconfig(ADMIN)


@pytest.fixture(scope="module")
def enforced(cluster: Cluster, admin: Path) -> Iterator[None]:
    """The shipped policy is in force."""
    applied = kubectl(cluster, admin, "apply", "-f", MANIFEST)
    assert applied.returncode == 0, applied.stderr
    probe = pod(containers=[container(1)])
    wait_until(lambda: annotations_of(create(cluster, probe, dry_run=True)), PATIENCE, "the policy is in force")
    yield
    kubectl(cluster, admin, "delete", "-f", MANIFEST)


def container(mbps: str | int | None = None, **more: object) -> dict[str, Any]:
    """A container, or a sidecar if `more` sets restartPolicy. mbps: its limit of the resource."""
    limits = {"cpu": "1m"} if mbps is None else {"cpu": "1m", RESOURCE: str(mbps)}
    return {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "resources": {"limits": limits}, **more}


def sidecar(mbps: str | int | None = None) -> dict[str, Any]:
    return container(mbps, restartPolicy="Always")


def pod(
    containers: list[dict[str, Any]],
    init: list[dict[str, Any]] | None = None,
    noted: Mapping[str, str] | None = None,
    **spec: object,
) -> dict[str, Any]:
    """A pod with these containers. noted: its annotations; None: it has no annotations field."""
    metadata: dict[str, Any] = {"generateName": "bandwidth-"}
    if noted is not None:
        metadata["annotations"] = noted
    named = [{"name": f"main-{number}", **c} for number, c in enumerate(containers)]
    started = [{"name": f"init-{number}", **c} for number, c in enumerate(init or [])]
    return {
        "metadata": metadata,
        "spec": {"containers": named, "initContainers": started, "automountServiceAccountToken": False, **spec},
    }


def create(cluster: Cluster, body: object, *, dry_run: bool = False) -> Any:
    return cluster.admin.create(f"{PODS}?dryRun=All" if dry_run else PODS, body)


def annotations_of(made: Any) -> dict[str, str]:
    return dict(made["metadata"].get("annotations", {}))


def both(limit: str) -> dict[str, str]:
    return {INGRESS: limit, EGRESS: limit}


@dataclass(frozen=True, slots=True)
class Shape:
    """A pod's containers, and the Mbit/s that the pod requests."""

    mbps: int
    containers: list[dict[str, Any]]
    init: list[dict[str, Any]] = field(default_factory=list)
    overhead: Mapping[str, str] = field(default_factory=dict)
    """The overhead of the pod's RuntimeClass; without one, the pod has none."""


SHAPES = {
    "a quantity with a suffix": Shape(2000, [container("2k")]),
    "several containers": Shape(350, [container(200), container(), container(150)]),
    "a small init container": Shape(200, [container(200)], [container(100)]),
    "a large init container": Shape(500, [container(200)], [container(100), container(500)]),
    "a sidecar": Shape(250, [container(200)], [sidecar(50)]),
    "init containers among sidecars": Shape(
        630, [container(100)], [container(500), sidecar(30), container(600), sidecar(300)]
    ),
    "sidecars that outweigh an init container": Shape(
        730, [container(100)], [container(500), sidecar(30), container(600), sidecar(600)]
    ),
    "an overhead": Shape(220, [container(200)], overhead={RESOURCE: "20"}),
    "an overhead with a suffix": Shape(2300, [container(200)], [sidecar(100)], overhead={RESOURCE: "2k"}),
    "an overhead and a large init container": Shape(520, [container(200)], [container(500)], {RESOURCE: "20"}),
    "an overhead of other resources": Shape(200, [container(200)], overhead={"cpu": "1m", "example.com/dongle": "0"}),
}


@contextmanager
def runtime_class(cluster: Cluster, overhead: Mapping[str, str]) -> Iterator[str]:
    """A RuntimeClass with this overhead. Returns its name."""
    path, name = "/apis/node.k8s.io/v1/runtimeclasses", "with-overhead"
    cluster.admin.create(path, {"metadata": {"name": name}, "handler": "any", "overhead": {"podFixed": overhead}})
    try:
        yield name
    finally:
        cluster.admin.delete(f"{path}/{name}")


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("name", SHAPES)
def test_the_limit_is_what_the_scheduler_counts(cluster: Cluster, name: str) -> None:
    """The pod is bound to a Node that has exactly this bandwidth, but not while the Node has 1 less."""
    shape = SHAPES[name]
    has = {**BASE_CAPACITY, RESOURCE: str(shape.mbps - 1)}
    node = cluster.create_node(capacity=has, status={"allocatable": has})
    selected: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": node}}
    with ExitStack() as stack:
        if shape.overhead:
            selected["runtimeClassName"] = stack.enter_context(runtime_class(cluster, shape.overhead))
        made = create(cluster, pod(shape.containers, shape.init, **selected))
    assert annotations_of(made) == both(f"{shape.mbps}M")
    name = made["metadata"]["name"]
    wait_until(lambda: f"Insufficient {RESOURCE}" in cluster.unschedulable(name), PATIENCE, "1 is missing")
    has[RESOURCE] = str(shape.mbps)
    cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": has, "allocatable": has}})
    wait_until(lambda: cluster.pod(name)["spec"].get("nodeName") == node, PATIENCE, "the pod is bound")


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(pod([container()]), {}, id="no limit"),
        # containerd does not start a pod with a limit below 1k.
        pytest.param(pod([container(0)]), {}, id="a limit of 0"),
        pytest.param(pod([container(7)], noted={}), both("7M"), id="empty annotations"),
        pytest.param(pod([container(7)], noted={"a": "b"}), {"a": "b", **both("7M")}, id="other annotations"),
        pytest.param(pod([container(7)], noted={INGRESS: "1G"}), {INGRESS: "1G", EGRESS: "7M"}, id="ingress is there"),
        pytest.param(pod([container(7)], noted={EGRESS: "1M"}), {INGRESS: "7M", EGRESS: "1M"}, id="egress is there"),
        pytest.param(pod([container(7)], hostNetwork=True), {}, id="in the network of its node"),
        pytest.param(pod([container("9E"), container("9E")]), {}, id="the sum overflows: an error stops no pod"),
    ],
)
def test_a_pod_gets_the_annotations_of_its_limits(
    cluster: Cluster, body: dict[str, Any], expected: dict[str, str]
) -> None:
    assert annotations_of(create(cluster, body, dry_run=True)) == expected


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_an_overhead_alone_is_no_limit(cluster: Cluster) -> None:
    with runtime_class(cluster, {RESOURCE: "20"}) as name:
        made = create(cluster, pod([container()], runtimeClassName=name), dry_run=True)
    assert made["spec"]["overhead"] == {RESOURCE: "20"}
    assert annotations_of(made) == {}


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_the_page_shows_what_its_pod_gets(cluster: Cluster) -> None:
    example, shown = (block for block in blocks(PAGE.read_text()) if block.kind in ("yaml", "text"))
    made = annotations_of(create(cluster, yaml.safe_load(example.text), dry_run=True))
    assert [line.strip() for line in shown.text.splitlines()[2:]] == [f"{key}: {made[key]}" for key in sorted(made)]


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_nothing_else_of_a_pod_changes(cluster: Cluster) -> None:
    """A merge by keys could lose one of two variables with the same name or of two ports with the same number."""
    unusual = container(
        7,
        env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        ports=[{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
    )
    with_it = create(cluster, pod([unusual], [sidecar(1)]), dry_run=True)
    without = create(cluster, pod([unusual], [sidecar(1)], noted=both("8M")), dry_run=True)
    assert annotations_of(with_it) == both("8M")
    assert with_it["spec"] == without["spec"]
    assert [v["value"] for v in with_it["spec"]["containers"][0]["env"]] == ["1", "2"]


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_an_update_of_a_pod_is_left_alone(cluster: Cluster) -> None:
    """Without the annotations, this pod is like a pod that is older than the policy."""
    path = f"{PODS}/{create(cluster, pod([container(7)]))['metadata']['name']}"
    for removed in (INGRESS, EGRESS):
        cluster.admin.patch(path, {"metadata": {"annotations": {removed: None}}})
    cluster.admin.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert annotations_of(cluster.admin.get(path)) == {}


@pytest.mark.before(MUTATING_POLICIES)
def test_an_older_cluster_gets_an_error(cluster: Cluster, admin: Path) -> None:
    applied = kubectl(cluster, admin, "apply", "-f", MANIFEST)
    assert applied.returncode == 1
    assert (
        'no matches for kind "MutatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1"' in applied.stderr
    )
