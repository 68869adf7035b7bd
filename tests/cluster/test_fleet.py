"""kubectl capacityd fleet on the real API server, for a user who may list Nodes and pods."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.node import ANNOTATION, CONDITION
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
USER = "sam"
SUITE = "tests.example/fleet"
"""The label of this module's Nodes. Other modules create other Nodes on the same API server."""


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster) -> Path:
    """The kubeconfig of a user who may list Nodes and pods."""
    cluster.grant(USER, "list", "nodes", "pods")
    return cluster.kubeconfig(USER, credentials="certificate")


def fleet(kubeconfig: Path, *arguments: str, status: int, python: Path = CLIENT) -> subprocess.CompletedProcess[str]:
    """Runs `kubectl capacityd fleet`. The parameters are those of run()."""
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


class Nodes:
    """The Nodes of one test, in the state in which capacityd leaves Nodes."""

    def __init__(self, cluster: Cluster, pool: str) -> None:
        self._cluster = cluster
        self.selector = f"{SUITE}={pool}"
        self._numbers = itertools.count(1)
        self.pods: list[str] = []

    def create(self, name: str, dongles: int = 4) -> None:
        """Creates a Node with this number of dongles."""
        numbers = {DONGLE: dongles, NIC: 10_000}
        capacity = {key: str(number) for key, number in numbers.items()}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": kind, "status": "True", "reason": "Published", "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind in ("Ready", CONDITION)
        ]
        label, _, pool = self.selector.partition("=")
        self._cluster.create_node(
            name,
            capacity=capacity,
            labels={label: pool, INSTANCE_TYPE: "m5.large"},
            annotations={ANNOTATION: json.dumps(numbers)},
            status={"conditions": conditions, "allocatable": {**BASE_CAPACITY, **capacity}},
        )

    def create_pod(self, dongles: int, node: str, **spec: Any) -> str:
        """Creates a pod that requests dongles and may run only on this Node. Returns its name.

        spec: further arguments of pod().
        """
        name = f"fleet-{next(self._numbers)}"
        place: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": node}}
        self._cluster.admin.create(
            PODS, pod([container({DONGLE: dongles})], name=name, terminationGracePeriodSeconds=0, **place, **spec)
        )
        self.pods.append(name)
        return name


