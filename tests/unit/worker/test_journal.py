"""What is logged of a pass, and that it is logged once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from capacityd.linux.systemd import EntryKind, Priority
from capacityd.model.plan import Action, Change, Health, Outcome, Plan, Reported, Write
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.node.documents.node import node_state
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.reconcile import ReconcileResult
from capacityd.worker import journal
from capacityd.worker.pass_state import Logged, PassState, PassStatus, is_condition_not_stored
from tests.support.nodes import node

A, B = "example.com/a", "example.com/b"
HEALTHY = Health()
UPTIME = 100.0
RESULT = ReconcileResult(Memory(), UPTIME)


def outcome(
    *changes: Change,
    newly: tuple[str, ...] = (),
    health: Health = HEALTHY,
    applied: bool = True,
    warnings: tuple[str, ...] = (),
) -> ReconcileResult:
    refused = frozenset(change.name for change in changes if change.action is Action.REFUSE)
    reported = Reported(refused=refused.difference(newly))
    made = Plan("n1", changes, Write((), {}), reported_before=reported, health=health)
    return ReconcileResult(Memory(), UPTIME, plan=made, outcome=Outcome(made, node_state(node()), applied, warnings))


NO_PLAN = Plan("n1", (), Write((), {}))
DENIED = Change(A, Action.DENY, None, "4", "a policy")
HEALTH = Health(below_expected={A: (3, 4)}, not_allocatable={A: ("4", "0")})


def before(*changes: Change, **health: Any) -> PassStatus:
    """What a pass has left that found this."""
    return PassStatus(1.0, changes=changes, health=Health(**health), read_at=1.0)


def outcome_entries(result: ReconcileResult, previous: PassStatus | None) -> list[journal.Entry]:
    """Those of this pass. previous: what the last one left."""
    plan = result.plan or NO_PLAN
    not_stored = result.outcome is not None and is_condition_not_stored(result.outcome)
    status = PassStatus(2.0, changes=plan.changes, health=plan.health, condition_not_stored=not_stored, read_at=2.0)
    return [*journal.outcome_entries(result, status, previous)]


@pytest.mark.parametrize(
    ("previous", "kinds"),
    [
        (None, [EntryKind.DENIED, EntryKind.BELOW_EXPECTED, EntryKind.NOT_ALLOCATABLE]),
        (before(denied={A: "x"}, below_expected={A: (3, 4)}, not_allocatable={A: ("4", "0")}), []),
        (
            before(denied={A: "x"}, below_expected={A: (2, 4)}, not_allocatable={A: ("4", "0")}),
            [EntryKind.BELOW_EXPECTED],
        ),
    ],
)
def test_what_keeps_the_condition_false_is_logged_once(previous: PassStatus | None, kinds: list[EntryKind]) -> None:
    entries = logged(outcome_entries(outcome(DENIED, health=HEALTH), previous))
    assert [kind for kind, *_ in entries] == kinds
    assert all(level == Priority.WARNING and fields["RESOURCE"] == A for _, level, _, fields in entries)


def logged(entries: Any) -> list[tuple[EntryKind, int, str, dict[str, str]]]:
    return [(e.kind, e.priority, e.message, dict(e.fields)) for e in entries]


@pytest.mark.parametrize(
    ("change", "kind", "level", "old", "new"),
    [
        (Change(A, Action.SET, None, "0", "found"), EntryKind.CHANGED, Priority.NOTICE, "none", "0"),
        (Change(A, Action.REMOVE, "1k", None, "withdrawn"), EntryKind.CHANGED, Priority.NOTICE, "1000", "none"),
        (Change(A, Action.REFUSE, "9", "9", "theirs"), EntryKind.REFUSED, Priority.WARNING, "9", "9"),
    ],
)
def test_a_change_has_its_fields(change: Change, kind: EntryKind, level: Priority, old: str, new: str) -> None:
    fields = {"NODE": "n1", "RESOURCE": A, "OLD": old, "NEW": new, "REASON": change.reason}
    entry, warning = outcome_entries(outcome(change, newly=(A,), warnings=("forbidden",)), None)
    assert (entry.kind, entry.priority, entry.fields) == (kind, level, fields)
    assert (warning.kind, warning.message) == (EntryKind.EVENT_NOT_CREATED, "forbidden")


def test_what_did_not_happen_is_not_logged() -> None:
    changes = [
        Change(A, Action.SET, "3", "4", "why"),
        Change(A, Action.KEEP, "3", "3", "why"),
        Change(A, Action.HOLD, "3", "2", "why"),
    ]
    assert outcome_entries(outcome(*changes, applied=False), None) == outcome_entries(RESULT, None) == []


def test_a_refusal_is_logged_once_also_without_a_condition() -> None:
    refused = outcome(Change(A, Action.REFUSE, "9", "9", "theirs"), newly=(A,), applied=False)
    assert logged(outcome_entries(refused, before(Change(A, Action.REFUSE, "9", "9", "theirs")))) == []
    others = before(Change(A, Action.KEEP, "9", "9", "ours"), Change(f"{A}-2", Action.REFUSE, "9", "9", "theirs"))
    for previous in (None, before(), others):
        assert len(logged(outcome_entries(refused, previous))) == 1


UNKNOWN = Unknown("no")


def state(reading: Reading | None, reason: PassReason = PassReason.HARDWARE, held: tuple[str, ...] = ()) -> PassState:
    """What a pass has left that read this."""
    waits = tuple(Wait(1.0, WaitReason.LOWER_AFTER, name) for name in held)
    status = PassStatus(1.0, (reason,), {A: reading} if reading else {}, waits=waits)
    known = {A: Logged(reading.reason, (1.0,))} if isinstance(reading, Unknown) else {}
    return PassState(status=status, logged=known)


def entries_of(readings: Mapping[str, Reading], previous: PassState, first: bool = False) -> Iterator[journal.Entry]:
    """Those of a pass that reads this."""
    return journal.reading_entries(
        readings, RESULT, previous, journal.logged_after(readings, previous, 2.0), at_boot=first
    )


@pytest.mark.parametrize(
    ("previous", "reading", "expected"),
    [
        (PassState(), UNKNOWN, EntryKind.UNKNOWN),
        (state(Quantity(4)), UNKNOWN, EntryKind.UNKNOWN),
        (state(UNKNOWN), UNKNOWN, None),
        (state(UNKNOWN), Unknown("no, and otherwise than before"), EntryKind.UNKNOWN),
        (state(UNKNOWN), Quantity(4), EntryKind.KNOWN),
        (state(UNKNOWN), Absent("none"), EntryKind.KNOWN),
        (state(Quantity(4)), Quantity(5), None),
        (PassState(), Quantity(5), None),
    ],
)
def test_an_unknown_reading_is_logged_once_for_each_reason_and_when_it_ends(
    previous: PassState, reading: Reading, expected: EntryKind | None
) -> None:
    entries = logged(entries_of({A: reading}, previous))
    assert [kind for kind, *_ in entries] == ([expected] if expected else [])
    assert all(fields["RESOURCE"] == A for *_, fields in entries)
    cause = "unreadable" if expected is EntryKind.UNKNOWN else None
    assert all(fields.get("CAUSE") == cause for *_, fields in entries)


def test_a_reason_that_keeps_changing_does_not_flood_the_journal() -> None:
    """One pass a second for ten minutes, and a program that prints something else each time; then it stays."""
    previous, at = PassState(), list[float]()
    for second in range(600):
        readings = {A: Unknown(f"it printed {min(second, 500)}")}
        logs = journal.logged_after(readings, previous, float(second))
        entries = [*journal.reading_entries(readings, RESULT, previous, logs, at_boot=False)]
        at += [second] * len(entries)
        previous = replace(state(readings[A]), logged=logs)
    assert at[:6] == [0, 1, 2, 3, 4, 5], "a few are logged at once"
    assert at[6:] == [360, 361, 362, 363, 364, 365], "and as many in each six minutes"
    (entry,) = journal.reading_entries(
        readings, RESULT, previous, journal.logged_after(readings, previous, 800.0), at_boot=False
    )
    assert entry.fields["REASON"] == "it printed 500", "the last one is not left out"


def test_an_unknown_reading_at_boot_is_a_warning_only_if_it_lasts() -> None:
    reading = {A: Unknown("there is no default route")}
    assert [level for _, level, *_ in logged(entries_of(reading, PassState(), first=True))] == [5]
    after_boot = state(reading[A], PassReason.BOOT)
    assert [level for _, level, *_ in logged(entries_of(reading, after_boot))] == [4]
    assert logged(entries_of(reading, state(reading[A], PassReason.REQUEUE))) == []
    assert [kind for kind, *_ in logged(entries_of({A: Quantity(1)}, after_boot))] == [EntryKind.KNOWN]


def holding(change: Change, *waits: Wait) -> ReconcileResult:
    """A pass that holds this change back and has not read the Node."""
    return ReconcileResult(Memory(), UPTIME, waits, Plan("n1", (change,), Write((), {}), waits=waits))


def test_a_held_change_is_logged_once() -> None:
    wait = Wait(109.6, WaitReason.LOWER_AFTER, A)
    held = holding(Change(A, Action.HOLD, "4", "3", "the reading changed"), wait)
    (entry,) = logged(journal.reading_entries({A: Quantity(3)}, held, state(Quantity(4)), {}, at_boot=False))
    reason = "held back for 10 s more, in case it comes back (lower_after)"
    fields = {"RESOURCE": A, "OLD": "4", "NEW": "3", "REASON": reason, "WAIT": "lower_after"}
    assert entry == (EntryKind.HELD, 5, f"{A}: 4 → 3: {reason}", fields)
    before_it = state(Quantity(4), held=(A,))
    assert logged(journal.reading_entries({A: Quantity(3)}, held, before_it, {}, at_boot=False)) == []
    limit = Wait(156.0, WaitReason.RATE_LIMIT, A)
    removed = holding(Change(A, Action.HOLD, "4", None, "no longer configured"), limit)
    (entry,) = logged(journal.reading_entries({}, removed, PassState(), {}, at_boot=False))
    assert (entry[3]["NEW"], entry[3]["WAIT"]) == ("none", "rate_limit")
    denied = holding(DENIED, Wait(156.0, WaitReason.DENIED, A), Wait(120.0, WaitReason.RATE_LIMIT))
    assert logged(journal.reading_entries({A: Quantity(5)}, denied, PassState(), {}, at_boot=False)) == []


def test_without_a_journal_it_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that was inherited does not make standard error the journal's."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345678")
    journal.send([journal.Entry(EntryKind.CHANGED, Priority.NOTICE, "a: 3 → 4", {"RESOURCE": "a"})])
    assert capfd.readouterr().err == "capacityd: a: 3 → 4\n"


def test_a_first_pass_that_changes_nothing_is_one_line() -> None:
    readings: dict[str, Reading] = {A: Absent("none"), B: Absent("none")}
    entries = [*journal.first_pass_entries(readings, outcome(applied=False), None)]
    assert logged(entries) == [(EntryKind.STARTED, 5, "Node n1: 0 published, 2 absent", {"NODE": "n1"})]
    waited = PassStatus(1.0)  # for the kubeconfig, say
    assert [*journal.first_pass_entries(readings, outcome(applied=False), waited)] == entries
    assert [*journal.first_pass_entries(readings, outcome(applied=False), before())] == []
    assert [*journal.first_pass_entries(readings, RESULT, None)] == [], "the Node has not been read"


def test_the_first_pass_names_all_outcomes() -> None:
    readings: dict[str, Reading] = {A: Absent("none"), B: UNKNOWN}
    refused = Change("example.com/c", Action.REFUSE, "3", "4", "theirs")
    (entry,) = journal.first_pass_entries(readings, outcome(refused, DENIED, applied=True), None)
    assert entry.message == "Node n1: 0 published, 1 absent, 1 unknown, 1 refused, 1 denied"
    found = Change(A, Action.SET, None, "4", "found")
    assert [*journal.first_pass_entries({A: Quantity(4)}, outcome(found), None)] == [], "the change is logged"
    (entry,) = journal.first_pass_entries({A: Quantity(4)}, outcome(found, applied=False), None)
    assert entry.message == "Node n1: 0 published, 0 absent, 1 not written (observe = true)"


def test_a_condition_that_is_not_stored_is_logged_once_and_when_it_is_again() -> None:
    kept = Change(A, Action.KEEP, "4", "4", "as published")
    made = Plan("n1", (kept,), Write((), {}, condition=("Published", "True")))
    not_stored = replace(before(), condition_not_stored=True)
    lost, stored = (
        ReconcileResult(Memory(), UPTIME, plan=made, outcome=Outcome(made, node_state(node(condition=c)), applied=True))
        for c in (None, "True")
    )
    (entry,) = outcome_entries(lost, before())
    assert (entry.kind, entry.priority) == (EntryKind.CONDITION_NOT_STORED, Priority.WARNING)
    assert [*outcome_entries(lost, not_stored)] == []
    (entry,) = outcome_entries(stored, not_stored)
    assert (entry.kind, entry.priority) == (EntryKind.CONDITION_NOT_STORED, Priority.NOTICE)
    assert [*outcome_entries(stored, before())] == []
