"""`kubectl apply -k` installs all objects for the cluster on a separate control plane, and can remove them again."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.identity import create_node, identity, write
from tests.cluster.kubectl import PROMETHEUS_RULE, apply_crd, kubectl, succeed
from tests.cluster.pods import annotations_of, container, dry_run, pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.test_enforce_bandwidth import cni_limits
from tests.cluster.versions import MUTATING_POLICIES

pytestmark = pytest.mark.since(MUTATING_POLICIES)

WORKLOADS = {"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"}
REQUIRED = ("identity.yaml", "policy.yaml")
OPTIONAL = ("keep-capacity.yaml", "enforce-bandwidth.yaml", "add-request.yaml", "prometheus", "grafana")


@pytest.fixture(scope="module")
def cluster(binaries: Mapping[str, Path]) -> Iterator[Cluster]:
    """A separate cluster, without objects of other tests."""
    with control_plane(binaries=binaries) as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder with the kustomization, beside copies of the folders that the kustomization names."""
    for name in ("packaging/kubernetes", "conf/prometheus", "conf/grafana"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path / "packaging/kubernetes"


def run(cluster: Cluster, *arguments: str | Path) -> list[str]:
    """Runs kubectl. Returns the lines of its output."""
    return succeed(cluster, *arguments).splitlines()


def objects(cluster: Cluster, folder: Path) -> list[dict[str, Any]]:
    """The objects that `kubectl apply -k` would apply."""
    return list(yaml.safe_load_all("\n".join(run(cluster, "kustomize", folder))))


def names(documents: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(document["kind"], document["metadata"]["name"]) for document in documents}


def change(folder: Path, old: str, new: str) -> None:
    """Replaces a text that occurs once in the kustomization."""
    file = folder / "kustomization.yaml"
    text = file.read_text()
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new))


def line_of(folder: Path, part: str) -> str:
    """The line of the kustomization that names a part, such as "- policy.yaml" or "# - ../../conf/grafana"."""
    lines = (folder / "kustomization.yaml").read_text().splitlines()
    (line,) = (line for line in lines if line.endswith((f"- {part}", f"/{part}")))
    return line


def choose(folder: Path, *parts: str) -> None:
    """Removes the "# " of optional parts, as a user does in an editor."""
    for part in parts:
        line = line_of(folder, part)
        change(folder, f"{line}\n", f"{line.replace('# - ', '- ')}\n")


@pytest.mark.parametrize("part", [*REQUIRED, *OPTIONAL])
def test_each_part_can_be_chosen_or_left_out(cluster: Cluster, folder: Path, part: str) -> None:
    if part in OPTIONAL:
        choose(folder, part)
    with_part = names(objects(cluster, folder))
    change(folder, f"{line_of(folder, part)}\n", "")
    assert names(objects(cluster, folder)) < with_part, "the objects of the part are left out"


def test_diff_needs_no_definition_and_no_namespace_of_others(cluster: Cluster, folder: Path) -> None:
    # kubectl cannot compare an object in a namespace that does not exist.
    run(cluster, "create", "namespace", "capacityd")
    diff = kubectl(cluster, "diff", "-k", folder)
    assert (diff.returncode, diff.stderr) == (1, "")  # 1: there are differences; more than 1: an error
    assert "+kind: ValidatingAdmissionPolicy" in diff.stdout
    choose(folder, "prometheus")
    diff = kubectl(cluster, "diff", "-k", folder)
    assert diff.returncode > 1
    assert 'no matches for kind "PrometheusRule"' in diff.stderr


def test_all_objects_are_applied_and_names_are_set_in_one_place(cluster: Cluster, folder: Path) -> None:
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
    apply_crd(cluster, *PROMETHEUS_RULE)
    choose(folder, *OPTIONAL)
    documents = objects(cluster, folder)
    assert not {kind for kind, _ in names(documents)} & WORKLOADS
    assert ("ConfigMap", "settings") not in names(documents)
    assert len(run(cluster, "apply", "-k", folder)) == len(documents)
    dashboard = cluster.admin.get("/api/v1/namespaces/monitoring/configmaps/capacityd-dashboard")
    assert dashboard["metadata"]["labels"] == {"grafana_dashboard": "1"}
    source = (ROOT / "conf/grafana/capacityd-dashboard.json").read_text()
    assert dashboard["data"] == {"capacityd-dashboard.json": source}
    cluster.admin.get("/apis/monitoring.coreos.com/v1/namespaces/monitoring/prometheusrules/capacityd")

    node = create_node(cluster)
    kubeconfig = identity(cluster, node, "certificate", folder / "own")
    numbers = itertools.count(1)  # always a new value: the policy denies only changes

    def denial(domain: str) -> str:
        """Why the API server rejects a key of this domain, or ""."""
        key = {"op": "add", "path": f"/status/capacity/{domain}~1dongle", "value": str(next(numbers))}
        return write(cluster, kubeconfig, node, [key])

    wait_until(lambda: "domains only: example.com" in denial("b.example"), PATIENCE, "the policy is in force")
    for old, new in {
        "domains=example.com": "domains=a.example  c b.example",
        "bandwidth=example.com/nic-mbps": "bandwidth=b.example/wan-mbps",
        "request=example.com/build": "request=b.example/build",
        "request-namespace=builds": "request-namespace=default",
        "monitoring=monitoring": "monitoring=default",
    }.items():
        change(folder, old, new)
    assert "example.com" not in "\n".join(run(cluster, "kustomize", folder))
    run(cluster, "apply", "-k", folder)
    changed = "domains only: a.example  c b.example"
    wait_until(lambda: changed in denial("example.com"), PATIENCE, "the changed policy is in force")
    assert denial("b.example") == ""
    assert changed in denial("c"), "a word without a dot is no domain"
    body = pod([container({"b.example/wan-mbps": 9})])
    annotations = wait_until(lambda: annotations_of(dry_run(cluster, body)), PATIENCE, "the bandwidth is enforced")
    assert annotations == cni_limits("9M")
    created = dry_run(cluster, body)
    assert created["spec"]["containers"][0]["resources"]["limits"]["b.example/build"] == "1"
    cluster.admin.get("/apis/monitoring.coreos.com/v1/namespaces/default/prometheusrules/capacityd")
    unchanged = kubectl(cluster, "diff", "-k", folder)
    assert (unchanged.returncode, unchanged.stdout) == (0, ""), unchanged.stderr
    removed = run(cluster, "delete", "-k", folder, "--wait=false")
    assert len(removed) == len(documents)
