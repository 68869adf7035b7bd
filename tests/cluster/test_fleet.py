"""capacityd fleet on the real API server, as a person who may list Nodes and nothing else."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from capacityd.cli.commands.fleet import INSTANCE_TYPE
from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION
from capacityd.node import node_list
from tests import ROOT
from tests.cluster.agent import CLIENT, DONGLE, Agent, capacityd
from tests.cluster.controlplane import BASE_CAPACITY, Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.versions import CLASS_NAMES
from tests.support.pages import blocks

NIC = "example.com/nic-mbps"
JANE = "jane"
SUITE = "tests.example/fleet"
"""Other modules have Nodes on the same API server; ours have this label."""


@pytest.fixture(scope="module")
def jane(cluster: Cluster) -> Path:
    """The kubeconfig of a person who may list Nodes."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    cluster.admin.create(f"{rbac}/clusterroles", {"metadata": {"name": "fleet"}, "rules": rules})
    binding = {
        "metadata": {"name": "fleet"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fleet"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": JANE}],
    }
    cluster.admin.create(f"{rbac}/clusterrolebindings", binding)
    access = {"user": JANE, "resourceAttributes": {"verb": "list", "resource": "nodes"}}

    def granted() -> bool:
        review = cluster.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": access})
        return bool(review["status"]["allowed"])

    wait_until(granted, PATIENCE, "the API server has noticed the role")
    return cluster.kubeconfig(JANE, credentials="certificate")


def fleet(kubeconfig: Path, *arguments: str, status: int, python: Path = CLIENT) -> subprocess.CompletedProcess[str]:
    """Runs the command with this kubeconfig in KUBECONFIG; it must end with this exit status."""
    done = subprocess.run(
        [*capacityd(python), "fleet", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig)},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def attention(done: subprocess.CompletedProcess[str]) -> dict[str | None, tuple[list[str], str]]:
    return {one["node"]: (one["reasons"], one["message"]) for one in json.loads(done.stdout)["attention"]}


def stamp(age: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age))


class Nodes:
    """Nodes of one test, as capacityd leaves them."""

    def __init__(self, cluster: Cluster, pool: str) -> None:
        self._cluster = cluster
        self.selector = f"{SUITE}={pool}"
        self._labels = dict([self.selector.split("=")])

    def create(
        self,
        name: str,
        capacity: Mapping[str, int] | None = None,
        *,
        published: Mapping[str, int] | None = None,
        condition: Mapping[str, str] | None = None,
        age: float = 60,
        configuration: str = "4f1c2a90",
        instance: str = "m5.large",
        bare: bool = False,
    ) -> None:
        """bare: a Node without capacityd."""
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
        text = {key: str(number) for key, number in capacity.items()}
        record = json.dumps(capacity if published is None else published)
        self._cluster.create_node(
            name,
            capacity={} if bare else text,
            labels={**self._labels, INSTANCE_TYPE: instance},
            annotations={} if bare else {ANNOTATION: record, CONFIGURATION_ANNOTATION: configuration},
            status={} if bare else {"conditions": [ours], "allocatable": {**BASE_CAPACITY, **text}},
        )


