"""Runs the pages of the documentation, and tries their manifests, on a real API server, scheduler and kubelet."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.cluster.api import ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.docs import cluster_world
from tests.cluster.kubectl import KUBEADM_CONFIG_TEMPLATE, apply_crd, kubectl, succeed
from tests.cluster.processes import PATIENCE
from tests.cluster.versions import CLAIMS, CLAIMS_GONE, DEVICE_CLASSES, has_feature
from tests.support.pages import blocks, manifests, pages, place, play, same

FOREIGN = {
    "KubeadmConfigTemplate": "Cluster API's: a test below tries it",
    "NodeReadinessRule": "the Node Readiness Controller's",
}
"""Kinds that the tests' API server does not know, and their owner or the test that covers them."""
ON_CLAIMS = "no new claims to deallocate, "
"""A part of the scheduler's message, which the pages show. Some versions of Kubernetes do not print it."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def shown_manifests() -> list[Any]:
    """Every Kubernetes object on the pages, and whether the API server must reject it."""
    cases = []
    for page in pages():
        for number, block in enumerate(blocks(page.read_text()), 1):
            for document in manifests(block) if block.kind == "yaml" else []:
                if manifest := whole_object(document):
                    marks = [pytest.mark.since(DEVICE_CLASSES)] if manifest["kind"] == "DeviceClass" else []
                    cases.append(pytest.param(manifest, block.invalid, id=f"{name_of(page)}-{number}", marks=marks))
    return cases


def whole_object(document: dict[str, Any]) -> dict[str, Any] | None:
    """The Kubernetes object in a document, or a pod with the resources in it. None: the document has neither."""
    if "kind" in document:
        return None if document["kind"] in FOREIGN else document
    if "resources" not in document:
        return None
    containers = [{"name": "main", "image": "example.com/x", "resources": document["resources"]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "part"}, "spec": {"containers": containers}}


def expected_text(page: Path, kubernetes: str) -> str:
    """The page, with the output of this version of Kubernetes."""
    text = page.read_text()
    mentions_claims = has_feature(kubernetes, CLAIMS) and not has_feature(kubernetes, CLAIMS_GONE)
    return text if mentions_claims else text.replace(ON_CLAIMS, "")


def cluster_pages() -> list[Any]:
    """The pages that run on a control plane. The quick start runs on each version of Kubernetes."""
    on_cluster = [page for page in pages() if place(page.read_text()) == "cluster"]
    marks = {"quickstart": pytest.mark.protocol}
    return [pytest.param(page, id=name_of(page), marks=marks.get(page.stem, ())) for page in on_cluster]


@pytest.mark.parametrize("page", cluster_pages())
def test_a_page_shows_what_happens(page: Path, binaries: Mapping[str, Path], kubernetes: str) -> None:
    """A page gets two attempts, because a kubelet that learns of its allocatable late refuses a pod."""
    expected, played = expected_text(page, kubernetes), ""
    for _ in range(2):
        with cluster_world(binaries) as world:
            played = play(expected, world)
        if same(played) == same(expected):
            break
    assert same(played) == same(expected), "make docs-cluster writes the outputs on the page anew"


@pytest.mark.protocol
@pytest.mark.parametrize(("manifest", "invalid"), shown_manifests())
def test_the_api_server_accepts_a_manifest(cluster: Cluster, tmp_path: Path, manifest: Any, invalid: bool) -> None:
    """Validation is strict: unknown fields are errors. A manifest that the page calls invalid must be rejected."""
    if namespace := manifest["metadata"].get("namespace"):
        with suppress(ApiError):  # the namespace exists already
            cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    path = tmp_path / "manifest.yaml"
    path.write_text(yaml.safe_dump(manifest))
    done = kubectl(cluster, "create", "--dry-run=server", "--validate=strict", "-f", path)
    assert (done.returncode != 0) == invalid, done.stderr


def test_the_template_for_cluster_api_fits_its_schema(cluster: Cluster, tmp_path: Path) -> None:
    definition = apply_crd(cluster, *KUBEADM_CONFIG_TEMPLATE)
    page = (ROOT / "docs/install.md").read_text()
    (template,) = (block.text for block in blocks(page) if block.name == "template.yaml")
    (tmp_path / "template.yaml").write_text(template)
    succeed(cluster, "apply", "--dry-run=server", "--validate=strict", "-f", tmp_path / "template.yaml")
    succeed(cluster, "delete", "-f", definition)


def test_the_kubeconfig_of_a_separate_identity(cluster: Cluster, tmp_path: Path) -> None:
    """The commands in docs/security.md make a kubeconfig for capacityd."""
    page = (ROOT / "docs/security.md").read_text()
    lines = [line for block in blocks(page) if block.kind == "sh" for line in block.text.splitlines()]
    (tmp_path / "kubectl").symlink_to(cluster.binaries["kubectl"])
    (tmp_path / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    path = tmp_path / "n1.kubeconfig"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "KUBECONFIG": str(path), "token": "t"}
    script = "\n".join(line for line in lines if line.startswith("kubectl config "))
    subprocess.run(["sh", "-e"], input=script, text=True, timeout=PATIENCE, check=True, cwd=tmp_path, env=environment)
    kubeconfig = yaml.safe_load(path.read_text())
    assert kubeconfig["users"] == [{"name": "capacityd", "user": {"token": "t", "as": "system:node:n1"}}]
    assert kubeconfig["current-context"] == "main"


def queries() -> list[Any]:
    """The commands on the pages that only read from the cluster and print the result. They are in sh blocks."""
    return [
        pytest.param(line, id=f"{name_of(page)}-{number}")
        for page in pages()
        for block in blocks(page.read_text())
        if block.kind == "sh"
        for number, line in enumerate(block.text.replace("\\\n", "").splitlines(), 1)
        if line.startswith("kubectl get ") and " >" not in line
    ]


PRINTED = r"c0ffee|BelowExpected|2026-01-02T03:04:05Z|\bFalse\b|example\.com/gpu|\b4\d{6}\b"
"""The values of node_with_all. The last one is a number such as 4000000."""


@pytest.fixture(scope="module")
def node_with_all(cluster: Cluster) -> str:
    """A Node with everything that the queries print. Creates a DeviceClass as well."""
    condition = {"type": "CapacityPublished", "status": "False", "reason": "BelowExpected", "message": "too few"}
    stamps = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), "2026-01-02T03:04:05Z")
    device_class = {"metadata": {"name": "gpu.example.com"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    cluster.admin.create("/apis/resource.k8s.io/v1/deviceclasses", device_class)
    return cluster.create_node(
        annotations={"capacityd/configuration": "c0ffee"},
        status={"allocatable": {"example.com/dongle": "4000000"}, "conditions": [condition | stamps]},
    )


@pytest.mark.parametrize("query", queries())
def test_a_query_prints_what_it_is_for(cluster: Cluster, node_with_all: str, tmp_path: Path, query: str) -> None:
    """If a path in a query is wrong, kubectl prints only an empty line or <none>."""
    (tmp_path / "kubectl").symlink_to(cluster.binaries["kubectl"])
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-e"],
        input=re.sub(r"\bn1\b", node_with_all, query),  # the Node on the pages is n1
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment | {"KUBECONFIG": str(cluster.admin_kubeconfig)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(PRINTED, done.stdout)
