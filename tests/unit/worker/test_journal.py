"""What is logged about a pass, and that it is logged once."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.linux.systemd import EntryKind, Priority
from capacityd.model.errors import NodeRejected, NodeUnauthorized, NodeUnreachable
from capacityd.model.node import CONDITION
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.schema.config import Settings
from capacityd.worker import journal
from tests.support.nodes import node
from tests.unit.reconcile.doubles import ABSENT, FOUR, UNKNOWN, A, B, WithoutConditions
from tests.unit.worker.job import Worker


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


def logged(worker: Worker) -> list[tuple[EntryKind, Priority]]:
    return [(entry.kind, entry.priority) for entry in worker.entries]


CHANGED, HELD = (EntryKind.CHANGED, Priority.NOTICE), (EntryKind.HELD, Priority.NOTICE)


def fields(old: str, new: str, reason: str, name: str = A) -> dict[str, str]:
    return {"RESOURCE": name, "OLD": old, "NEW": new, "REASON": reason}


def test_changes_refusals_and_what_is_held_back_are_logged(worker: Worker) -> None:
    worker.node.document = node({B: "9"})
    worker.make_pass(1000.0, "boot", a=FOUR, b=FOUR)
    assert logged(worker) == [CHANGED, (EntryKind.REFUSED, Priority.WARNING)]
    changed, refused = worker.entries
    assert changed.fields == {"NODE": "n1"} | fields("none", "4", "found")
    reason = "not published by capacityd; adopt = true takes it over"
    assert refused.fields == {"NODE": "n1"} | fields("9", "9", reason, B)
    conditions = worker.node.document["status"]["conditions"]
    conditions[:] = [condition for condition in conditions if condition["type"] != CONDITION]
    worker.make_pass(1010.0, "resync", a=FOUR, b=FOUR)
    assert worker.entries == [], "also where a policy drops the condition"
    for at, kinds in ((1020.0, [HELD]), (1030.0, []), (1050.0, [CHANGED]), (1060.0, [])):
        worker.make_pass(at, "hardware", a=Absent("it is gone"), b=FOUR)
        assert logged(worker) == kinds
        if kinds == [HELD]:
            reason = "held back for 30 s more, in case it comes back (lower_after)"
            assert worker.entries[0].fields == fields("4", "none", reason) | {"WAIT": "lower_after"}
        elif kinds:
            assert worker.entries[0].fields == {"NODE": "n1"} | fields("4", "none", "it is gone")


def test_what_keeps_the_condition_false_is_logged_once(worker: Worker) -> None:
    worker.settings, worker.expect = Settings(lower_after=0.0), {A: 5}
    worker.node.errors = [None, NodeRejected("a policy")]
    worker.make_pass(1000.0, "boot", a=FOUR)
    assert logged(worker) == [(EntryKind.DENIED, Priority.WARNING), (EntryKind.STARTED, Priority.NOTICE)]
    worker.make_pass(1030.0, "resync", a=FOUR)
    assert worker.entries == []
    worker.make_pass(1060.0, "requeue", a=FOUR)
    assert logged(worker) == [CHANGED, (EntryKind.BELOW_EXPECTED, Priority.WARNING)]
    assert worker.entries[1].fields == {"NODE": "n1", "RESOURCE": A, "NEW": "4", "EXPECTED": "5"}
    worker.make_pass(1070.0, "hardware", a=Quantity(3))
    assert logged(worker) == [CHANGED, (EntryKind.BELOW_EXPECTED, Priority.WARNING)], "it is less still"
    worker.node.lags = {A: "0"}
    not_allocatable = (EntryKind.NOT_ALLOCATABLE, Priority.WARNING)
    for at, kinds in ((1100.0, [CHANGED]), (1115.0, [CHANGED, not_allocatable]), (1130.0, [CHANGED])):
        worker.make_pass(at, "resync", a=Quantity(3))
        assert logged(worker) == kinds


def test_what_nothing_configures_is_logged_once(worker: Worker) -> None:
    worker.make_pass(1000.0, "boot", a=FOUR)
    not_configured = (EntryKind.NOT_CONFIGURED, Priority.WARNING)
    worker.readings = {}
    for at, kinds in ((1100.0, [not_configured]), (1200.0, [])):
        worker.make_pass(at, "config")
        assert logged(worker) == kinds
    worker.make_pass(1300.0, "config", a=FOUR)
    worker.readings = {}
    worker.make_pass(1400.0, "config")
    assert logged(worker) == [not_configured]


def test_an_event_that_could_not_be_created_and_a_withheld_write_are_logged(worker: Worker) -> None:
    worker.settings = Settings(observe=True)
    worker.make_pass(1000.0, "boot", a=FOUR)
    (started,) = worker.entries
    assert started.message == "Node n1: 0 published, 0 absent, 1 not written (observe = true)"
    worker.settings = Settings()
    worker.node.event_error = NodeUnauthorized("forbidden")
    worker.make_pass(1010.0, "config", a=FOUR)
    assert logged(worker) == [CHANGED, (EntryKind.EVENT_NOT_CREATED, Priority.WARNING)]


def test_an_unknown_reading_is_logged_once_for_each_reason_and_when_it_ends(worker: Worker) -> None:
    """At boot, the entry is a warning only if the reading stays unknown."""
    notice, warning = (EntryKind.UNKNOWN, Priority.NOTICE), (EntryKind.UNKNOWN, Priority.WARNING)
    known = (EntryKind.KNOWN, Priority.NOTICE)
    worker.make_pass(1000.0, "boot", a=UNKNOWN)
    assert logged(worker) == [(EntryKind.STARTED, Priority.NOTICE), notice]
    assert worker.entries[1].fields == {"RESOURCE": A, "CAUSE": "unreadable", "REASON": "busy"}
    for at, reading, kinds in (
        (1060.0, UNKNOWN, [warning]),
        (1120.0, UNKNOWN, []),
        (1180.0, Unknown("for another reason"), [warning]),
        (1200.0, ABSENT, [known]),
        (1210.0, UNKNOWN, [warning]),
        (1220.0, FOUR, [CHANGED, known]),
        (1230.0, Quantity(5), [CHANGED]),
    ):
        worker.make_pass(at, "hardware", a=reading)
        assert logged(worker) == kinds, at


def test_a_reason_that_keeps_changing_does_not_flood_the_journal(worker: Worker) -> None:
    """A program prints something different each time; then its output stays the same."""
    at = list[int]()
    for second in range(0, 600, 12):
        worker.make_pass(1000.0 + second, "hardware", a=Unknown(f"it printed {min(second, 500)}"))
        at += [second] * len([entry for entry in worker.entries if entry.kind is EntryKind.UNKNOWN])
    assert at == [0, 12, 24, 36, 48, 60, 360, 372, 384, 396, 408, 420], "a few at once, and as many in each six minutes"
    worker.make_pass(1800.0, "hardware")
    assert worker.entries[-1].fields["REASON"] == "it printed 500", "the last one is not left out"


def test_a_first_pass_that_changes_nothing_is_one_line(worker: Worker) -> None:
    worker.node.errors = [NodeUnreachable("nobody there")]
    worker.make_pass(1000.0, "boot", a=ABSENT, b=ABSENT)
    assert worker.entries == [], "the Node has not been read"
    worker.make_pass(1010.0, "retry")
    (started,) = worker.entries
    assert (started.kind, started.message) == (EntryKind.STARTED, "Node n1: 0 published, 2 absent")
    assert started.fields == {"NODE": "n1"}
    worker.make_pass(1020.0, "resync")
    assert worker.entries == []


def test_the_first_pass_names_all_outcomes(worker: Worker) -> None:
    worker.node.document = node({B: "9", "example.com/e": "5"}, {"example.com/e": 5})
    worker.node.errors = [None, NodeRejected("a policy")]
    worker.make_pass(1000.0, "boot", a=FOUR, b=FOUR, c=UNKNOWN, d=ABSENT, e=FOUR)
    (started,) = (entry for entry in worker.entries if entry.kind is EntryKind.STARTED)
    assert started.message == "Node n1: 1 published, 1 absent, 1 unknown, 1 refused, 1 denied, 1 held back"


def test_a_condition_that_is_not_stored_is_logged_once_and_when_it_is_again(worker: Worker) -> None:
    worker.node = filtered = WithoutConditions()
    worker.make_pass(1000.0, "boot", a=FOUR)
    assert logged(worker) == [CHANGED, (EntryKind.CONDITION_NOT_STORED, Priority.WARNING)]
    for at, removes, kinds in (
        (1010.0, True, []),
        (1020.0, False, [(EntryKind.CONDITION_NOT_STORED, Priority.NOTICE)]),
        (1030.0, False, []),
    ):
        filtered.removes = removes
        worker.make_pass(at, "resync", a=FOUR)
        assert logged(worker) == kinds


def test_without_a_journal_it_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inherited JOURNAL_STREAM does not mean that standard error is connected to the journal."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345678")
    journal.send([journal.Entry(EntryKind.CHANGED, Priority.NOTICE, "a: 3 → 4", {"RESOURCE": "a"})])
    assert capfd.readouterr().err == "capacityd: a: 3 → 4\n"
