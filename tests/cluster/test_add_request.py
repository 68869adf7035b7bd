"""The shipped policy that adds a request to pods that have none, on a real API server and scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cluster.api import ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.kubectl import applied
from tests.cluster.pods import UNUSUAL, annotations_of, binds_with, container, dry_run, pod, runtime_class
from tests.cluster.test_enforce_bandwidth import MANIFEST as ENFORCE
from tests.cluster.test_enforce_bandwidth import cni_limits
from tests.cluster.versions import MUTATING_POLICIES

pytestmark = [pytest.mark.protocol, pytest.mark.since(MUTATING_POLICIES)]

MANIFEST = ROOT / "packaging/kubernetes/add-request.yaml"
RESOURCE, BUILDS = "example.com/build", "builds"
ONE = {RESOURCE: "1"}
OLDER = "older"
"""A pod that was created before the policy."""


@pytest.fixture(scope="module")
def in_force(cluster: Cluster) -> Iterator[None]:
    """The shipped policy is in force, in the namespace that it names."""
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": BUILDS}})
    cluster.admin.create(pods_path(), pod([container()], name=OLDER))
    with applied(cluster, MANIFEST, limits_change(cluster, pod([container()]))):
        yield


def limits_change(cluster: Cluster, body: dict[str, Any], namespace: str = BUILDS) -> Callable[[], bool]:
    """A function that returns whether the API server now gives this pod other limits than before."""
    before = limits_of(dry_run(cluster, body, pods_path(namespace)))
    return lambda: limits_of(dry_run(cluster, body, pods_path(namespace))) != before


def needs(number: str) -> dict[str, Any]:
    """A container with this limit of the resource."""
    return container({RESOURCE: number})


def annotation(number: str) -> dict[str, str]:
    """The annotation by which a pod asks for a number."""
    return {RESOURCE: number}


def pods_path(namespace: str = BUILDS) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def limits_of(created: Any) -> list[dict[str, str]]:
    """The limits of each container, then of each init container. The requests must be the same."""
    parts = [c["resources"] for c in created["spec"]["containers"] + created["spec"].get("initContainers", [])]
    assert all(part.get("limits") == part.get("requests") for part in parts)
    return [part.get("limits", {}) for part in parts]


PLAIN = container()
CASES: Mapping[str, tuple[dict[str, Any], list[dict[str, str]]]] = {  # a pod, and the result of limits_of()
    "no request": (pod([PLAIN]), [ONE]),
    "a number in the annotation": (pod([PLAIN], annotations=annotation("3")), [{RESOURCE: "3"}]),
    "a number with a suffix": (pod([PLAIN], annotations=annotation("2k")), [{RESOURCE: "2k"}]),
    "0 in the annotation": (pod([PLAIN], annotations=annotation("0")), [{RESOURCE: "0"}]),
    "a limit of its own": (pod([container({"cpu": "1m"})]), [{"cpu": "1m", **ONE}]),
    "several containers: once": (pod([PLAIN, PLAIN]), [ONE, {}]),
    "an init container": (pod([PLAIN], [PLAIN]), [ONE, {}]),
    "a sidecar": (pod([PLAIN], [container(restartPolicy="Always")]), [ONE, {}]),
    "a request already": (pod([needs("7")]), [{RESOURCE: "7"}]),
    "a request and an annotation": (pod([needs("7")], annotations=annotation("3")), [{RESOURCE: "7"}]),
    "a request of 0": (pod([needs("0")]), [{RESOURCE: "0"}]),
    "the second container requests": (pod([PLAIN, needs("7")]), [{}, {RESOURCE: "7"}]),
    "an init container requests": (pod([PLAIN], [needs("7")]), [{}, {RESOURCE: "7"}]),
}


@pytest.mark.usefixtures("in_force")
@pytest.mark.parametrize("name", CASES)
def test_a_pod_without_a_request_gets_one(cluster: Cluster, name: str) -> None:
    body, expected = CASES[name]
    assert limits_of(dry_run(cluster, body, pods_path())) == expected


@pytest.mark.usefixtures("in_force")
@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("many", "'capacityd-add-request' denied request: .* quantities must match"),
        ("", "'capacityd-add-request' denied request: .* quantities must match"),
        ("1.5", rf"limits\[{RESOURCE}\]: Invalid value: \"1500m\": must be an integer"),
        ("-1", rf"limits\[{RESOURCE}\]: Invalid value: \"-1\": must be greater than or equal to 0"),
    ],
)
def test_a_pod_whose_annotation_is_no_whole_number_is_refused(cluster: Cluster, number: str, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        dry_run(cluster, pod([PLAIN], annotations=annotation(number)), pods_path())


@pytest.mark.usefixtures("in_force")
def test_the_pod_is_pending_until_a_node_has_the_added_request(cluster: Cluster) -> None:
    binds_with(cluster, pod([PLAIN, PLAIN], [PLAIN], annotation("3")), RESOURCE, number=3, path=pods_path())


@pytest.mark.usefixtures("in_force")
def test_an_older_pod_is_left_alone(cluster: Cluster) -> None:
    path = f"{pods_path()}/{OLDER}"
    cluster.admin.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert limits_of(cluster.admin.get(path)) == [{}]


@pytest.mark.usefixtures("in_force")
def test_nothing_else_of_a_pod_changes(cluster: Cluster) -> None:
    body = pod([container(**UNUSUAL), PLAIN])
    with_policy, without = (dry_run(cluster, body, pods_path(namespace)) for namespace in (BUILDS, "default"))
    assert limits_of(with_policy) == [ONE, {}]
    assert limits_of(without) == [{}, {}]
    for created in (with_policy, without):
        del created["spec"]["containers"][0]["resources"]
    assert with_policy["spec"] == without["spec"]
    assert with_policy["status"] == without["status"]


def copy_of(folder: Path, name: str, changes: Mapping[str, str]) -> Path:
    """The shipped file as a user copies it for another resource, with these changes."""
    text = MANIFEST.read_text()
    for old, new in {"capacityd-add-request": f"capacityd-add-{name}", **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_pods_are_chosen_by_a_label(cluster: Cluster, tmp_path: Path) -> None:
    namespace = "    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: builds}}\n"
    manifest = copy_of(tmp_path, "labelled", {namespace: "", "# objectSelector:": "objectSelector:"})
    labelled = pod([PLAIN], labels={"app": "build"})
    with applied(cluster, manifest, limits_change(cluster, labelled, namespace="default")):
        assert limits_of(dry_run(cluster, pod([PLAIN]))) == [{}]


def test_pods_are_chosen_by_their_runtime_class(cluster: Cluster, tmp_path: Path) -> None:
    lines = MANIFEST.read_text().splitlines(keepends=True)
    begin = next(number for number, line in enumerate(lines) if "# matchConditions:" in line)
    uncommented = {line: line.replace("# ", "", 1) for line in lines[begin : begin + 3]}
    changes = {**uncommented, "kubernetes.io/metadata.name: builds": "kubernetes.io/metadata.name: default"}
    with runtime_class(cluster) as name:
        manifest = copy_of(tmp_path, "runtime-class", {**changes, "gvisor": name})
        of_class = pod([PLAIN], runtimeClassName=name)
        with applied(cluster, manifest, limits_change(cluster, of_class, namespace="default")):
            assert limits_of(dry_run(cluster, pod([PLAIN]))) == [{}]


@pytest.mark.usefixtures("in_force")
def test_the_bandwidth_that_is_added_is_enforced(cluster: Cluster, tmp_path: Path) -> None:
    """Both policies apply to one pod. The API server runs them in no defined order."""
    mbps = "example.com/nic-mbps"
    manifest = copy_of(tmp_path, "bandwidth", {f"'{RESOURCE}'": f"'{mbps}'"})
    body = pod([PLAIN], annotations={mbps: "100"})
    expected = {mbps: "100", **cni_limits("100M")}
    with (
        applied(cluster, manifest, limits_change(cluster, body)),
        applied(cluster, ENFORCE, lambda: annotations_of(dry_run(cluster, body, pods_path())) == expected),
    ):
        pass  # applied() has waited until the pod has both
