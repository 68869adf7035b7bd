"""Why something waits, and for how long: in the same words in `status`, its JSON, the journal and a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from capacityd.cli.output.plan import print_plan
from capacityd.linux.systemd import EntryKind
from capacityd.model.errors import NodeConflict, NodeRejected
from capacityd.model.plan import Action, Plan, Write
from capacityd.model.reading import Quantity
from capacityd.model.waits import Wait, WaitReason
from tests.unit.reconcile.doubles import EPOCH, FOUR, UNKNOWN, A
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


def restart_kubelet(worker: Worker) -> None:
    worker.beat(900.0)
    worker.kubelet_started_at = EPOCH + 999.0
    worker.make_pass(1000.0, "boot", a=UNKNOWN)


def write(worker: Worker) -> None:
    worker.beat(1000.0)
    worker.make_pass(1000.0, "boot", a=FOUR)


def conflict(worker: Worker) -> None:
    worker.node.errors = [None, NodeConflict("a guard")] * 6
    worker.make_pass(1000.0, "boot", a=FOUR)


def start_later(worker: Worker) -> None:
    worker.settings = replace(worker.settings, start_jitter=120.0)
    worker.make_pass(1000.0, "boot", a=FOUR)


@dataclass(frozen=True)
class Case:
    """A wait, and where it is reported beside `status`."""

    history: Callable[[Worker], None]
    name: str
    text: str
    logged: EntryKind | None = None
    planned: bool = False


CASES = {
    WaitReason.LOWER_AFTER: Case(
        lower, A, "held back for 30 s more, in case it comes back (lower_after)", EntryKind.HELD, planned=True
    ),
    WaitReason.RATE_LIMIT: Case(
        change_often,
        A,
        "held back for 59 s more, because it keeps changing (rate limit)",
        EntryKind.HELD,
        planned=True,
    ),
    WaitReason.DENIED: Case(be_denied, A, "tried again in 60 s (denied)", EntryKind.DENIED),
    WaitReason.UNKNOWN: Case(be_unknown, A, "read again in 60 s (unknown)", EntryKind.UNKNOWN),
    WaitReason.KUBELET: Case(restart_kubelet, "", "the Node is read again in 1 s, because the kubelet has restarted"),
    WaitReason.VERIFICATION: Case(write, "", "the Node is read again in 15 s, to verify what is allocatable"),
    WaitReason.CONFLICT: Case(conflict, "", "the Node is read again in 60 s, because another writer came in between"),
    WaitReason.START_JITTER: Case(start_later, "", "the Node is first read in 2 min (start_jitter)"),
}


def test_each_reason_has_a_case() -> None:
    assert {*CASES} == {*WaitReason}


@pytest.mark.parametrize("reason", CASES)
def test_the_words_are_the_same_everywhere(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: WaitReason
) -> None:
    monkeypatch.setattr("random.uniform", lambda _, longest: longest)
    case = CASES[reason]
    case.history(worker)
    (wait,) = (wait for wait in worker.status.waits if wait.reason is reason)
    assert (wait.name, wait.text(worker.uptime)) == (case.name, case.text)
    assert worker.result.start_in == (120.0 if reason is WaitReason.START_JITTER else None)
    assert worker.result.start_in or worker.result.requeue_after == pytest.approx(wait.until - worker.uptime)
    assert in_status(worker, wait, capsys) == case.text
    assert in_json(worker, wait, capsys) == case.text
    messages = {entry.kind: entry.message for entry in worker.entries if case.text in entry.message}
    assert {*messages} == ({case.logged} if case.logged else set())
    assert all(message.endswith((f"; {case.text}", f": {case.text}")) for message in messages.values())
    held = [change for change in worker.status.changes if change.action is Action.HOLD]
    assert [change.name for change in held] == [A] * case.planned
    assert all(change.reason == f"the reading changed; {case.text}" for change in held)
    print_plan(Plan("n1", worker.status.changes, Write((), {})), {})
    assert (case.text in capsys.readouterr().out) is case.planned


def test_a_limit_of_the_condition_is_no_resources(worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    configure_often(worker)
    (wait,) = worker.status.waits
    text = "held back for 59 s more, because it keeps changing (rate limit)"
    assert (wait.reason, wait.name, wait.text(worker.uptime)) == (WaitReason.RATE_LIMIT, "", text)
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
    """What `status` prints of a wait: in the last column of its table, or in a line of its own."""
    worker.run_status()
    lines = capsys.readouterr().out.splitlines()
    if wait.holds_change:
        (row,) = (line for line in lines if line.startswith(f"{wait.name} "))
        return row.split("  ")[-1].strip()
    start = f"{wait.name}: " if wait.name else ""
    (text,) = (line.removeprefix(start) for line in lines if line == start + wait.text(worker.uptime))
    return text


def in_json(worker: Worker, wait: Wait, capsys: pytest.CaptureFixture[str]) -> str:
    """The text of a wait in `status --json`, whose other fields must be those of the wait."""
    worker.run_status("--json")
    document = json.loads(capsys.readouterr().out)
    (found,) = (each for each in document["waits"] if each["reason"] == wait.reason.value)
    assert found["name"] == (wait.name or None)
    assert found["until"] == pytest.approx(EPOCH + wait.until)
    notes = {row["name"]: row["note"] for row in document["resources"]}
    assert not wait.holds_change or notes[wait.name] == found["text"]
    text: str = found["text"]
    return text