@pytest.fixture
def nodes(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    found = Nodes(cluster, request.node.name.partition("[")[0][:60])
    yield found
    items = cluster.admin.get("/api/v1/nodes", labelSelector=found.selector)["items"]
    for item in items:
        cluster.admin.delete(f"/api/v1/nodes/{item['metadata']['name']}")


def mixed(nodes: Nodes) -> None:
    """Twelve healthy Nodes, and one for each thing that can be wrong."""
    for number in range(1, 9):
        nodes.create(f"worker-{number:02}")
    for number in range(1, 5):
        nodes.create(f"big-{number}", {DONGLE: 8, NIC: 25_000}, instance="m5.metal")
    refused = {"status": "False", "reason": "Refused", "message": "refused: example.com/gpu"}
    nodes.create("worker-09", {DONGLE: 3, NIC: 10_000})
    nodes.create("worker-10", condition=refused)
    nodes.create("worker-11", age=3 * 3600)
    nodes.create("worker-12", bare=True)
    nodes.create("big-5", {DONGLE: 0, NIC: 25_000}, published={DONGLE: 8, NIC: 25_000}, instance="m5.metal")
    nodes.create("big-6", {DONGLE: 8, NIC: 25_000}, configuration="0b77e1d3", instance="m5.metal")


def test_each_reason_and_the_page_that_shows_them(cluster: Cluster, jane: Path, nodes: Nodes) -> None:
    mixed(nodes)
    with cluster.audit.requests(JANE) as requests:
        done = fleet(jane, "-l", nodes.selector, status=4)
    assert Counter((r.verb, r.resource, r.code) for r in requests.all()) == {
        ("list", "nodes", 200): 1,
        ("list", "deviceclasses", 403): 1,
    }
    assert done.stderr == ""
    page = (ROOT / "docs/how-to/fleet.md").read_text()
    shown = [block.text for block in blocks(page) if block.kind == "text"]
    assert done.stdout == shown[0], done.stdout
    found = attention(fleet(jane, "-l", nodes.selector, "--json", status=4))
    assert {name: reasons for name, (reasons, _) in found.items()} == {
        "big-5": ["CapacityChanged"],
        "big-6": ["ConfigurationDiffers"],
        "worker-09": ["QuantityDiffers"],
        "worker-10": ["Refused"],
        "worker-11": ["HeartbeatOverdue"],
        "worker-12": ["ConditionMissing"],
    }
    assert fleet(jane, "-l", f"{nodes.selector},kubernetes.io/hostname=worker-01", status=0).stderr == ""


@pytest.mark.protocol
def test_a_published_node_needs_no_attention_until_somebody_changes_it(
    cluster: Cluster, node: str, jane: Path, agent: Agent
) -> None:
    selector = f"kubernetes.io/hostname={node}"
    agent.run("apply")
    found = json.loads(fleet(jane, "-l", selector, "--json", status=0).stdout)
    assert found == {
        "nodes": 1,
        "resources": [{"name": DONGLE, "nodes": 1, "capacity": 4, "allocatable": 0, "usual": 4}],
        "attention": [],
    }
    cluster.set_capacity(node, {DONGLE: "0"})
    found = attention(fleet(jane, "-l", selector, "--json", status=4))
    assert found == {node: (["CapacityChanged"], f"{DONGLE} is 0, last applied 4")}


def test_watch_until_ctrl_c(cluster: Cluster, jane: Path, nodes: Nodes) -> None:
    nodes.create("watched")
    pid, terminal = pty.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell may have started the tests with it ignored
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "KUBECONFIG": str(jane)}
        words = [*map(str, capacityd()), "fleet", "--watch", "-l", nodes.selector]
        os.execve(words[0], words, environment)
    shown = b""

    def shows(text: bytes) -> bool:
        nonlocal shown
        if select.select([terminal], [], [], 0)[0]:
            shown += os.read(terminal, 65536)
        return text in shown

    try:
        wait_until(lambda: shows(b"1 Node, none needs attention"), PATIENCE, "the first report")
        cluster.set_capacity("watched", {DONGLE: "0"})
        wait_until(lambda: shows(b"CapacityChanged"), PATIENCE, "the changed one")
        os.write(terminal, b"\x03")
        ended = wait_until(lambda: _if_ended(pid), PATIENCE, "the command ends")
        assert ended is not None
        assert os.waitstatus_to_exitcode(ended[1]) == 130
    finally:
        os.close(terminal)
    assert shown.count(b"\x1b[H\x1b[2J") == 2
    assert b"Traceback" not in shown


def _if_ended(pid: int) -> tuple[int, int] | None:
    ended = os.waitpid(pid, os.WNOHANG)
    return ended if ended[0] else None


def test_pages(cluster: Cluster, jane: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        nodes.create(f"page-{number}")
    monkeypatch.setattr(node_list, "_PAGE", 3)
    counts: list[int] = []
    with cluster.audit.requests(JANE) as requests:
        read = node_list.read_fleet(str(jane), nodes.selector, INSTANCE_TYPE, counts.append)
    assert counts == [3, 6, 7]
    assert [node.name for node in read.nodes] == [f"page-{number}" for number in range(7)]
    assert sum(r.resource == "nodes" for r in requests.all()) == 3


@pytest.mark.protocol
@pytest.mark.since(CLASS_NAMES)
def test_a_device_class_of_the_same_name(cluster: Cluster, nodes: Nodes) -> None:
    nodes.create("dra-1")
    spec = {"extendedResourceName": DONGLE, "selectors": []}
    path, name = "/apis/resource.k8s.io/v1/deviceclasses", "fleet-dongles"
    made = cluster.admin.create(path, {"metadata": {"name": name}, "spec": spec})
    try:
        assert made["spec"].get("extendedResourceName") == DONGLE
        found = attention(fleet(cluster.kubeconfig("admin"), "-l", nodes.selector, "--json", status=4))
    finally:
        cluster.admin.delete(f"{path}/{name}")
    assert list(found) == [None]
    reasons, message = found[None]
    assert reasons == ["DeviceClass"]
    assert name in message


def test_without_the_right_to_list_nodes_the_error_names_it(cluster: Cluster) -> None:
    joe = cluster.kubeconfig("joe", credentials="certificate")
    error = fleet(joe, status=3).stderr
    assert 'the identity "joe" may not list nodes (HTTP 403): it needs a role with the verb "list" on "nodes"' in error
    stranger = cluster.kubeconfig("stranger", token="of-another-cluster")
    assert "Does kubectl work with the same kubeconfig?" in fleet(stranger, status=3).stderr


@pytest.mark.parametrize(
    ("selector", "status", "message"),
    [("pool in", 1, "unable to parse requirement"), ("tests.example/fleet=none", 1, "no Node matches -l")],
)
def test_selectors(jane: Path, selector: str, status: int, message: str) -> None:
    assert message in fleet(jane, "-l", selector, status=status).stderr
