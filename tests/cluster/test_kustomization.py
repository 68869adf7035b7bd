"""The cluster's side by `kubectl apply -k`, on its own control plane: everything is applied, and removed again."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.cluster.api import ApiError
from tests.cluster.controlplane import PODS, Cluster, control_plane
from tests.cluster.crds import PROMETHEUS_RULE, apply_crd
from tests.cluster.credentials import ADMIN
from tests.cluster.identity import create_node, identity, write
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.test_enforce_bandwidth import annotations_of, both, container, pod
from tests.cluster.versions import MUTATING_POLICIES

pytestmark = pytest.mark.since(MUTATING_POLICIES)

WORKLOADS = {"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"}
PARTS = ("identity.yaml", "policy.yaml", "keep-capacity.yaml", "enforce-bandwidth.yaml", "prometheus", "grafana")


@pytest.fixture(scope="module")
def own(binaries: Mapping[str, Path]) -> Iterator[Cluster]:
    """A cluster with the CRD of prometheus-operator, and the namespace in which monitoring is."""
    with control_plane(nodes=("n1", "n2"), binaries=binaries) as cluster:
        admin = cluster.kubeconfig(ADMIN, cluster.folder / "admin")
        cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
        apply_crd(cluster, admin, *PROMETHEUS_RULE)
        yield cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of what is needed, where it is in the project; the folder with the kustomization."""
    for name in ("packaging/kubernetes", "conf/prometheus", "conf/grafana"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path / "packaging/kubernetes"


def run(cluster: Cluster, *arguments: str | Path) -> str:
    """kubectl's output."""
    done = kubectl(cluster, cluster.folder / "admin", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(cluster: Cluster, folder: Path) -> list[dict[str, Any]]:
    """The objects that would be applied."""
    return list(yaml.safe_load_all(run(cluster, "kustomize", folder)))


def names(listed: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(made["kind"], made["metadata"]["name"]) for made in listed}


def change(folder: Path, old: str, new: str) -> None:
    file = folder / "kustomization.yaml"
    text = file.read_text()
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new))


@contextmanager
def applied(cluster: Cluster, folder: Path) -> Iterator[str]:
    """kubectl's output. Everything is removed afterwards, and must be gone then."""
    before = inventory(cluster)
    output = run(cluster, "apply", "-k", folder)
    try:
        yield output
    finally:
        # There is no controller that would empty and remove a namespace: that is done here.
        run(cluster, "delete", "-k", folder, "--wait=false")
        finish(cluster, "capacityd")
    assert inventory(cluster) == before


def finish(cluster: Cluster, namespace: str) -> None:
    """Removes a namespace and the objects in it, as the controller for namespaces does."""
    try:
        left = cluster.admin.get(f"/api/v1/namespaces/{namespace}")
    except ApiError:
        return
    assert "deletionTimestamp" in left["metadata"]
    left["spec"]["finalizers"] = []
    cluster.admin.request("PUT", f"/api/v1/namespaces/{namespace}/finalize", left)


def inventory(cluster: Cluster) -> set[str]:
    """All objects of the kinds that are applied."""
    kinds = (
        "namespaces,serviceaccounts,configmaps,roles,rolebindings,clusterroles,clusterrolebindings,prometheusrules,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "mutatingadmissionpolicies,mutatingadmissionpolicybindings"
    )
    listed = run(cluster, "get", kinds, "--all-namespaces", "-o=name").split()
    return {name for name in listed if "kube" not in name and "system:" not in name}


def test_all_of_it_is_applied_and_removed(own: Cluster, folder: Path) -> None:
    wanted = objects(own, folder)
    assert not {kind for kind, _ in names(wanted)} & WORKLOADS
    assert ("ConfigMap", "settings") not in names(wanted)
    with applied(own, folder) as output:
        lines = output.splitlines()
        assert len(lines) == len(wanted)
        assert all(line.endswith(" created") for line in lines)
        again = run(own, "apply", "-k", folder).splitlines()
        assert [line for line in again if not line.endswith(" unchanged")] == []
        in_monitoring = {made["kind"] for made in wanted if made["metadata"].get("namespace") == "monitoring"}
        assert in_monitoring == {"PrometheusRule", "ConfigMap"}
        dashboard = own.admin.get("/api/v1/namespaces/monitoring/configmaps/capacityd-dashboard")
        assert dashboard["metadata"]["labels"] == {"grafana_dashboard": "1"}
        source = (ROOT / "conf/grafana/capacityd-dashboard.json").read_text()
        assert dashboard["data"] == {"capacityd-dashboard.json": source}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_left_out(own: Cluster, folder: Path, part: str) -> None:
    everything = names(objects(own, folder))
    (line,) = (
        line
        for line in (folder / "kustomization.yaml").read_text().splitlines()
        if line.endswith((f"- {part}", f"/{part}"))
    )
    change(folder, f"{line}\n", "")
    left = objects(own, folder)
    assert names(left) < everything
    with applied(own, folder):
        pass


def test_the_names_are_set_in_one_place(own: Cluster, folder: Path) -> None:
    """Also when it was applied and removed before."""
    node = create_node(own)
    kubeconfig = identity(own, node, "certificate", folder / "own")
    numbers = itertools.count(1)  # what is not changed is not denied

    def denial(domain: str) -> str:
        key = {"op": "add", "path": f"/status/capacity/{domain}~1dongle", "value": str(next(numbers))}
        return write(own, kubeconfig, node, [key])

    with applied(own, folder):
        wait_until(lambda: "domains only: example.com" in denial("b.example"), PATIENCE, "the policy is in force")
    for old, new in {
        "domains=example.com": "domains=a.example b.example",
        "bandwidth=example.com/nic-mbps": "bandwidth=b.example/wan-mbps",
        "monitoring=monitoring": "monitoring=default",
    }.items():
        change(folder, old, new)
    assert "example.com" not in run(own, "kustomize", folder)
    body = pod([container()])
    body["spec"]["containers"][0]["resources"]["limits"]["b.example/wan-mbps"] = "9"
    with applied(own, folder):
        wait_until(
            lambda: "domains only: a.example b.example" in denial("example.com"), PATIENCE, "the policy is in force"
        )
        assert denial("b.example") == ""
        made = wait_until(
            lambda: annotations_of(own.admin.create(f"{PODS}?dryRun=All", body)), PATIENCE, "the bandwidth is enforced"
        )
        assert made == both("9M")
        own.admin.get("/apis/monitoring.coreos.com/v1/namespaces/default/prometheusrules/capacityd")


def test_without_prometheus_operator_the_rest_is_applied(own: Cluster, folder: Path) -> None:
    """And kubectl says what is missing."""
    rule = folder.parents[1] / "conf/prometheus/prometheusrule.yaml"
    rule.write_text(rule.read_text().replace("monitoring.coreos.com/v1", "monitoring.example/v1"))
    done = kubectl(own, own.folder / "admin", "apply", "-k", folder)
    assert done.returncode == 1
    assert 'no matches for kind "PrometheusRule"' in done.stderr
    assert len(done.stdout.splitlines()) == len(objects(own, folder)) - 1
    change(folder, "  - ../../conf/prometheus\n", "")
    run(own, "delete", "-k", folder, "--wait=false")
    finish(own, "capacityd")
