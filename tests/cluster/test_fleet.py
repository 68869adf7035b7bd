"""kubectl capacityd fleet on the real API server, for a user who may list Nodes and pods."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION
from kubectl_capacityd.commands.source import INSTANCE_TYPE
from tests import ROOT
from tests.cluster.agent import CLIENT, DONGLE, kubectl_capacityd
from tests.cluster.controlplane import BASE_CAPACITY, PODS, Cluster
from tests.cluster.kubectl import DOCKER_MACHINE_TEMPLATE, apply_crd, succeed
from tests.cluster.pods import container, pod, runtime_class
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.versions import CLASS_NAMES
from tests.support.pages import blocks, commands

NIC = "example.com/nic-mbps"
PAGE = ROOT / "docs/operations.md"
SAM = "sam"
SUITE = "tests.example/fleet"
"""The label of this module's Nodes. Other modules create other Nodes on the same API server."""


@pytest.fixture(scope="module")
def sam(cluster: Cluster) -> Path:
    """The kubeconfig of a user who may list Nodes and pods."""
    cluster.grant(SAM, "list", "nodes", "pods")
    return cluster.kubeconfig(SAM, credentials="certificate")


def fleet(kubeconfig: Path, *arguments: str, status: int, python: Path = CLIENT) -> subprocess.CompletedProcess[str]:
    """Runs `kubectl capacityd fleet` with the arguments of run()."""
    return run(kubeconfig, "fleet", *arguments, status=status, python=python)


