"""What a pass leaves for `status` and the metrics, and what it tells the service."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.cli.commands.status import _resources
from capacityd.model.config import Settings
from capacityd.model.errors import NodeMissing
from capacityd.model.plan import Action, Change
from capacityd.node.documents.node import node_state
from capacityd.reconcile.memory import remembered
from capacityd.worker.pass_state import PassStatus
from tests.support.nodes import node
from tests.unit.reconcile.doubles import FOUR
from tests.unit.worker.job import Worker

A = "example.com/a"


def test_of_the_node_the_status_has_only_what_is_in_the_plan() -> None:
    document = node(capacity={A: "4", "cpu": "8"})
    document["status"]["allocatable"] = {A: "3", "cpu": "7"}
    last_pass = PassStatus(1.0, changes=(Change(A, Action.KEEP, "4", "4", "unchanged"),), read_at=1.0)
    (row,) = _resources(last_pass, remembered(node_state(document)))
    assert (row.name, row.capacity, row.allocatable) == (A, "4", "3")


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


def test_the_service_knows_that_a_worker_waits_for_its_node(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    job = "capacityd.worker.reconcile_job"
    monkeypatch.setattr(f"{job}.registration_expected", lambda *_: 60.0)
    monkeypatch.setattr(f"{job}.await_node", lambda *_: False)
    worker.node.errors = [NodeMissing("it is missing")]
    worker.make_pass(1000.0, "boot", a=FOUR)
    assert [result.awaits_node for result in worker.results] == [60.0, 0.0]


def test_the_metrics_are_of_the_active_configuration(worker: Worker, tmp_path: Path) -> None:
    """Its files may have errors since a reload that was rejected."""
    worker.settings, worker.digest = Settings(textfile=str(tmp_path / "x.prom")), "0a1b"
    worker.make_pass(1000.0, "boot", a=FOUR)
    assert 'capacityd_configuration_info{hash="0a1b"} 1.0' in (tmp_path / "x.prom").read_text()


def test_the_status_says_that_nothing_is_written(worker: Worker) -> None:
    for observe in (False, True):
        worker.settings = Settings(observe=observe)
        worker.make_pass(1000.0, "config", a=FOUR)
        assert worker.status.observe is observe
