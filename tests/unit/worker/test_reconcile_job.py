"""What a pass saves for `status` and the metrics, and what it reports to the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli.output.resource_rows import resource_rows
from capacityd.model.errors import NodeMissing, NodeUnreachable
from capacityd.model.fingerprint import fingerprint
from capacityd.model.node import CONDITION, NodeState
from capacityd.model.plan import Action, Change
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.schema.config import Settings
from capacityd.worker.pass_state import OtherWriter, PassStatus
from tests.support.nodes import node
from tests.unit.reconcile.doubles import FOUR, UNKNOWN, MemoryNode
from tests.unit.worker.job import Worker

A, PLUGIN, THEIRS = "example.com/a", "nvidia.com/gpu", "example.com/theirs"


def test_of_the_node_the_status_has_only_what_is_in_the_plan() -> None:
    document = node(capacity={A: "4", "cpu": "8"})
    document["status"]["allocatable"] = {A: "3", "cpu": "7"}
    last_pass = PassStatus(1.0, changes=(Change(A, Action.KEEP, "4", "4", "unchanged"),), read_at=1.0)
    (row,) = resource_rows(last_pass, node_state(document), now=0.0, uptime=0.0)
    assert (row.name, row.capacity, row.allocatable) == (A, "4", "3")


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


class Altering(MemoryNode):
    """A policy sets these fields of capacityd's condition; None: it keeps the old conditions."""

    def __init__(self, made: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.document = node(condition="True")
        self.made = made

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        before = self.document["status"]["conditions"]
        super().write(patch)
        if self.made is None:
            self.document["status"]["conditions"] = before
        for condition in [c for c in self.document["status"]["conditions"] if c["type"] == CONDITION]:
            condition.update(self.made or {})
        return self.state()


@pytest.mark.parametrize(
    ("made", "altered"),
    [({"type": "Another"}, True), ({"status": "True"}, True), (None, True), ({}, False)],
    ids=["it drops it", "it sets it to True", "it keeps the old one", "it does nothing"],
)
def test_a_condition_that_a_policy_changes_is_not_stored(
    worker: Worker, made: Mapping[str, Any] | None, altered: bool
) -> None:
    worker.node = Altering(made)
    worker.make_pass(1000.0, "boot", a=UNKNOWN)
    assert worker.status.condition_not_stored is altered


def test_a_condition_that_a_policy_changes_in_a_write_of_numbers_is_not_stored(worker: Worker) -> None:
    worker.make_pass(1000.0, "boot", a=FOUR)
    document = worker.node.document
    worker.node = Altering({"status": "Unknown"})
    worker.node.document = document
    worker.make_pass(1100.0, "devices", a=Quantity(5))
    assert worker.node.document["status"]["capacity"] == {A: "5"}
    assert worker.status.condition_not_stored


def test_the_condition_is_not_stored_either_while_the_next_attempt_is_held_back(worker: Worker) -> None:
    worker.node = Altering({"type": "Another"})
    for second in range(8):
        worker.make_pass(1000.0 + second, "resync", a=UNKNOWN)
    assert worker.node.writes == 6
    assert worker.status.condition_not_stored


@pytest.mark.parametrize(
    ("settings", "readings"),
    [(Settings(observe=True), {"a": FOUR}), (Settings(condition=False), {"a": FOUR}), (Settings(), {})],
)
def test_a_condition_that_is_not_to_be_written_is_not_missed(
    worker: Worker, settings: Settings, readings: Mapping[str, Reading]
) -> None:
    worker.settings = settings
    worker.make_pass(1000.0, "boot", **readings)
    assert not worker.status.condition_not_stored
    assert worker.status.observe is settings.observe


def test_resources_of_other_writers_have_their_writer_in_the_status(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.node.document = node({"cpu": "2", "hugepages-2Mi": "0", PLUGIN: "3", THEIRS: "7"})
    monkeypatch.setattr("capacityd.worker.reconcile_job.device_plugin_names", lambda _: {PLUGIN})
    worker.make_pass(1000.0, "boot", a=FOUR)
    assert worker.status.others == {PLUGIN: OtherWriter.DEVICE_PLUGIN, THEIRS: OtherWriter.UNKNOWN}


def test_the_service_gets_the_watchers_hash_of_the_node(worker: Worker) -> None:
    """The hash of the Node is the watcher's, whether the pass reads the Node or writes it; "" without a Node."""
    result = worker.make_pass(1000.0, "boot", a=FOUR)
    assert (result.node, result.written) == (fingerprint(worker.node.document), True)
    assert worker.make_pass(1010.0, "node").node == result.node
    assert not worker.result.written
    worker.node.document["status"]["capacity"][A] = "0"
    assert fingerprint(worker.node.document) != result.node
    worker.node.errors = [NodeMissing("the API server", "n1")]
    assert worker.make_pass(1020.0, "node").node == ""
    worker.node.errors = [NodeUnreachable("nobody there")]
    assert worker.make_pass(1030.0, "node").node is None


def test_a_pass_says_whether_a_reading_has_changed(worker: Worker) -> None:
    readings: tuple[Reading, ...] = (FOUR, FOUR, Quantity(5), Unknown("x"), Unknown("y"), Absent("x"), Absent("y"))
    changes = [worker.make_pass(1000.0 + at, "mounts", a=reading).changed for at, reading in enumerate(readings)]
    assert changes == [True, False, True, True, False, True, False]


def test_a_state_that_cannot_be_saved_or_read_changes_nothing(worker: Worker) -> None:
    (worker.folder / "state.json").mkdir()
    worker.settings = Settings(lower_after=0.0)
    for number in (4, 3, 5):
        assert worker.make_pass(1000.0 + number, "boot", a=Quantity(number)).failure is None
        assert worker.node.document["status"]["capacity"] == {A: str(number)}


def test_the_metrics_are_of_the_active_configuration(worker: Worker, tmp_path: Path) -> None:
    """Since a rejected reload, the configuration files may contain errors."""
    worker.settings, worker.digest = Settings(textfile=str(tmp_path / "x.prom")), "0a1b"
    worker.make_pass(1000.0, "boot", a=FOUR)
    assert 'capacityd_configuration_info{capacityd_node="n1",hash="0a1b"} 1.0' in (tmp_path / "x.prom").read_text()
