"""The limits of the annotation: capacityd owns a key only if the annotation and the machine record both list it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cluster.agent import ANNOTATION, DONGLE, DONGLES, Agent, condition_of
from tests.cluster.controlplane import BASE_CAPACITY, Cluster
from tests.cluster.service import Service

GPU, SEATS = "other.com/gpu", "example.com/seats"
UNKNOWN = f'[resources."{SEATS}"]\nfile = {{ path = "/no/such/file" }}\n'
SEATS_5 = f'[resources."{SEATS}"]\nstatic = {{ quantity = 5 }}\n'


def forge(cluster: Cluster, node: str, record: dict[str, int]) -> None:
    """Writes only the annotation, as everybody can who may patch Nodes."""
    body = {"metadata": {"annotations": {ANNOTATION: json.dumps(record)}}}
    cluster.admin.patch(f"/api/v1/nodes/{node}", body)


def test_a_forged_record_makes_nothing_ours(cluster: Cluster, s: Service) -> None:
    """capacityd keeps the keys of others, and publishes no forged number for an unknown resource."""
    cluster.set_capacity(s.node, {GPU: "8", "example.com/zero": "0"})
    tools = '[resources."example.com/tools"]\nstatic = { quantity = 4 }\n'
    s.configure(UNKNOWN + tools, lower_after="0s")
    cluster.set_capacity(s.node, {"example.com/tools": "77"})
    s.start()
    assert s.last_applied() == {}
    forged = {GPU: 8, "example.com/zero": 5, "example.com/tools": 77, SEATS: 123456, "cpu": 4}
    processors = cluster.capacity(s.node)["cpu"]
    forge(cluster, s.node, forged)
    for _ in range(3):
        s.reload()
    capacity = cluster.capacity(s.node)
    assert {name: capacity.get(name) for name in forged} == {
        GPU: "8",
        "example.com/zero": "0",
        "example.com/tools": "77",
        SEATS: None,
        "cpu": processors,
    }
    assert s.condition()["status"] == "False"
    assert GPU in s.condition()["message"]
    assert "withdraw" not in s.condition()["message"], "it would be advice to remove another writer's key"
    assert f"! {GPU}: refused: no longer configured, but this machine has no record" in s.cli("status").stdout
    assert len([message for message in s.events() if GPU in message]) == 1
    s.stop()
    withdrawn = s.cli("withdraw")
    left = {GPU: "8", "example.com/zero": "0", "example.com/tools": "77"}
    assert {name: cluster.capacity(s.node).get(name) for name in left} == left
    assert withdrawn.returncode == 4
    assert "kept keys that another program may own: example.com/tools, " in withdrawn.stderr
    assert set(s.last_applied()) == {*left}, "so that they can still be withdrawn"


def test_a_new_image_on_an_old_node(cluster: Cluster, node: str, tmp_path: Path) -> None:
    """The local record is lost. Configured resources stay published; the others stay until they are withdrawn."""
    old = Agent(cluster, node, tmp_path / "old")
    seats = f'[resources."{SEATS}"]\nstatic = {{ quantity = 5 }}\n'
    old.configure(DONGLES + seats)
    old.run("apply")
    new = Agent(cluster, node, tmp_path / "new")
    new.machine.pull("1-4")
    assert "this machine has no record of publishing it" in new.run("apply", status=4).stdout
    assert (cluster.capacity(node)[DONGLE], cluster.capacity(node)[SEATS]) == ("3", "5")
    assert json.loads((new.state_directory / "published.json").read_text())["published"] == {DONGLE: 3}
    new.run("withdraw", status=4)
    assert cluster.capacity(node)[SEATS] == "5", "it may be another program's"
    assert f"not in this machine's record, removed anyway: {SEATS}" in new.run("withdraw", "--all-annotated").stderr
    assert {DONGLE, SEATS}.isdisjoint(cluster.capacity(node))
    old.run("apply")
    purged = Agent(cluster, node, tmp_path / "purged")
    purged.configure("")
    purged.run("withdraw")  # nothing is configured: the annotation says what was published
    document = cluster.node(node)
    assert {DONGLE, SEATS}.isdisjoint(document["status"]["capacity"])
    assert condition_of(document) is None
    assert ANNOTATION not in document["metadata"].get("annotations", {})


WAYS = ("registered anew", "an image of another machine", "a record without a uid")
"""How a machine gets a record that is not about its Node. Early versions stored no uid."""


def with_record_of_another_node(cluster: Cluster, node: str, folder: Path, way: str) -> Agent:
    """A machine whose record lists 4 dongles and 5 seats that were published to another Node than its own."""
    first = Agent(cluster, node if way == "registered anew" else cluster.create_node(), folder / "first")
    first.configure(DONGLES + SEATS_5)
    first.run("apply")
    if way == "registered anew":
        cluster.admin.delete(f"/api/v1/nodes/{node}")
        cluster.create_node(node)
        return first
    agent = Agent(cluster, node, folder / "agent")
    shutil.copytree(first.state_directory, agent.state_directory)
    if way == "a record without a uid":
        record = agent.state_directory / "published.json"
        record.write_text(
            json.dumps({k: v for k, v in json.loads(record.read_text()).items() if k not in ("node_uid", "checksum")})
        )
    agent.configure(DONGLES + SEATS_5)
    return agent


@pytest.mark.parametrize("way", WAYS)
def test_a_record_of_another_node_makes_nothing_ours(cluster: Cluster, node: str, tmp_path: Path, way: str) -> None:
    """Another writer's keys have the quantities that this machine has published elsewhere."""
    agent = with_record_of_another_node(cluster, node, tmp_path, way)
    theirs = {DONGLE: "4", SEATS: "5"}
    cluster.set_capacity(node, theirs)
    record = agent.state_directory / "published.json"
    before = record.read_bytes()

    def untouched(command: str, status: int) -> str:
        record.write_bytes(before)
        output = agent.run(command, status=status)
        document = cluster.node(node)
        assert document["status"]["capacity"] == {**BASE_CAPACITY, **theirs}, command
        assert ANNOTATION not in document["metadata"].get("annotations", {}), command
        return output.stdout

    assert untouched("apply", status=4).count("the same value, but not published by capacityd") == 2
    untouched("withdraw", status=0)
    agent.configure(SEATS_5.replace("5", "6"))  # dongles are no longer configured
    assert "not published by capacityd; adopt = true" in untouched("apply", status=4)
    agent.machine.pull("1-4")
    agent.configure(DONGLES + SEATS_5)
    assert untouched("apply", status=4).count("not published by capacityd; adopt = true") == 2
    for port in ("1-1", "1-2", "1-3"):
        agent.machine.pull(port)
    agent.configure(DONGLES)
    untouched("apply", status=0)  # absent
    agent.configure("adopt = true\n".join([SEATS_5.replace("5", "6"), ""]))
    agent.run("apply")
    assert cluster.capacity(node) == {**BASE_CAPACITY, DONGLE: "4", SEATS: "6"}, "only what is adopted changes"
    agent.run("withdraw")
    assert cluster.capacity(node) == {**BASE_CAPACITY, DONGLE: "4"}


@pytest.mark.parametrize("way", WAYS)
def test_with_a_record_of_another_node_the_annotation_decides(
    cluster: Cluster, node: str, tmp_path: Path, way: str
) -> None:
    """As with a new image, configured resources are updated. `withdraw` removes only what the record confirms."""
    agent = with_record_of_another_node(cluster, node, tmp_path, way)
    cluster.set_capacity(node, {DONGLE: "4", SEATS: "5"})
    forge(cluster, node, {DONGLE: 4, SEATS: 5})
    first = (agent.state_directory / "published.json").read_bytes()
    withdrawn = agent.run("withdraw", status=4)
    assert f"kept keys that another program may own: {DONGLE}, {SEATS}" in withdrawn.stderr
    assert cluster.capacity(node) == {**BASE_CAPACITY, DONGLE: "4", SEATS: "5"}
    (agent.state_directory / "published.json").write_bytes(first)
    agent.machine.pull("1-4")
    agent.run("apply")
    assert cluster.capacity(node) == {**BASE_CAPACITY, DONGLE: "3", SEATS: "5"}
    (agent.state_directory / "published.json").write_bytes(first)
    agent.run("withdraw", "--all-annotated")
    assert cluster.capacity(node) == BASE_CAPACITY
