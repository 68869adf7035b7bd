"""The policy that copies a pod's bandwidth into the annotations of CNI plugins, as shipped, on the real API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.cluster.api import ApiError
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
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Path:
    return cluster.kubeconfig(ADMIN)


@pytest.fixture(scope="module")
def enforced(cluster: Cluster, admin: Path) -> Iterator[None]:
    """The policy is in force, as it is shipped."""
    applied = kubectl(cluster, admin, "apply", "-f", MANIFEST)
    assert applied.returncode == 0, applied.stderr
    probe = pod(containers=[container(1)])
    wait_until(lambda: annotations_of(create(cluster, probe, dry_run=True)), PATIENCE, "the policy is in force")
    yield
    kubectl(cluster, admin, "delete", "-f", MANIFEST)


def container(mbps: str | int | None = None, **more: object) -> dict[str, Any]:
    """A container, or its sidecar with restartPolicy. mbps: its limit of the resource."""
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
    """A pod of these containers. noted: its annotations, if it has any."""
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
    """A pod's containers, and what it requests in Mbit/s."""

    mbps: int
    containers: list[dict[str, Any]]
    init: list[dict[str, Any]] = field(default_factory=list)


SHAPES = {
    "one container": Shape(200, [container(200)]),
    "a quantity with a suffix": Shape(2000, [container("2k")]),
    "several containers": Shape(350, [container(200), container(), container(150)]),
    "a small init container": Shape(200, [container(200)], [container(100)]),
    "a large init container": Shape(500, [container(200)], [container(100), container(500)]),
    "only an init container": Shape(40, [container()], [container(40)]),
    "a sidecar": Shape(250, [container(200)], [sidecar(50)]),
    "only a sidecar": Shape(50, [container()], [sidecar(50)]),
    "an init container after a sidecar": Shape(430, [container(200)], [sidecar(30), container(400)]),
    "an init container before a sidecar": Shape(400, [container(200)], [container(400), sidecar(30)]),
    "init containers among sidecars": Shape(
        630, [container(100)], [container(500), sidecar(30), container(600), sidecar(300)]
    ),
    "sidecars that outweigh an init container": Shape(
        730, [container(100)], [container(500), sidecar(30), container(600), sidecar(600)]
    ),
}


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("name", SHAPES)
def test_the_limit_is_what_the_scheduler_counts(cluster: Cluster, name: str) -> None:
    """The pod is bound to a Node that has exactly so much, and not while it has 1 less."""
    shape = SHAPES[name]
    has = {**BASE_CAPACITY, RESOURCE: str(shape.mbps - 1)}
    node = cluster.create_node(capacity=has, status={"allocatable": has})
    placed = pod(shape.containers, shape.init, nodeSelector={"kubernetes.io/hostname": node})
    made = create(cluster, placed)
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
        pytest.param(pod([container()], noted={"a": "b"}), {"a": "b"}, id="no limit, other annotations"),
        # containerd starts no pod with less than 1k.
        pytest.param(pod([container(0)]), {}, id="a limit of 0"),
        pytest.param(pod([container(7)], noted={}), both("7M"), id="empty annotations"),
        pytest.param(pod([container(7)], noted={"a": "b"}), {"a": "b", **both("7M")}, id="other annotations"),
        pytest.param(pod([container(7)], noted={INGRESS: "1G"}), {INGRESS: "1G", EGRESS: "7M"}, id="ingress is there"),
        pytest.param(pod([container(7)], noted={EGRESS: "1M"}), {INGRESS: "7M", EGRESS: "1M"}, id="egress is there"),
        pytest.param(pod([container(7)], noted=both("3M")), both("3M"), id="both are there"),
        pytest.param(pod([container(7)], hostNetwork=True), {}, id="in the network of its node"),
    ],
)
def test_what_a_pod_gets(cluster: Cluster, body: dict[str, Any], expected: dict[str, str]) -> None:
    assert annotations_of(create(cluster, body, dry_run=True)) == expected


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_the_page_shows_what_its_pod_gets(cluster: Cluster) -> None:
    example, shown = (block for block in blocks(PAGE.read_text()) if block.kind in ("yaml", "text"))
    made = annotations_of(create(cluster, yaml.safe_load(example.text), dry_run=True))
    assert [line.strip() for line in shown.text.splitlines()[2:]] == [f"{key}: {made[key]}" for key in sorted(made)]


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_the_default_of_a_limit_range_counts(cluster: Cluster) -> None:
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": "limited"}})
    limits = {"limits": [{"type": "Container", "default": {RESOURCE: "100"}}]}
    cluster.admin.create("/api/v1/namespaces/limited/limitranges", {"metadata": {"name": "bandwidth"}, "spec": limits})
    path = "/api/v1/namespaces/limited/pods?dryRun=All"
    body = pod([container(), container(20)])
    wait_until(
        lambda: annotations_of(cluster.admin.create(path, body)).items() >= both("120M").items(),
        PATIENCE,
        "the default counts",
    )


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_nothing_else_of_a_pod_changes(cluster: Cluster) -> None:
    """Not even what a merge by keys could lose: two variables of one name, two ports of one number."""
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
def test_a_pod_of_a_deployment(cluster: Cluster) -> None:
    """A Deployment is stored as it is, and the pods of its ReplicaSet get the annotations.

    The control plane has no controller manager: the pod is made here, as the ReplicaSet's controller would make it.
    """
    labels = {"app": "stream"}
    template = pod([container(300), container(200)])
    template["metadata"] = {"labels": labels}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    apps = "/apis/apps/v1/namespaces/default"
    deployment = cluster.admin.create(f"{apps}/deployments", {"metadata": {"name": "stream"}, "spec": spec})
    owner = cluster.admin.create(f"{apps}/replicasets", {"metadata": {"name": "stream-1"}, "spec": spec})
    assert annotations_of(deployment["spec"]["template"]) == annotations_of(owner["spec"]["template"]) == {}
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "stream-1", "controller": True}
    template["metadata"] = {
        "generateName": "stream-1-",
        "labels": labels,
        "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}],
    }
    assert annotations_of(create(cluster, template)) == both("500M")


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("enforced")
def test_an_update_of_a_pod_is_left_alone(cluster: Cluster) -> None:
    """So is a pod that is older than the policy: without the annotations it is the same."""
    path = f"{PODS}/{create(cluster, pod([container(7)]))['metadata']['name']}"
    for removed in (INGRESS, EGRESS):
        cluster.admin.patch(path, {"metadata": {"annotations": {removed: None}}})
    cluster.admin.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert annotations_of(cluster.admin.get(path)) == {}


