"""What is logged of a pass, and that it is logged once."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from capacityd.model.node import Change, Health, Plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.parse import node_state
from capacityd.reconcile.apply import Outcome
from capacityd.reconcile.reconcile import ReconcileResult
from capacityd.reconcile.state import ReconcileState
from capacityd.worker import journal
from tests.support.nodes import node

A, B = "example.com/a", "example.com/b"
HEALTHY = Health()


def outcome(
    *changes: Change,
    newly: tuple[str, ...] = (),
    health: Health = HEALTHY,
    applied: bool = True,
    warnings: tuple[str, ...] = (),
) -> ReconcileResult:
    made = Plan("n1", changes, (), {}, newly_refused=newly, health=health)
    return ReconcileResult(ReconcileState(), Outcome(made, applied, node_state(node()), warnings))


DENIED = Change(A, "deny", None, "4", "a policy")
HEALTH = Health(below_expected={A: (3, 4)}, not_allocatable={A: ("4", "0")})


@pytest.mark.parametrize(
    ("previous", "kinds"),
    [
        ({}, ["denied", "below expected", "not allocatable"]),
        ({"denied": {A: "x"}, "below_expected": {A: [3, 4]}, "not_allocatable": {A: ["4", "0"]}}, []),
        ({"denied": {A: "x"}, "below_expected": {A: [2, 4]}, "not_allocatable": {A: ["4", "0"]}}, ["below expected"]),
    ],
)
def test_what_keeps_the_condition_false_is_logged_once(previous: dict[str, Any], kinds: list[str]) -> None:
    entries = logged(journal.outcome_entries(outcome(DENIED, health=HEALTH), previous))
    assert [kind for kind, *_ in entries] == kinds
    assert all(level == journal.WARNING and fields["RESOURCE"] == A for _, level, _, fields in entries)


def logged(entries: Any) -> list[tuple[str, int, str, dict[str, str]]]:
    return [(e.kind, e.level, e.message, dict(e.fields)) for e in entries]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change(A, "set", "3", "4", "more"), ("changed", 5, f"{A}: 3 → 4 (more)", "3", "4")),
        (Change(A, "set", None, "0", "found"), ("changed", 5, f"{A}: none → 0 (found)", "none", "0")),
        (Change(A, "remove", "1k", None, "withdrawn"), ("changed", 5, f"{A}: 1000 → none (withdrawn)", "1000", "none")),
        (Change(A, "refuse", "9", "9", "theirs"), ("refused", 4, f"{A}: refused: theirs", "9", "9")),
    ],
)
def test_a_change_has_its_fields(change: Change, expected: tuple[str, int, str, str, str]) -> None:
    kind, level, message, old, new = expected
    fields = {"NODE": "n1", "RESOURCE": A, "OLD": old, "NEW": new, "REASON": change.reason}
    newly = (A,) if kind == "refused" else ()
    assert logged(journal.outcome_entries(outcome(change, newly=newly), {})) == [(kind, level, message, fields)]


def test_what_did_not_happen_is_not_logged() -> None:
    changes = [
        Change(A, "set", "3", "4", "why"),
        Change(A, "keep", "3", "3", "why"),
        Change(A, "hold", "3", "2", "why"),
    ]
    assert logged(journal.outcome_entries(outcome(*changes, applied=False), {})) == []
    assert logged(journal.outcome_entries(ReconcileResult(ReconcileState()), {})) == []


def test_a_refusal_is_logged_once_also_without_a_condition() -> None:
    refused = outcome(Change(A, "refuse", "9", "9", "theirs"), newly=(A,), applied=False)
    before = {"plan": {"changes": [{"name": A, "action": "refuse"}]}}
    assert logged(journal.outcome_entries(refused, before)) == []
    kept = {"plan": {"changes": [{"name": A, "action": "keep"}, {"name": f"{A}-2", "action": "refuse"}]}}
    for others in ({}, kept):
        assert len(logged(journal.outcome_entries(refused, others))) == 1


def test_an_event_that_could_not_be_created_is_logged() -> None:
    assert logged(journal.outcome_entries(outcome(warnings=("forbidden",)), {})) == [
        ("event not created", 4, "forbidden", {"NODE": "n1"})
    ]


def status(name: str, result: str, held: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"readings": [{"name": name, "outcome": result}], "held_until": dict.fromkeys(held, 1.0)}


@pytest.mark.parametrize(
    ("before", "reading", "expected"),
    [
        ({}, Unknown("no"), "unknown"),
        (status(A, "quantity"), Unknown("no"), "unknown"),
        (status(A, "unknown"), Unknown("no, and otherwise than before"), ""),
        (status(A, "unknown"), Quantity(4), "known"),
        (status(A, "unknown"), Absent("none"), "known"),
        (status(A, "quantity"), Quantity(5), ""),
        ({}, Quantity(5), ""),
    ],
)
def test_an_unknown_reading_is_logged_once_and_when_it_ends(
    before: dict[str, Any], reading: Reading, expected: str
) -> None:
    found = logged(journal.reading_entries({A: reading}, ReconcileResult(ReconcileState()), before))
    assert [kind for kind, *_ in found] == ([expected] if expected else [])
    assert all(fields["RESOURCE"] == A for *_, fields in found)
    cause = "unreadable" if expected == "unknown" else None
    assert all(fields.get("CAUSE") == cause for *_, fields in found)


def test_an_unknown_reading_at_boot_is_a_warning_only_if_it_lasts() -> None:
    pass_result, reading = ReconcileResult(ReconcileState()), {A: Unknown("there is no default route")}
    assert [level for _, level, *_ in logged(journal.reading_entries(reading, pass_result, {}, first=True))] == [5]
    after_boot = {**status(A, "unknown"), "reasons": ["boot"]}
    assert [level for _, level, *_ in logged(journal.reading_entries(reading, pass_result, after_boot))] == [4]
    assert logged(journal.reading_entries(reading, pass_result, {**status(A, "unknown"), "reasons": ["requeue"]})) == []
    assert [kind for kind, *_ in logged(journal.reading_entries({A: Quantity(1)}, pass_result, after_boot))] == [
        "known"
    ]


def test_a_held_change_is_logged_once() -> None:
    held = ReconcileResult(ReconcileState(published={A: 4}), held={A: 9.6})
    (entry,) = logged(journal.reading_entries({A: Quantity(3)}, held, status(A, "quantity")))
    fields = {"RESOURCE": A, "OLD": "4", "NEW": "3", "REASON": "lower_after: 10 s left"}
    assert entry == ("held", 5, f"{A}: 4 → 3 is held back: lower_after: 10 s left", fields)
    assert logged(journal.reading_entries({A: Quantity(3)}, held, status(A, "quantity", held=(A,)))) == []
    (entry,) = logged(journal.reading_entries({}, held, {}))
    assert entry[3]["NEW"] == "none"


def test_without_a_journal_it_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that was inherited does not make standard error the journal's."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345678")
    journal.send([journal.Entry("changed", journal.NOTICE, "a: 3 → 4", {"RESOURCE": "a"})])
    assert capfd.readouterr().err == "capacityd: a: 3 → 4\n"


def test_each_kind_has_an_id_of_its_own() -> None:
    assert all(re.fullmatch("[0-9a-f]{32}", identity) for identity in journal.MESSAGE_IDS.values())
    assert len(set(journal.MESSAGE_IDS.values())) == len(journal.MESSAGE_IDS)
    changes = Change(A, "set", "3", "4", "why"), Change(B, "refuse", "3", "3", "why"), DENIED
    change = outcome(*changes, newly=(B,), health=HEALTH, warnings=("x",))
    pass_result = ReconcileResult(ReconcileState(published={A: 4}), held={A: 1.0})
    entries = [
        *journal.outcome_entries(change, {}),
        *journal.reading_entries({A: Unknown("no")}, pass_result, {}),
        *journal.reading_entries({A: Quantity(3)}, pass_result, json.loads(json.dumps(status(A, "unknown")))),
    ]
    elsewhere = {
        "configuration error",
        "configuration warning",
        "metrics",
        "degraded",
        "recovered",
        "event source lost",
    }
    assert {e.kind for e in entries} == journal.MESSAGE_IDS.keys() - elsewhere
