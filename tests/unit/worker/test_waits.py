"""The text about a wait (its reason and length) is the same in `status`, its JSON, the journal and a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli.output.plan import print_plan
from capacityd.model.key import Key
from capacityd.model.node import NodeState
from capacityd.model.plan import Action, Plan
from capacityd.model.reading import Quantity
from capacityd.model.waits import Wait, WaitReason
from tests.support.nodes import node
from tests.unit.reconcile.doubles import EPOCH, FOUR, UNKNOWN, A
from tests.unit.worker.job import Worker


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


def lower(worker: Worker) -> None:
    worker.make_pass(1000.0, "start", a=FOUR)
    worker.make_pass(1005.0, a=Quantity(3))


def change_often(worker: Worker) -> None:
    for second in range(7):
        worker.make_pass(1000.0 + second, a=Quantity(4 + second))


def be_denied(worker: Worker) -> None:
    worker.node.denies = lambda patch: "a policy" if patch.capacity else ""
    worker.make_pass(1000.0, "start", a=FOUR)


def be_unknown(worker: Worker) -> None:
    worker.make_pass(1000.0, "start", a=UNKNOWN)


def lose_the_condition(worker: Worker) -> None:
    def strip(document: dict[str, Any]) -> None:
        document["status"]["conditions"] = []

    worker.node.alters = strip
    worker.make_pass(1000.0, "start", a=FOUR)


def be_overwritten(worker: Worker) -> None:
    worker.make_pass(960.0, "start", a=FOUR)
    for at in (980.0, 990.0, 1000.0):
        worker.node.set(A, "9", "9")
        worker.make_pass(at, "node", a=FOUR)


def expire(worker: Worker) -> None:
    worker.make_pass(1000.0, "start", a=Quantity(4, valid_for=30.0))


def lose_the_checkpoint(worker: Worker) -> None:
    worker.make_pass(990.0, "start", a=FOUR)
    worker.device_plugins = None
    worker.node.document = node({A: "5"}, annotated={A: 4})
    worker.make_pass(1000.0, a=FOUR)


def start_later(worker: Worker) -> None:
    worker.settings = replace(worker.settings, start_jitter=120.0)
    worker.make_pass(1000.0, "start", a=FOUR)


CASES: Mapping[str, tuple[Callable[[Worker], None], WaitReason, str, bool, bool]] = {
    "lower_after": (lower, WaitReason.LOWER_AFTER, "30 s", True, True),
    "rate limit": (change_often, WaitReason.RATE_LIMIT, "59 s", True, True),
    "denied": (be_denied, WaitReason.DENIED, "60 s", True, False),
    "condition": (lose_the_condition, WaitReason.DENIED, "60 s", False, False),
    "unknown": (be_unknown, WaitReason.READ, "60 s", True, False),
    "device plugins": (lose_the_checkpoint, WaitReason.READ, "60 s", False, False),
    "expiry": (expire, WaitReason.READ, "31 s", True, False),
    "overwritten": (be_overwritten, WaitReason.READ, "90 s", False, False),
    "start": (start_later, WaitReason.START_JITTER, "2 min", False, False),
}
"""Passes that lead to a wait, the wait's reason and length, whether it is a resource's, and whether it is logged."""


@pytest.mark.parametrize("case", CASES)
def test_the_text_of_a_wait_is_the_same_everywhere(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    monkeypatch.setattr("random.uniform", lambda _, longest: longest)
    make_passes, reason, length, is_of_resource, is_logged = CASES[case]
    make_passes(worker)
    (wait,) = (wait for wait in worker.status.waits if wait.reason is reason)
    text = wait.text(worker.uptime)
    assert wait.key == (Key(A) if is_of_resource else None)
    assert f" {length}" in text
    if reason is WaitReason.START_JITTER:
        assert worker.result.start_in == 120.0
    else:
        assert worker.result.requeue_after == pytest.approx(wait.until - worker.uptime)
    assert in_status(worker, wait, capsys) == in_json(worker, wait, capsys) == text
    assert any(text in entry.message for entry in worker.entries) == is_logged
    held = [change for change in worker.status.changes if change.action is Action.HOLD]
    assert [change.key for change in held] == ([Key(A)] if wait.holds_change else [])
    assert all(change.reason.endswith(f"; {text}") for change in held)
    print_plan(Plan(NodeState("n1"), worker.status.changes, patch=None, published={}), {})
    assert (text in capsys.readouterr().out) is wait.holds_change


def test_a_rate_limit_that_delays_no_resource_is_shown_for_the_node(
    worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    change_often(worker)
    worker.make_pass(1066.0, a=Quantity(10))
    worker.digest = "another"
    worker.make_pass(1067.0, "timer")
    (wait,) = worker.status.waits
    assert (wait.reason, wait.key) == (WaitReason.RATE_LIMIT, None)
    worker.run_status()
    assert f"\nNode: {wait.text(worker.uptime)}\n" in capsys.readouterr().out


def in_status(worker: Worker, wait: Wait, capsys: pytest.CaptureFixture[str]) -> str:
    """The text of a wait in the output of `status`."""
    worker.run_status()
    lines = capsys.readouterr().out.splitlines()
    start = f"{wait.key or 'Node'}: "
    (text,) = (line.removeprefix(start) for line in lines if line == start + wait.text(worker.uptime))
    return text


def in_json(worker: Worker, wait: Wait, capsys: pytest.CaptureFixture[str]) -> str:
    """The text of a wait in `status --json`. The wait's other fields there are checked too."""
    worker.run_status("--json")
    document = json.loads(capsys.readouterr().out)
    (found,) = (each for each in document["waits"] if each["reason"] == wait.reason.value)
    assert found["name"] == (wait.key.name if wait.key else None)
    assert found["until"] == pytest.approx(EPOCH + wait.until)
    text: str = found["text"]
    return text
