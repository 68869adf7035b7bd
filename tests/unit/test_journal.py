"""What the journal is told of a look, and that it is told once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from capacityd import journal
from capacityd.apply import Outcome
from capacityd.capacity import Change, Plan
from capacityd.look import Look
from capacityd.memory import Memory
from capacityd.model import Absent, Quantity, Reading, Unknown
from capacityd.node.state import node_state
from tests.unit.nodes import node

A = "example.com/a"
CATALOG = Path(__file__).parents[2] / "packaging/systemd/capacityd.catalog"
DAMAGED: list[Any] = [
    {"readings": 4, "plan": [], "held": 4},
    {"readings": [4, {}, {"name": [], "outcome": {}}], "plan": {"changes": {"x": 1}}, "held": ["x"]},
]


def outcome(
    *changes: Change, newly: tuple[str, ...] = (), applied: bool = True, warnings: tuple[str, ...] = ()
) -> Look:
    made = Plan("n1", changes, (), {}, newly_refused=newly)
    return Look(Memory(), Outcome(made, applied, node_state(node()), warnings))


def told(entries: Any) -> list[tuple[str, int, str, dict[str, str]]]:
    return [(e.kind, e.level, e.message, dict(e.fields)) for e in entries]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            Change(A, "set", "3", "4", "the hardware changed"),
            ("changed", 5, f"{A}: 3 → 4 (the hardware changed)", "3", "4"),
        ),
        (Change(A, "set", None, "0", "found"), ("changed", 5, f"{A}: none → 0 (found)", "none", "0")),
        (Change(A, "remove", "1k", None, "withdrawn"), ("changed", 5, f"{A}: 1000 → none (withdrawn)", "1000", "none")),
        (Change(A, "refuse", "9", "9", "theirs"), ("refused", 4, f"{A}: refused: theirs", "9", "9")),
    ],
)
def test_a_change_has_its_fields(change: Change, expected: tuple[str, int, str, str, str]) -> None:
    kind, level, message, old, new = expected
    fields = {"NODE": "n1", "RESOURCE": A, "OLD": old, "NEW": new, "REASON": change.reason}
    newly = (A,) if kind == "refused" else ()
    assert told(journal.outcome_entries(outcome(change, newly=newly), {})) == [(kind, level, message, fields)]


def test_what_did_not_happen_is_not_told() -> None:
    changes = [
        Change(A, "set", "3", "4", "why"),
        Change(A, "keep", "3", "3", "why"),
        Change(A, "hold", "3", "2", "why"),
    ]
    assert told(journal.outcome_entries(outcome(*changes, applied=False), {})) == []
    assert told(journal.outcome_entries(Look(Memory()), {})) == []


def test_a_refusal_is_told_once_also_without_a_condition() -> None:
    refused = outcome(Change(A, "refuse", "9", "9", "theirs"), newly=(A,), applied=False)
    before = {"plan": {"changes": [{"name": A, "action": "refuse"}]}}
    assert told(journal.outcome_entries(refused, before)) == []
    assert len(told(journal.outcome_entries(refused, {}))) == 1


def test_an_event_that_was_not_written_is_told() -> None:
    assert told(journal.outcome_entries(outcome(warnings=("forbidden",)), {})) == [
        ("untold", 4, "forbidden", {"NODE": "n1"})
    ]


def status(name: str, result: str, held: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"readings": [{"name": name, "outcome": result}], "held": dict.fromkeys(held, 1.0)}


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
        *[(damaged, Unknown("no"), "unknown") for damaged in DAMAGED],
    ],
)
def test_what_is_unknown_is_told_once_and_when_it_is_over(
    before: dict[str, Any], reading: Reading, expected: str
) -> None:
    found = told(journal.reading_entries({A: reading}, Look(Memory()), before))
    assert [kind for kind, *_ in found] == ([expected] if expected else [])
    assert all(fields["RESOURCE"] == A for *_, fields in found)


def test_what_is_unknown_at_boot_is_a_warning_only_if_it_stays_so() -> None:
    look, reading = Look(Memory()), {A: Unknown("there is no default route")}
    assert [level for _, level, *_ in told(journal.reading_entries(reading, look, {}, first=True))] == [5]
    after_boot = {**status(A, "unknown"), "reasons": ["boot"]}
    assert [level for _, level, *_ in told(journal.reading_entries(reading, look, after_boot))] == [4]
    assert told(journal.reading_entries(reading, look, {**status(A, "unknown"), "reasons": ["due"]})) == []
    assert [kind for kind, *_ in told(journal.reading_entries({A: Quantity(1)}, look, after_boot))] == ["known"]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_damaged_file_is_as_none(damaged: Any) -> None:
    refused = outcome(Change(A, "refuse", "9", "9", "theirs"), newly=(A,))
    assert len(told(journal.outcome_entries(refused, damaged))) == 1
    held = Look(Memory(published={A: 4}), held={A: 9.6})
    assert len(told(journal.reading_entries({A: Quantity(3)}, held, damaged))) == 1


def test_what_is_held_back_is_told_once() -> None:
    held = Look(Memory(published={A: 4}), held={A: 9.6})
    (entry,) = told(journal.reading_entries({A: Quantity(3)}, held, status(A, "quantity")))
    fields = {"RESOURCE": A, "OLD": "4", "NEW": "3", "REASON": "it must last 10 s more"}
    assert entry == ("held", 5, f"{A}: 4 → 3 is held back: it must last 10 s more", fields)
    assert told(journal.reading_entries({A: Quantity(3)}, held, status(A, "quantity", held=(A,)))) == []
    (entry,) = told(journal.reading_entries({}, held, {}))
    assert entry[3]["NEW"] == "none"


def test_without_a_journal_it_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that was inherited does not make standard error the journal's."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345678")
    journal.send([journal.Entry("changed", journal.NOTICE, "a: 3 → 4", {"RESOURCE": "a"})])
    assert capfd.readouterr().err == "capacityd: a: 3 → 4\n"


def test_the_catalog_explains_each_kind_with_fields_that_there_are() -> None:
    found: dict[str, str] = {}
    for part in re.split(r"^-- ", CATALOG.read_text(), flags=re.M)[1:]:
        identity, _, text = part.partition("\n")
        assert text.startswith("Subject: ")
        assert identity not in found
        found[identity] = text
    assert sorted(found) == sorted(journal.MESSAGE_IDS.values())
    assert all(re.fullmatch("[0-9a-f]{32}", identity) for identity in found)
    change = outcome(
        Change(A, "set", "3", "4", "why"), Change(A, "refuse", "3", "3", "why"), newly=(A,), warnings=("x",)
    )
    look = Look(Memory(published={A: 4}), held={A: 1.0})
    entries = [
        *journal.outcome_entries(change, {}),
        *journal.reading_entries({A: Unknown("no")}, look, {}),
        *journal.reading_entries({A: Quantity(3)}, look, json.loads(json.dumps(status(A, "unknown")))),
    ]
    assert {e.kind for e in entries} == journal.MESSAGE_IDS.keys() - {"mistake", "metrics", "trouble", "well", "deaf"}
    for entry in entries:
        asked = set(re.findall(r"@(\w+)@", found[journal.MESSAGE_IDS[entry.kind]]))
        assert asked <= set(entry.fields), entry.kind
