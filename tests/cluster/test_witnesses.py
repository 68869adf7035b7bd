"""The annotation on the Node is the only record: what a forged one can do, and what a new machine takes from it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.agent import ANNOTATION, DONGLE, DONGLES, Agent, condition_of
from tests.cluster.controlplane import Cluster
from tests.cluster.service import Service

GPU, SEATS = "other.com/gpu", "example.com/seats"
UNKNOWN = f'[resources."{SEATS}"]\nfile = {{ path = "/no/such/file" }}\n'
SEATS_5 = f'[resources."{SEATS}"]\nstatic = {{ quantity = 5 }}\n'
TOOLS = '[resources."example.com/tools"]\nstatic = { quantity = 4 }\n'


def forge(cluster: Cluster, node: str, record: dict[str, int]) -> None:
    """Writes only the annotation, as everybody can who may patch Nodes."""
    body = {"metadata": {"annotations": {ANNOTATION: json.dumps(record)}}}
    cluster.admin.patch(f"/api/v1/nodes/{node}", body)


def test_a_forged_annotation_publishes_nothing(cluster: Cluster, s: Service) -> None:
    """No number of the annotation gets on the Node, except for one that the same machine has published."""
    theirs = {GPU: "8", "example.com/zero": "3"}
    cluster.set_capacity(s.node, theirs)
    s.configure(UNKNOWN + TOOLS, lower_after="0s")
    s.start()
    assert s.last_applied() == {"example.com/tools": 4}
    processors = cluster.capacity(s.node)["cpu"]
    forge(cluster, s.node, {GPU: 9, "example.com/zero": 5, "example.com/tools": 77, "cpu": 4})
    s.reload()
    capacity = cluster.capacity(s.node)
    assert {name: capacity[name] for name in theirs} == theirs, "other numbers than those of the annotation"
    assert (capacity["example.com/tools"], capacity["cpu"]) == ("4", processors)
    assert s.last_applied() == {"example.com/tools": 4}, "what is not capacityd's is given up"
    s.stop()
    assert s.cli("withdraw").returncode == 0
    assert {name: cluster.capacity(s.node).get(name) for name in theirs} == theirs
    assert s.last_applied() == {}


def test_a_new_image_on_an_old_node(cluster: Cluster, node: str, tmp_path: Path) -> None:
    """A machine that remembers nothing continues with what the annotation says."""
    old = Agent(cluster, node, tmp_path / "old")
    old.configure(DONGLES + SEATS_5)
    old.run("apply")
    new = Agent(cluster, node, tmp_path / "new")
    new.machine.pull("1-4")
    new.run("apply")
    assert cluster.capacity(node)[DONGLE] == "3"
    assert SEATS not in cluster.capacity(node), "it is no longer configured"
    purged = Agent(cluster, node, tmp_path / "purged")
    purged.configure("")
    purged.run("withdraw")  # nothing is configured: the annotation says what was published
    document = cluster.node(node)
    assert DONGLE not in document["status"]["capacity"]
    assert condition_of(document) is None
    assert ANNOTATION not in document["metadata"].get("annotations", {})


def test_a_node_that_is_registered_anew_has_no_record(cluster: Cluster, node: str, tmp_path: Path) -> None:
    """Keys of others with the very numbers that capacityd published on the Node before are not capacityd's."""
    agent = Agent(cluster, node, tmp_path / "agent")
    agent.configure(DONGLES + SEATS_5)
    agent.run("apply")
    cluster.admin.delete(f"/api/v1/nodes/{node}")
    theirs = {DONGLE: "4", SEATS: "5"}
    cluster.create_node(node, capacity=theirs)
    assert agent.run("apply", status=4).stdout.count("the same number, but not published by capacityd") == 2
    agent.run("withdraw")
    assert theirs.items() <= cluster.capacity(node).items()
