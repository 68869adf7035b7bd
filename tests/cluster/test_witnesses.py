"""The limits of the annotation: capacityd owns a key only if the annotation and the machine record both list it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.agent import ANNOTATION, DONGLE, DONGLES, Agent, condition_of
from tests.cluster.controlplane import Cluster
from tests.cluster.service import Service

GPU, SEATS = "other.com/gpu", "example.com/seats"
UNKNOWN = f'[resources."{SEATS}"]\nfile = {{ path = "/no/such/file" }}\n'


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