@pytest.fixture
def nodes(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """The Nodes of this test, which are deleted at its end. No pods of other tests are waiting."""
    for waiting in cluster.admin.get(PODS)["items"]:
        if "nodeName" not in waiting["spec"]:  # other tests leave waiting pods
            cluster.admin.delete(f"{PODS}/{waiting['metadata']['name']}")
    nodes = Nodes(cluster, request.node.name.partition("[")[0][:60])  # a label has at most 63 characters
    yield nodes
    for name in nodes.pods:
        cluster.admin.delete(f"{PODS}/{name}")
    items = cluster.admin.get("/api/v1/nodes", labelSelector=nodes.selector)["items"]
    for item in items:
        cluster.admin.delete(f"/api/v1/nodes/{item['metadata']['name']}")


@pytest.mark.since(CLASS_NAMES)
def test_a_saved_list_says_the_same(cluster: Cluster, nodes: Nodes, tmp_path: Path) -> None:
    """The command that saves the list, `kubectl get KINDS OPTIONS >saved.json`, is in docs/operations.md."""
    nodes.create("saved-1")
    nodes.create("saved-2", 2)
    nodes.create_pod(3, "saved-1", nodeName="saved-1")
    shown = [words for block in blocks(PAGE.read_text()) if block.kind == "sh" for words in commands(block)]
    ((kinds, options),) = ((words[2], words[3:-1]) for words in shown if words[-1] == ">saved.json")
    file = tmp_path / "saved.json"
    file.write_text(succeed(cluster, "get", kinds, *options))
    report = ["saved-1", "saved-2", "--json"]
    live = json.loads(fleet(cluster.admin_kubeconfig, *report, status=0).stdout)
    saved = json.loads(fleet(Path("/nonexistent"), "--node-file", str(file), *report, status=0).stdout)
    assert saved | {"as_of": 0} == live | {"as_of": 0}
    assert [node["resources"][0]["free"] for node in live["by_node"]] == [1, 2]


@pytest.mark.protocol
def test_what_is_free_is_what_the_scheduler_still_places(cluster: Cluster, kubeconfig: Path, nodes: Nodes) -> None:
    """The pods have sidecars, init containers before and after sidecars, and an overhead. One pod has finished."""
    nodes.create("free-1", 40)

    def needs(dongles: int, **more: object) -> dict[str, Any]:
        return container({DONGLE: dongles}, **more)

    nodes.create_pod(1, "free-1", init=[needs(3, restartPolicy="Always"), needs(5)])  # 8 at the start, 4 later
    nodes.create_pod(1, "free-1", init=[needs(4), needs(2, restartPolicy="Always")])  # 4 at the start, 3 later
    with runtime_class(cluster, {DONGLE: "2"}) as heavy:
        nodes.create_pod(1, "free-1", runtimeClassName=heavy)  # 3 with the overhead
    nodes.create_pod(1, "free-1")
    finished = nodes.create_pod(9, "free-1")
    for name in nodes.pods:
        wait_bound(cluster, name)
    cluster.admin.patch(f"{PODS}/{finished}/status", {"status": {"phase": "Succeeded"}})
    dongles = json.loads(fleet(kubeconfig, "free-1", "--json", status=0).stdout)["by_node"][0]["resources"][0]
    assert (dongles["requested"], dongles["free"]) == (16, 24)
    too_many = nodes.create_pod(25, "free-1")
    wait_until(lambda: f"Insufficient {DONGLE}" in cluster.unschedulable(too_many), PATIENCE, "one too many waits")
    dongles = json.loads(fleet(kubeconfig, "free-1", "--json", status=0).stdout)["resources"][0]
    assert (dongles["requested"], dongles["waiting"]) == (16, 1)
    wait_bound(cluster, nodes.create_pod(24, "free-1"))


def wait_bound(cluster: Cluster, pod: str) -> None:
    """Waits until the scheduler has chosen a Node for a pod."""
    wait_until(lambda: cluster.pod(pod)["spec"].get("nodeName"), PATIENCE, f"{pod} is bound")


@pytest.mark.protocol
@pytest.mark.since(CLASS_NAMES)
def test_a_device_class_of_the_same_name(cluster: Cluster, nodes: Nodes) -> None:
    nodes.create("dra-1")
    spec = {"extendedResourceName": DONGLE, "selectors": []}
    path, name = "/apis/resource.k8s.io/v1/deviceclasses", "fleet-dongles"
    created = cluster.admin.create(path, {"metadata": {"name": name}, "spec": spec})
    try:
        assert created["spec"].get("extendedResourceName") == DONGLE
        done = fleet(cluster.admin_kubeconfig, "-l", nodes.selector, "--json", status=4)
    finally:
        cluster.admin.delete(f"{path}/{name}")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["node"], finding["reason"]) == (None, "DeviceClass")
    assert name in finding["message"]


def test_the_status_of_a_machine_template_carries_several_resources(
    cluster: Cluster, kubeconfig: Path, nodes: Nodes, tmp_path: Path
) -> None:
    """The test runs the command in the template's first line. The kind is that of Cluster API's provider for tests."""
    nodes.create("template-4")
    apply_crd(cluster, *DOCKER_MACHINE_TEMPLATE)
    document = run(kubeconfig, "template", "cluster-api-template", "--nodes", "-l", nodes.selector, status=0).stdout
    (tmp_path / "FILE").write_text(document)
    version = "infrastructure.cluster.x-k8s.io/v1beta2"
    path = f"/apis/{version}/namespaces/default/dockermachinetemplates"
    kind = {"apiVersion": version, "kind": "DockerMachineTemplate"}
    cluster.admin.create(path, {**kind, "metadata": {"name": "m"}, "spec": {"template": {"spec": {}}}})
    (command,) = re.findall("kubectl (.*)", document.splitlines()[0])  # with KIND, NAME and FILE as placeholders
    words = [{"KIND": "dockermachinetemplate", "NAME": "m"}.get(word, word) for word in command.split()]
    words = [word.replace("=FILE", f"={tmp_path}/FILE") for word in words]
    succeed(cluster, *words)
    assert cluster.admin.get(f"{path}/m")["status"]["capacity"] == {DONGLE: "4", NIC: "10000"}