def run(kubeconfig: Path, *arguments: str, status: int, python: Path = CLIENT) -> subprocess.CompletedProcess[str]:
    """Runs `kubectl capacityd` with this kubeconfig in KUBECONFIG. status: the exit status that it must have."""
    done = subprocess.run(
        [*kubectl_capacityd(python), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig)},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def stamp(age: float) -> str:
    """The time this many seconds ago, as in a Node."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age))


class Nodes:
    """The Nodes of one test, in the state in which capacityd leaves Nodes."""

    def __init__(self, cluster: Cluster, pool: str) -> None:
        self._cluster = cluster
        self.selector = f"{SUITE}={pool}"
        self._labels = dict([self.selector.split("=")])
        self._numbers = itertools.count(1)
        self.pods: list[str] = []

    def create(
        self,
        name: str,
        capacity: Mapping[str, int] | None = None,
        *,
        published: Mapping[str, int] | None = None,
        condition: Mapping[str, str] | None = None,
        age: float = 60,
        configuration: str = "4f1c2a907b1e",
        instance: str = "m5.large",
        ready: bool = True,
        bare: bool = False,
    ) -> None:
        """Creates a Node. bare: without capacityd."""
        capacity = capacity if capacity is not None else {DONGLE: 4, NIC: 10_000}
        ours = {
            "type": CONDITION,
            "status": "True",
            "reason": "Published",
            "message": "all configured resources are published",
            "lastHeartbeatTime": stamp(age),
            "lastTransitionTime": stamp(86400),
            **(condition or {}),
        }
        kubelet = {
            "type": "Ready",
            "status": str(ready),
            "lastHeartbeatTime": stamp(age),
            "lastTransitionTime": stamp(4 * 3600),
        }
        text = {key: str(number) for key, number in capacity.items()}
        record = json.dumps(capacity if published is None else published)
        status: dict[str, Any] = {"conditions": [kubelet]}
        if not bare:
            status = {"conditions": [kubelet, ours], "allocatable": {**BASE_CAPACITY, **text}}
        self._cluster.create_node(
            name,
            capacity={} if bare else text,
            labels={**self._labels, INSTANCE_TYPE: instance},
            annotations={} if bare else {ANNOTATION: record, CONFIGURATION_ANNOTATION: configuration},
            status=status,
        )

    def create_pod(self, requests: Mapping[str, int], node: str = "", **spec: Any) -> str:
        """Creates a pod, on a Node or on none (""). spec: further arguments of pod(). Returns its name."""
        name = f"fleet-{next(self._numbers)}"
        bound = {"nodeName": node} if node else {"nodeSelector": {SUITE: "no-such-pool"}}
        options = {"terminationGracePeriodSeconds": 0, **bound, **spec}
        self._cluster.admin.create(PODS, pod([container(requests)], name=name, **options))
        self.pods.append(name)
        return name


@pytest.fixture
def nodes(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """The Nodes of this test, which are deleted at its end. No pods of other tests are waiting."""
    for waiting in cluster.admin.get(PODS)["items"]:
        if "nodeName" not in waiting["spec"]:  # other tests leave waiting pods
            cluster.admin.delete(f"{PODS}/{waiting['metadata']['name']}")
    nodes = Nodes(cluster, request.node.name.partition("[")[0][:60])
    yield nodes
    for name in nodes.pods:
        cluster.admin.delete(f"{PODS}/{name}")
    items = cluster.admin.get("/api/v1/nodes", labelSelector=nodes.selector)["items"]
    for item in items:
        cluster.admin.delete(f"/api/v1/nodes/{item['metadata']['name']}")


def mixed(cluster: Cluster, nodes: Nodes) -> None:
    """Creates healthy Nodes, and at least one Node for each thing that can be wrong."""
    for number in (*range(1, 9), *range(17, 21)):
        nodes.create(f"worker-{number:02}")
    for number in range(1, 5):
        nodes.create(f"big-{number}", {DONGLE: 8, NIC: 25_000}, instance="m5.metal")
    below = {"status": "False", "reason": "BelowExpected", "message": "below expected: example.com/dongle is 3 of 4"}
    for number in range(9, 12):
        nodes.create(f"worker-{number:02}", {DONGLE: 3, NIC: 10_000}, condition=below)
    refused = {"status": "False", "reason": "Refused", "message": "refused: example.com/gpu"}
    nodes.create("worker-12", condition=refused)
    nodes.create("worker-13", age=3 * 3600, ready=False)
    nodes.create("worker-14", age=5 * 3600, ready=False)
    cluster.admin.patch("/api/v1/nodes/worker-14", {"spec": {"unschedulable": True}})
    nodes.create("worker-15", age=3 * 3600)
    nodes.create("worker-16", bare=True)
    nodes.create("big-5", {DONGLE: 0, NIC: 25_000}, published={DONGLE: 8, NIC: 25_000}, instance="m5.metal")
    nodes.create("big-6", {DONGLE: 8, NIC: 25_000}, configuration="0b77e1d34a90", instance="m5.metal")
    for name, requested in {"big-1": 6, "worker-01": 4, "worker-02": 1}.items():
        nodes.create_pod({DONGLE: requested}, name)
    nodes.create_pod({DONGLE: 3}, "big-1")
    nodes.create_pod({DONGLE: 2})
    nodes.create_pod({NIC: 5_000}, "worker-01")


def without_time(output: str) -> str:
    return re.sub(r"\(as of [^)]*\)", "(as of …)", output)


def test_each_reason_and_the_page_that_shows_them(cluster: Cluster, sam: Path, nodes: Nodes) -> None:
    mixed(cluster, nodes)
    done = fleet(sam, "-l", nodes.selector, status=4)
    assert done.stderr == ""
    (shown,) = (block.text for block in blocks(PAGE.read_text()) if block.kind == "text")
    lines = without_time(done.stdout).splitlines()
    assert [line for line in without_time(shown).splitlines() if line not in (*lines, "…")] == [], done.stdout


@pytest.mark.since(CLASS_NAMES)
def test_a_saved_list_says_the_same(cluster: Cluster, nodes: Nodes, tmp_path: Path) -> None:
    """The list is saved with the command on the page."""
    nodes.create("saved-1", instance="saved")
    nodes.create("saved-2", {DONGLE: 2, NIC: 10_000}, instance="saved")
    nodes.create_pod({DONGLE: 3}, "saved-1")
    admin = cluster.admin_kubeconfig
    shown = [words for block in blocks(PAGE.read_text()) if block.kind == "sh" for words in commands(block)]
    ((kinds, options),) = ((words[2], words[3:-1]) for words in shown if words[-1] == ">saved.json")
    kubectl: list[str | Path] = [cluster.binaries["kubectl"], "--kubeconfig", admin, "get", kinds, *options]
    (tmp_path / "saved.json").write_bytes(subprocess.run(kubectl, capture_output=True, check=True).stdout)
    report = ["saved-1", "saved-2", "--json"]
    live = json.loads(fleet(admin, *report, status=0).stdout)
    saved = json.loads(
        fleet(Path("/nonexistent"), "--node-file", str(tmp_path / "saved.json"), *report, status=0).stdout
    )
    assert saved | {"as_of": 0} == live | {"as_of": 0}
    assert [node["resources"][0]["free"] for node in live["by_node"]] == [1, 2]


@pytest.mark.protocol
def test_what_is_free_is_what_the_scheduler_still_places(cluster: Cluster, sam: Path, nodes: Nodes) -> None:
    """The pods have sidecars, init containers before and after sidecars, and an overhead. One pod has finished."""
    nodes.create("free-1", {DONGLE: 40})
    here: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "free-1"}}

    def some(number: int, **more: object) -> dict[str, Any]:
        return container({DONGLE: number}, **more)

    nodes.create_pod({DONGLE: 1}, **here, init=[some(3, restartPolicy="Always"), some(5)])  # 8 at the start, 4 later
    nodes.create_pod({DONGLE: 1}, **here, init=[some(4), some(2, restartPolicy="Always")])  # 4 at the start, 3 later
    with runtime_class(cluster, {DONGLE: "2"}) as heavy:
        nodes.create_pod({DONGLE: 1}, **here, runtimeClassName=heavy)  # 3 with the overhead
    nodes.create_pod({DONGLE: 1}, **here)
    finished = nodes.create_pod({DONGLE: 9}, **here)
    for name in nodes.pods:
        wait_until(lambda name=name: cluster.pod(name)["spec"].get("nodeName"), PATIENCE, f"{name} is bound")  # type: ignore[misc]
    cluster.admin.patch(f"{PODS}/{finished}/status", {"status": {"phase": "Succeeded"}})
    (by_node,) = json.loads(fleet(sam, "free-1", "--json", status=0).stdout)["by_node"]
    (dongles,) = by_node["resources"]
    assert (dongles["requested"], dongles["free"]) == (16, 24)
    too_many = nodes.create_pod({DONGLE: dongles["free"] + 1}, **here)
    wait_until(lambda: f"Insufficient {DONGLE}" in cluster.unschedulable(too_many), PATIENCE, "one too many waits")
    (resource,) = json.loads(fleet(sam, "free-1", "--json", status=0).stdout)["resources"]
    assert (resource["requested"], resource["waiting"]) == (16, 1)
    rest = nodes.create_pod({DONGLE: dongles["free"]}, **here)
    wait_until(lambda: cluster.pod(rest)["spec"].get("nodeName"), PATIENCE, "the rest is bound")


@pytest.mark.protocol
@pytest.mark.since(CLASS_NAMES)
def test_a_device_class_of_the_same_name(cluster: Cluster, nodes: Nodes) -> None:
    nodes.create("dra-1")
    spec = {"extendedResourceName": DONGLE, "selectors": []}
    path, name = "/apis/resource.k8s.io/v1/deviceclasses", "fleet-dongles"
    made = cluster.admin.create(path, {"metadata": {"name": name}, "spec": spec})
    try:
        assert made["spec"].get("extendedResourceName") == DONGLE
        done = fleet(cluster.admin_kubeconfig, "-l", nodes.selector, "--json", status=4)
    finally:
        cluster.admin.delete(f"{path}/{name}")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["node"], finding["reason"]) == (None, "DeviceClass")
    assert name in finding["message"]


def test_the_status_of_a_machine_template_carries_several_resources(
    cluster: Cluster, sam: Path, nodes: Nodes, tmp_path: Path
) -> None:
    """The definition of the kind is from Cluster API's provider for tests. The command is on the page."""
    nodes.create("template-4")
    apply_crd(cluster, *DOCKER_MACHINE_TEMPLATE)
    document = run(sam, "template", "cluster-api", "--nodes", "-l", nodes.selector, status=0).stdout
    (tmp_path / "FILE").write_text(document)
    version = "infrastructure.cluster.x-k8s.io/v1beta2"
    path = f"/apis/{version}/namespaces/default/dockermachinetemplates"
    kind = {"apiVersion": version, "kind": "DockerMachineTemplate"}
    cluster.admin.create(path, {**kind, "metadata": {"name": "m"}, "spec": {"template": {"spec": {}}}})
    head = document.splitlines()[0]
    (command,) = re.findall("kubectl (.*)", head)
    words = [{"KIND": "dockermachinetemplate", "NAME": "m"}.get(word, word) for word in command.split()]
    words = [word.replace("=FILE", f"={tmp_path}/FILE") for word in words]
    succeed(cluster, *words)
    assert cluster.admin.get(f"{path}/m")["status"]["capacity"] == {DONGLE: "4", NIC: "10000"}
