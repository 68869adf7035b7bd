"""What a pass saves for `status` and the metrics, and what it reports to the service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli.output.status_report import resource_rows
from capacityd.model.errors import NodeMissing, NodeUnreachable
from capacityd.model.fingerprint import fingerprint
from capacityd.model.node import CONDITION, ConditionReason
from capacityd.model.plan import Trouble
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.schema.config import Settings
from tests.support.nodes import node
from tests.unit.reconcile.doubles import FOUR, UNKNOWN, A, B
from tests.unit.worker.job import IDENTITY, Worker


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


def test_the_status_shows_what_the_node_stores_after_the_pass(worker: Worker) -> None:
    worker.node.document = node({A: "2", "cpu": "8"}, annotated={A: 2})
    worker.make_pass(1000.0, "start", a=FOUR)
    (row,) = resource_rows(worker.status)
    assert (row.name, row.reading, row.published, row.capacity, row.allocatable) == (A, 4, 4, "4", "4")
    assert (worker.status.node, worker.status.condition and worker.status.condition.reason) == ("n1", "Published")


@pytest.mark.parametrize(("reason", "is_known"), [("devices", True), ("configuration", False), ("start", False)])
def test_a_reload_or_new_credentials_identify_the_node_anew(worker: Worker, reason: str, is_known: bool) -> None:
    worker.make_pass(1000.0, "start", a=FOUR)
    worker.make_pass(1010.0, reason)
    assert worker.known_identity == (IDENTITY if is_known else None)


def test_a_pass_that_fails_keeps_what_is_known_of_the_node(worker: Worker) -> None:
    worker.node.document = node({B: "9"})
    worker.make_pass(1000.0, "start", a=FOUR, b=FOUR)
    before = worker.status
    worker.node.errors = [NodeUnreachable("nobody there")]
    worker.make_pass(1010.0, "devices", a=UNKNOWN, b=FOUR)
    after = worker.status
    assert (after.error, after.readings[A]) == ("nobody there", UNKNOWN)
    assert (after.changes, after.troubles, after.read_at) == (before.changes, before.troubles, before.read_at)
    assert [trouble.reason for trouble in after.troubles] == [ConditionReason.REFUSED]


DENIED = Trouble(ConditionReason.DENIED, f"the condition {CONDITION} is denied: the condition is stored differently")


@pytest.mark.parametrize("altered", [{"type": "Another"}, {"status": "Unknown"}, {}])
def test_a_condition_that_a_webhook_alters_is_denied(worker: Worker, altered: Mapping[str, Any]) -> None:
    def alter(document: dict[str, Any]) -> None:
        (ours,) = (c for c in document["status"]["conditions"] if c["type"] == CONDITION)
        ours.update(altered)

    worker.node.alters = alter
    worker.make_pass(1000.0, "start", a=UNKNOWN)
    assert (DENIED in worker.status.troubles) is bool(altered)
    worker.make_pass(1010.0, "timer", a=UNKNOWN)
    assert (DENIED in worker.status.troubles) is bool(altered)
    assert worker.node.attempts == 1


def test_the_service_gets_the_watchers_hash_of_the_node(worker: Worker) -> None:
    """A pass reports the hash that the watcher computes of the same Node: "" without a Node, None if not read."""
    result = worker.make_pass(1000.0, "start", a=FOUR)
    assert result.node_fingerprint == fingerprint(worker.node.document)
    assert worker.make_pass(1010.0, "node").node_fingerprint == result.node_fingerprint
    worker.node.document["status"]["capacity"][A] = "0"
    assert fingerprint(worker.node.document) != result.node_fingerprint
    worker.node.errors = [NodeMissing("the API server", "n1")]
    assert worker.make_pass(1020.0, "node").node_fingerprint == ""
    worker.node.errors = [NodeUnreachable("nobody there")]
    assert worker.make_pass(1030.0, "node").node_fingerprint is None


def test_a_pass_that_finds_nothing_new_sends_nothing(worker: Worker) -> None:
    """The Node must be unchanged since the last pass, and the reason of this pass must concern only readings."""
    worker.node_unchanged = True
    worker.make_pass(1000.0, "start", a=FOUR)
    reads = worker.node.reads
    for reason in ("devices", "file", "kernel"):
        result = worker.make_pass(1010.0, reason)
        assert (result.error, result.node_fingerprint) == ("", None)
    assert worker.node.reads == reads
    for reason in ("start", "configuration", "node", "resume", "timer"):
        worker.make_pass(1020.0, "devices", reason)
        reads += 1
        assert worker.node.reads == reads, reason
    worker.node_unchanged = False
    worker.make_pass(1030.0, "devices")
    assert worker.node.reads == reads + 1
    worker.node_unchanged = True
    worker.node.errors = [NodeUnreachable("nobody there")]
    worker.make_pass(1040.0, "node")
    worker.make_pass(1050.0, "devices")
    assert worker.node.reads == reads + 3, "the pass before could not read the Node, so this pass reads it"


def test_start_jitter_delays_the_first_pass_only(worker: Worker) -> None:
    worker.settings = Settings(start_jitter=120.0)
    first = worker.make_pass(1000.0, "start", a=FOUR)
    assert first.start_in is not None
    assert worker.node.reads == 0
    assert worker.make_pass(1120.0, "start", "devices", a=FOUR).start_in is None
    assert worker.node.numbers == {A: "4"}


def test_a_pass_says_whether_a_reading_has_changed(worker: Worker) -> None:
    readings: tuple[Reading, ...] = (FOUR, FOUR, Quantity(5), Unknown("x"), Unknown("y"), Absent("x"), Absent("y"))
    changes = [worker.make_pass(1000.0 + at, "kernel", a=reading).changed for at, reading in enumerate(readings)]
    assert changes == [True, False, True, True, False, True, False]


@pytest.mark.parametrize("reason", ["start", "configuration"])
def test_a_start_and_a_reload_reset_the_limit_of_writes(worker: Worker, reason: str) -> None:
    for number in range(1, 8):
        worker.make_pass(1000.0 + number, "devices", a=Quantity(number))
    assert worker.node.numbers == {A: "6"}, "the limit delays the seventh write"
    worker.make_pass(1010.0, reason, a=Quantity(9))
    assert worker.node.numbers == {A: "9"}


@pytest.mark.parametrize(("uptime", "seconds"), [(100.0, 60.0), (1000.0, 30.0)])  # 30: lower_after
def test_after_a_boot_a_reduction_waits_longer(worker: Worker, uptime: float, seconds: float) -> None:
    worker.make_pass(uptime, "start", a=FOUR)
    worker.make_pass(uptime + 1, "devices", a=Quantity(3))
    (wait,) = worker.status.waits
    assert wait.until == uptime + 1 + seconds


def test_a_state_that_cannot_be_saved_or_read_changes_nothing(worker: Worker) -> None:
    (worker.folder / "state.json").mkdir()  # a folder can be neither read nor replaced as a file
    worker.settings = Settings(lower_after=0.0)
    for number in (4, 3, 5):
        assert worker.make_pass(1000.0 + number, "start", a=Quantity(number)).error == ""
        assert worker.node.document["status"]["capacity"] == {A: str(number)}


def test_the_metrics_are_of_the_active_configuration(worker: Worker, tmp_path: Path) -> None:
    """After a rejected reload, the files contain another configuration than the active one."""
    worker.settings, worker.digest = Settings(textfile=str(tmp_path / "x.prom")), "0a1b"
    worker.make_pass(1000.0, "start", a=FOUR)
    assert 'capacityd_configuration_info{capacityd_node="n1",hash="0a1b"} 1.0' in (tmp_path / "x.prom").read_text()
