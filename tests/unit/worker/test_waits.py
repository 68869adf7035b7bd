"""Why something waits, and for how long: the words are the same in `status`, its JSON, the journal and a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from capacityd.cli.output.plan import print_plan
from capacityd.linux.systemd import EntryKind
from capacityd.model.errors import NodeConflict, NodeRejected
from capacityd.model.plan import Action, Plan, Write
from capacityd.model.reading import Quantity
from capacityd.model.waits import Wait, WaitReason
from tests.support.nodes import node
from tests.unit.reconcile.doubles import EPOCH, FOUR, UNKNOWN, A, WithoutConditions
from tests.unit.worker.job import Worker


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


def lower(worker: Worker) -> None:
    worker.make_pass(1000.0, "boot", a=FOUR)
    worker.make_pass(1005.0, a=Quantity(3))


def change_often(worker: Worker) -> None:
    for second in range(7):
        worker.make_pass(1000.0 + second, a=Quantity(4 + second))


def configure_often(worker: Worker) -> None:
    worker.make_pass(1000.0, "boot", a=FOUR)
    for second in range(1, 8):
        worker.digest = f"configuration {second}"
        worker.make_pass(1000.0 + second, "config")


def be_denied(worker: Worker) -> None:
    worker.node.errors = [None, NodeRejected("a policy")]
    worker.make_pass(1000.0, "boot", a=FOUR)


def be_unknown(worker: Worker) -> None:
    worker.make_pass(1000.0, "boot", a=UNKNOWN)


def lose_allocatable(worker: Worker) -> None:
    worker.make_pass(985.0, "boot", a=FOUR)
    worker.node.lags = {A: "0"}
    for at in (990.0, 995.0, 1000.0):
        worker.make_pass(at, "boot", a=FOUR)


def lose_the_condition(worker: Worker) -> None:
    worker.node = WithoutConditions()
    worker.make_pass(1000.0, "boot", a=FOUR)


def meet_another_agent(worker: Worker) -> None:
    worker.make_pass(990.0, "boot", a=FOUR)
    worker.node.document = node({A: "2"}, {A: 2})
    worker.make_pass(1000.0, "boot", a=FOUR)


def expire(worker: Worker) -> None:
    worker.make_pass(1000.0, "boot", a=Quantity(4, valid_for=30.0))


def lose_the_checkpoint(worker: Worker) -> None:
    worker.make_pass(990.0, "boot", a=FOUR)
    worker.device_plugins = None
    worker.node.document = node({A: "5"}, {A: 4})
    worker.make_pass(1000.0, a=FOUR)


def conflict(worker: Worker) -> None:
    worker.node.errors = [None, NodeConflict("a guard")] * 6
    worker.make_pass(1000.0, "boot", a=FOUR)


def start_later(worker: Worker) -> None:
    worker.settings = replace(worker.settings, start_jitter=120.0)
    worker.make_pass(1000.0, "boot", a=FOUR)


CASES: Mapping[WaitReason, tuple[Callable[[Worker], None], str, EntryKind | None]] = {
    WaitReason.LOWER_AFTER: (lower, "30 s", EntryKind.HELD),
    WaitReason.RATE_LIMIT: (change_often, "59 s", EntryKind.HELD),
    WaitReason.DENIED: (be_denied, "60 s", EntryKind.DENIED),
    WaitReason.UNKNOWN: (be_unknown, "60 s", EntryKind.UNKNOWN),
    WaitReason.ALLOCATABLE: (lose_allocatable, "30 s", None),
    WaitReason.NOT_STORED: (lose_the_condition, "60 s", None),
    WaitReason.OTHER_AGENT: (meet_another_agent, "70 s", None),
    WaitReason.DEVICE_PLUGINS: (lose_the_checkpoint, "60 s", None),
    WaitReason.EXPIRY: (expire, "31 s", None),
    WaitReason.CONFLICT: (conflict, "60 s", None),
    WaitReason.START_JITTER: (start_later, "2 min", None),
}
"""A history that leads to such a wait, the wait's length, and, if a resource waits, the journal entry that names it."""


@pytest.mark.parametrize("reason", WaitReason)
def test_the_words_are_the_same_everywhere(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: WaitReason
) -> None:
    monkeypatch.setattr("random.uniform", lambda _, longest: longest)
    history, length, kind = CASES[reason]
    history(worker)
    (wait,) = (wait for wait in worker.status.waits if wait.reason is reason)
    text = wait.text(worker.uptime)
    assert (wait.name, f" {length}" in text) == (A if kind or reason is WaitReason.EXPIRY else "", True)
    assert worker.result.start_in == (120.0 if reason is WaitReason.START_JITTER else None)
    assert worker.result.start_in or worker.result.requeue_after == pytest.approx(wait.until - worker.uptime)
    assert in_status(worker, wait, capsys) == in_json(worker, wait, capsys) == text
    messages = {entry.kind: entry.message for entry in worker.entries if text in entry.message}
    assert {*messages} == ({kind} if kind else set())
    assert all(message.endswith((f"; {text}", f": {text}")) for message in messages.values())
    held = [change for change in worker.status.changes if change.action is Action.HOLD]
    assert [change.name for change in held] == [A] * wait.holds_change
    assert all(change.reason.endswith(f"; {text}") for change in held)
    print_plan(Plan("n1", worker.status.changes, Write((), {})), {})
    assert (text in capsys.readouterr().out) is wait.holds_change


def test_a_limit_of_the_condition_is_no_resources(worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    configure_often(worker)
    (wait,) = worker.status.waits
    text = wait.text(worker.uptime)
    assert (wait.reason, wait.name) == (WaitReason.RATE_LIMIT, "")
    worker.run_status()
    assert f"\nNode condition and annotations: {text}\n" in capsys.readouterr().out
    assert in_json(worker, wait, capsys) == text
    assert worker.entries == []


def test_a_restore_that_waits_does_not_hide_why_it_is_unknown(
    worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    change_often(worker)
    worker.node.document["status"]["capacity"].clear()
    worker.make_pass(1007.0, "resync", a=UNKNOWN)
    worker.run_status()
    text = capsys.readouterr().out
    assert f"\n{A}: held back for 58 s more, because it keeps changing (rate limit)\n" in text
    assert f"! {A}: unknown: busy\n" in text


def in_status(worker: Worker, wait: Wait, capsys: pytest.CaptureFixture[str]) -> str:
    """The text of a wait in the output of `status`: from the table's last column, or from its own line."""
    worker.run_status()
    lines = capsys.readouterr().out.splitlines()
    if wait.holds_change:
        (row,) = (line for line in lines if line.startswith(f"{wait.name} "))
        return row.split("  ")[-1].strip()
    start = f"{wait.name}: " if wait.name else ""
    (text,) = (line.removeprefix(start) for line in lines if line == start + wait.text(worker.uptime))
    return text


def in_json(worker: Worker, wait: Wait, capsys: pytest.CaptureFixture[str]) -> str:
    """The text of a wait in `status --json`. The other fields there must equal those of the wait."""
    worker.run_status("--json")
    document = json.loads(capsys.readouterr().out)
    (found,) = (each for each in document["waits"] if each["reason"] == wait.reason.value)
    assert found["name"] == (wait.name or None)
    assert found["until"] == pytest.approx(EPOCH + wait.until)
    notes = {row["name"]: row["note"] for row in document["resources"]}
    assert not wait.holds_change or notes[wait.name] == found["text"]
    text: str = found["text"]
    return text
