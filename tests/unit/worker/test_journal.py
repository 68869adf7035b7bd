"""What is logged about a pass. A state that lasts is logged once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd.linux.systemd import EntryKind, Priority
from capacityd.model.errors import NodeForbidden, NodeUnreachable
from capacityd.model.key import Key
from capacityd.model.node import NodeState, Stored
from capacityd.model.plan import Action, Change, Plan
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.reconcile.reconcile import Outcome
from capacityd.schema.config import Settings
from capacityd.worker import journal
from tests.support.nodes import node
from tests.unit.reconcile.doubles import ABSENT, FOUR, UNKNOWN, A, B
from tests.unit.worker.job import Worker


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


def logged(worker: Worker) -> list[tuple[EntryKind | None, Priority]]:
    """The kind and the priority of each entry that the last pass logged."""
    return [(entry.kind, entry.priority) for entry in worker.entries]


CHANGED = (EntryKind.CHANGED, Priority.NOTICE)
HELD = STARTED = (None, Priority.NOTICE)  # a held back reduction; the summary of the first pass
TROUBLE = (EntryKind.CONDITION, Priority.WARNING)
TROUBLE_ENDED = (EntryKind.CONDITION, Priority.NOTICE)


def fields(old: str, new: str, reason: str, name: str = A) -> dict[str, str]:
    """The journal fields of a change."""
    return {"RESOURCE": name, "OLD": old, "NEW": new, "REASON": reason}


def test_changes_refusals_and_held_back_reductions_are_logged(worker: Worker) -> None:
    worker.node.document = node({B: "9"})
    worker.make_pass(1000.0, "start", a=FOUR, b=FOUR)
    assert logged(worker) == [CHANGED, TROUBLE]
    changed, refused = worker.entries
    assert changed.fields == {"NODE": "n1"} | fields(old="none", new="4", reason="newly published")
    assert refused.message == f"{B}: refused: not published by capacityd; adopt = true takes it over"
    assert refused.fields == {"NODE": "n1", "RESOURCE": B, "CONDITION_REASON": "Refused"}
    for at, kinds in ((1020.0, [HELD]), (1030.0, []), (1050.0, [CHANGED]), (1060.0, [])):
        worker.make_pass(at, "devices", a=Absent("it is gone"), b=FOUR)
        assert logged(worker) == kinds
        if kinds == [HELD]:
            reason = "held back for 30 s more, in case it comes back (lower_after)"
            assert worker.entries[0].fields == fields(old="4", new="absent", reason=reason) | {"WAIT": "lower_after"}
        elif kinds:
            assert worker.entries[0].fields == {"NODE": "n1"} | fields(old="4", new="none", reason="it is gone")


def test_what_keeps_the_condition_false_is_logged_once(worker: Worker) -> None:
    worker.settings, worker.expect = Settings(lower_after=0.0), {A: 5}
    worker.node.denies = lambda patch: "a policy" if patch.capacity else ""
    worker.make_pass(1000.0, "start", a=FOUR)
    assert logged(worker) == [TROUBLE, STARTED]
    assert worker.entries[0].message == f"{A}: denied: a policy"
    worker.make_pass(1030.0, "timer", a=FOUR)
    assert worker.entries == []
    worker.node.denies = lambda _: ""
    worker.make_pass(1060.0, "timer", a=FOUR)
    assert logged(worker) == [CHANGED, TROUBLE]
    assert worker.entries[1].message == f"{A}: below expected: 4 of 5"
    worker.make_pass(1070.0, "devices", a=Quantity(3))
    assert logged(worker) == [CHANGED]


def test_a_state_that_lasts_is_logged_once(worker: Worker) -> None:
    worker.make_pass(1000.0, "start", a=FOUR)
    worker.readings = {}  # nothing is configured any more
    for at, kinds in ((1100.0, [TROUBLE]), (1200.0, [])):
        worker.make_pass(at, "configuration")
        assert logged(worker) == kinds


def test_an_event_that_could_not_be_created_and_a_withheld_write_are_logged(worker: Worker) -> None:
    def report(*_: object) -> None:
        raise NodeForbidden("no events")

    worker.settings = Settings(observe=True)
    worker.make_pass(1000.0, "start", a=FOUR)
    assert worker.status.observe
    (started,) = worker.entries
    assert started.message == "Node n1: 0 of 1 resources published, 1 not written (observe = true)"
    worker.settings = Settings()
    worker.node.report = report  # type: ignore[method-assign, assignment]
    worker.make_pass(1010.0, "configuration", a=FOUR)
    assert {kind for kind, _ in logged(worker)} == {EntryKind.CHANGED, None}, "None: the Event was not created"


def test_an_unknown_reading_is_logged_once_and_when_it_ends_even_without_a_node(worker: Worker) -> None:
    worker.node.errors = [NodeUnreachable("nobody there")]
    worker.make_pass(1000.0, "start", a=UNKNOWN)
    assert logged(worker) == [TROUBLE]
    assert worker.entries[0].fields == {"RESOURCE": A, "CAUSE": "unreadable", "REASON": "busy"}
    for at, reading, kinds in (
        (1060.0, UNKNOWN, [STARTED]),
        (1180.0, Unknown("for another reason"), []),
        (1200.0, ABSENT, [TROUBLE_ENDED]),
        (1210.0, UNKNOWN, [TROUBLE]),
        (1220.0, FOUR, [CHANGED, TROUBLE_ENDED]),
        (1230.0, Quantity(5), [CHANGED]),
    ):
        worker.make_pass(at, "devices", a=reading)
        assert logged(worker) == kinds, at


def test_a_first_pass_that_changes_nothing_is_one_line(worker: Worker) -> None:
    worker.node.errors = [NodeUnreachable("nobody there")]
    worker.make_pass(1000.0, "start", a=ABSENT, b=ABSENT)
    assert worker.entries == [], "the Node has not been read"
    worker.make_pass(1010.0, "timer")
    (started,) = worker.entries
    assert (started.kind, started.message) == (None, "Node n1: 0 of 2 resources published, 2 absent")
    worker.make_pass(1020.0, "timer")
    assert worker.entries == []


def test_a_condition_that_is_not_stored_is_logged_once(worker: Worker) -> None:
    def strip(document: dict[str, Any]) -> None:
        document["status"]["conditions"] = []

    worker.node.alters = strip
    worker.make_pass(1000.0, "start", a=FOUR)
    assert logged(worker) == [CHANGED, TROUBLE]
    worker.make_pass(1010.0, "timer", a=FOUR)
    assert worker.entries == []


def test_without_a_journal_entries_go_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inherited JOURNAL_STREAM does not mean that standard error is connected to the journal."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345678")
    journal.log_entries([journal.JournalEntry(EntryKind.CHANGED, Priority.NOTICE, "a: 3 → 4", {"RESOURCE": "a"})])
    assert capfd.readouterr().err == "capacityd: a: 3 → 4\n"


def test_a_command_that_has_written_is_logged_with_who_ran_it() -> None:
    change = Change(Key(A), Action.REMOVE, Stored("4", "4"), desired=None, published=None, reason="withdrawn")
    outcome = Outcome(Plan(NodeState("n1"), (change,), patch=None, published={}), NodeState("n1"), is_written=True)
    (entry,) = journal.command_entries(outcome, "withdraw", "ada")
    assert (entry.kind, entry.message) == (
        EntryKind.CHANGED,
        f"{A}: 4 → none (withdrawn): ada ran capacityd withdraw",
    )
    command = {"COMMAND": "withdraw", "USER": "ada"}
    assert entry.fields == {"NODE": "n1"} | fields(old="4", new="none", reason="withdrawn") | command
    assert [*journal.command_entries(replace(outcome, is_written=False), "apply", "ada")] == []