@pytest.mark.since(MUTATING_POLICIES)
def test_another_resource_by_one_change(cluster: Cluster, admin: Path, tmp_path: Path) -> None:
    """The name stands in one place, as the manifest says."""
    text = MANIFEST.read_text().replace("capacityd-enforce-bandwidth", "capacityd-other-bandwidth")
    assert text.count(RESOURCE) == 1
    file = tmp_path / "other.yaml"
    file.write_text(text.replace(RESOURCE, "other.example/wan-mbps"))
    assert kubectl(cluster, admin, "apply", "-f", file).returncode == 0
    try:
        other = container()
        other["resources"]["limits"]["other.example/wan-mbps"] = "9"
        wait_until(
            lambda: annotations_of(create(cluster, pod([other]), dry_run=True)) == both("9M"),
            PATIENCE,
            "it is in force",
        )
    finally:
        kubectl(cluster, admin, "delete", "-f", file)


@pytest.mark.since(MUTATING_POLICIES)
def test_an_error_in_the_policy_stops_no_pod(cluster: Cluster, admin: Path, tmp_path: Path) -> None:
    policy, binding = yaml.safe_load_all(MANIFEST.read_text())
    for document in (policy, binding):
        document["metadata"]["name"] = "capacityd-bandwidth-fails"
    binding["spec"]["policyName"] = "capacityd-bandwidth-fails"
    assert policy["spec"]["failurePolicy"] == "Ignore"
    (resource,) = (v for v in policy["spec"]["variables"] if v["name"] == "resource")
    resource["expression"] = "string(1 / 0)"
    file = tmp_path / "fails.yaml"
    file.write_text(yaml.safe_dump_all([policy, binding]))
    assert kubectl(cluster, admin, "apply", "-f", file).returncode == 0
    body = pod([container()])
    try:
        assert annotations_of(create(cluster, body, dry_run=True)) == {}
        # To see that it does fail: with Fail instead of Ignore nothing passes.
        cluster.admin.patch(f"{POLICIES}/capacityd-bandwidth-fails", {"spec": {"failurePolicy": "Fail"}})
        wait_until(lambda: "division by zero" in denial(cluster, body), PATIENCE, "it fails")
    finally:
        kubectl(cluster, admin, "delete", "-f", file)
        # The API server applies a deleted policy for some time. Other tests use this cluster next.
        wait_until(lambda: not denial(cluster, body), PATIENCE, "the policy is out of force")


def denial(cluster: Cluster, body: object) -> str:
    """The API server's message, "" if the pod would be created."""
    try:
        create(cluster, body, dry_run=True)
    except ApiError as refused:
        return str(refused)
    return ""


@pytest.mark.before(MUTATING_POLICIES)
def test_an_older_cluster_gets_an_error(cluster: Cluster, admin: Path) -> None:
    applied = kubectl(cluster, admin, "apply", "-f", MANIFEST)
    assert applied.returncode == 1
    assert (
        'no matches for kind "MutatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1"' in applied.stderr
    )
