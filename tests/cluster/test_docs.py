"""The documentation on a real API server, scheduler and kubelet: its pages are played, and its manifests are tried."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.cluster.api import ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.docs import cluster_world
from tests.cluster.processes import PATIENCE
from tests.unit.pages import blocks, on_cluster, pages, play, same

FOREIGN = {
    "KubeSchedulerConfiguration": "using-from-pods.md runs a scheduler with it",
    "KubeletConfiguration": "autoscaling.md runs a kubelet with it",
    "NodeOverlay": "Karpenter's",
    "NodeReadinessRule": "the Node Readiness Controller's",
}
"""Kinds that no API server of ours has."""


def name_of(page: object) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else ""


def manifests() -> list[Any]:
    """Every Kubernetes object of the documentation and of packaging, and whether the API server is to take it."""
    found = []
    for page in pages():
        for number, block in enumerate(blocks(page.read_text()), 1):
            if block.kind == "yaml":
                for document in yaml.safe_load_all(block.text):
                    if "kind" in document and document["kind"] not in FOREIGN:
                        found.append(pytest.param(document, block.mistake, id=f"{name_of(page)}-{number}"))
                    elif "resources" in document:
                        found.append(
                            pytest.param(_pod_with(document["resources"]), False, id=f"{name_of(page)}-{number}")
                        )
    return found


def _pod_with(resources: object) -> dict[str, object]:
    """A pod for what is shown of one only."""
    containers = [{"name": "main", "image": "example.com/x", "resources": resources}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "part"}, "spec": {"containers": containers}}


@pytest.mark.parametrize("page", [p for p in pages() if on_cluster(p.read_text())], ids=name_of)
def test_a_page_happens_as_it_says(page: Path) -> None:
    """At the first or second time: a kubelet that learns of its allocatable after the scheduler refuses the pod."""
    text, played = page.read_text(), ""
    for _ in range(2):
        with cluster_world() as world:
            played = play(text, world)
        if same(played) == same(text):
            break
    assert same(played) == same(text), "make docs-cluster writes it anew"


@pytest.mark.parametrize(("manifest", "mistake"), manifests())
def test_the_api_server_takes_a_manifest(cluster: Cluster, tmp_path: Path, manifest: Any, mistake: bool) -> None:
    """Strictly: no field that it does not know, no value that it does not allow."""
    if namespace := manifest["metadata"].get("namespace"):
        _ensure_namespace(cluster, namespace)
    path = tmp_path / "manifest.yaml"
    path.write_text(yaml.safe_dump(manifest))
    done = subprocess.run(
        [
            *(cluster.binaries["kubectl"], "--kubeconfig", cluster.kubeconfig(ADMIN), "create", "--dry-run=server"),
            *("--validate=strict", "-f", path),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"HOME": str(tmp_path)},
    )
    assert (done.returncode != 0) == mistake, done.stderr


def test_every_kind_that_is_not_tried_is_one_that_is_used() -> None:
    used = {
        document.get("kind")
        for page in pages()
        for block in blocks(page.read_text())
        if block.kind == "yaml"
        for document in yaml.safe_load_all(block.text)
    }
    assert FOREIGN.keys() <= used


def _ensure_namespace(cluster: Cluster, name: str) -> None:
    try:
        cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    except ApiError as e:
        if e.status != 409:
            raise
