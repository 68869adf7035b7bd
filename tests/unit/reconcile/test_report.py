"""The text of Events: one line each, however much there is to report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.node import Event
from capacityd.model.plan import Action, Change, Plan, Reported, Write
from capacityd.reconcile import report

A, B, C, D = (f"example.com/{letter}" for letter in "abcd")
PATCH: tuple[Mapping[str, object], ...] = ({"op": "add", "path": "/status/capacity/x", "value": "1"},)
MAX_BYTES = 1_024
"""The most bytes that the API server takes as an Event's message."""


def plan(*changes: Change, newly: Sequence[str] = (), patch: Sequence[Mapping[str, object]] = PATCH) -> Plan:
    """newly: those that Events have not reported yet."""
    reported = frozenset(c.name for c in changes if c.action is Action.REFUSE) - {*newly}
    return Plan("n1", changes, Write(tuple(patch), {}), reported_before=Reported(refused=reported))


def events(plan: Plan) -> list[Event]:
    return report.events(plan, applied=bool(plan.write.patch))


def changed(*changes: Change) -> str:
    (event,) = events(plan(*changes))
    assert (event.type, event.reason, event.action) == ("Normal", "CapacityChanged", "Publish")
    return event.message


LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"
CASES: list[tuple[list[Change], str]] = [
    ([Change(A, Action.SET, "3", "4", "the reading changed")], f"{A}: 3 → 4 (the reading changed)"),
    ([Change(A, Action.SET, "4", "3", "the reading changed")], f"{A}: 4 → 3 (the reading changed){LOWERED}"),
    ([Change(A, Action.SET, "10k", "12000", "why")], f"{A}: 10000 → 12000 (why)"),
    ([Change(A, Action.SET, "1500m", "2", "why")], f"{A}: 1500m → 2 (why)"),
    ([Change(A, Action.SET, None, "0", "found")], f"{A}: none → 0 (found)"),
    ([Change(A, Action.SET, "0", "4", "restored")], f"{A}: 0 → 4 (restored)"),
    ([Change(A, Action.REMOVE, "4", None, "none matches")], f"{A}: 4 → none (none matches)"),
    (
        [
            Change(A, Action.SET, "4", "3", "changed"),
            Change(B, Action.REMOVE, "1k", None, "gone"),
            Change(C, Action.SET, "1", "2", ""),
        ],
        f"{A}: 4 → 3 (changed); {B}: 1000 → none (gone); {C}: 1 → 2 (){LOWERED}",
    ),
]


@pytest.mark.parametrize(("changes", "message"), CASES)
def test_changes(changes: list[Change], message: str) -> None:
    assert changed(*changes) == message


def test_refusals_are_an_event_of_their_own() -> None:
    refused = [
        Change(n, Action.REFUSE, "9", "9", reason) for n, reason in ((B, "theirs"), (C, "a plugin's"), (D, "theirs"))
    ]
    assert events(plan(Change(A, Action.SET, "1", "2", "more"), *refused, newly=(B, C, D))) == [
        Event("Normal", "CapacityChanged", f"{A}: 1 → 2 (more)", "Publish"),
        Event("Warning", "CapacityRefused", f"{B}: theirs; {C}: a plugin's; {D}: theirs", "Refuse"),
    ]


@pytest.mark.parametrize("action", [Action.KEEP, Action.HOLD, Action.REFUSE])
def test_nothing_new_has_no_event(action: Action) -> None:
    assert events(plan(Change(A, action, "4", "4", "so it is"))) == []


def test_a_plan_that_is_not_written_has_no_event() -> None:
    assert events(plan(Change(A, Action.REFUSE, "9", "9", "why"), newly=(A,), patch=())) == []


@pytest.mark.parametrize(
    ("count", "reason"), [(200, "found"), (2, "x" * 600), (1, "x" * 5_000), (3, "x" * 970), (9, "→" * 100)]
)
def test_a_long_event_is_cut_and_counts_the_rest(count: int, reason: str) -> None:
    message = changed(
        *[Change(f"example.com/r{n:03}", Action.SET, None, "1", f"{reason}{n % 2}") for n in range(count)]
    )
    assert len(message.encode()) <= MAX_BYTES
    assert "example.com/r000" in message
    rest = count - message.count("example.com/r")
    assert not rest or message.endswith(f"; and {rest} more, see capacityd status")
    assert rest or message.endswith("…") or len(reason) < 500


def test_an_event_lists_as_many_changes_as_fit() -> None:
    message = changed(*[Change(f"example.com/r{n:03}", Action.SET, None, "1", "found") for n in range(200)])
    assert len(message.encode()) > 950
    assert re.match(r"example\.com/r000: none → 1 \(found\); ", message)


names = st.text("abcdefgh-./", min_size=1, max_size=300)
quantities = st.none() | st.integers(0, 2**63 - 1).map(str)
changes = st.builds(
    Change, names, st.sampled_from([Action.SET, Action.REMOVE]), quantities, quantities, st.text(max_size=400)
)


@given(st.lists(changes, min_size=1, max_size=30))
def test_no_event_is_too_long(changes: list[Change]) -> None:
    (event,) = events(plan(*changes))
    assert 0 < len(event.message.encode()) <= MAX_BYTES
