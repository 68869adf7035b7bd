"""The messages of Events: one line each, however much they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.node import Event
from capacityd.model.plan import Action, Change, MachineRecord, Plan, Reported, Write
from capacityd.reconcile.events import events as events_of

A, B, C, D = (f"example.com/{letter}" for letter in "abcd")
PATCH: tuple[Mapping[str, object], ...] = ({"op": "add", "path": "/status/capacity/x", "value": "1"},)
MAX_BYTES = 1_024
"""The maximum number of bytes of an Event's message at the API server."""


def plan(*changes: Change, newly: Sequence[str] = (), patch: Sequence[Mapping[str, object]] = PATCH) -> Plan:
    """newly: the refusals that no Event has reported yet."""
    reported = frozenset(c.name for c in changes if c.action is Action.REFUSE) - {*newly}
    return Plan(
        "n1", changes, Write(tuple(patch), {}), confirmed_record=MachineRecord(reported=Reported(refused=reported))
    )


def events(plan: Plan) -> list[Event]:
    return events_of(plan, applied=bool(plan.write.patch))


def changed(*changes: Change) -> str:
    (event,) = events(plan(*changes))
    assert (event.type, event.reason, event.action) == ("Normal", "CapacityChanged", "Publish")
    return event.message


LESS = Change(A, Action.SET, "4", "3", "the reading changed")


def test_only_a_key_that_becomes_lower_warns_of_stopped_pods() -> None:
    others = Change(B, Action.REMOVE, "1k", None, "gone"), Change(C, Action.SET, "1500m", "2", "more")
    text = f"{B}: 1000 → none (gone); {C}: 1500m → 2 (more)"
    assert changed(*others) == text
    assert changed(LESS, *others).startswith(f"{A}: 4 → 3 (the reading changed); {text}; pods that no longer fit")


def test_refusals_are_an_event_of_their_own_and_nothing_old_has_one() -> None:
    refused = [Change(name, Action.REFUSE, "9", "9", "theirs") for name in (B, C)]
    published, refusals = events(plan(LESS, *refused, newly=(B, C)))
    assert (published.reason, refusals.type, refusals.reason) == ("CapacityChanged", "Warning", "CapacityRefused")
    assert refusals.message == f"{B}: theirs; {C}: theirs"
    assert events(plan(*refused, Change(A, Action.KEEP, "4", "4", ""), Change(D, Action.HOLD, "4", "3", ""))) == []
    assert events(plan(*refused, newly=(B, C), patch=())) == [], "it is not written"


@pytest.mark.parametrize(
    ("count", "reason"), [(200, "found"), (2, "x" * 600), (1, "x" * 5_000), (3, "x" * 970), (9, "→" * 100)]
)
def test_a_long_event_is_cut_and_counts_the_rest(count: int, reason: str) -> None:
    message = changed(
        *[Change(f"example.com/r{n:03}", Action.SET, None, "1", f"{reason}{n % 2}") for n in range(count)]
    )
    assert len(message.encode()) <= MAX_BYTES
    assert message.startswith("example.com/r000: none → 1 (")
    assert count < 200 or len(message.encode()) > 950, "as many as fit are listed"
    rest = count - message.count("example.com/r")
    assert not rest or message.endswith(f"; and {rest} more, see capacityd status")
    assert rest or message.endswith("…") or len(reason) < 500


names = st.text("abcdefgh-./", min_size=1, max_size=300)
quantities = st.none() | st.integers(0, 2**63 - 1).map(str)
changes = st.builds(
    Change, names, st.sampled_from([Action.SET, Action.REMOVE]), quantities, quantities, st.text(max_size=400)
)


@given(st.lists(changes, min_size=1, max_size=30))
def test_no_event_is_too_long(changes: list[Change]) -> None:
    (event,) = events(plan(*changes))
    assert 0 < len(event.message.encode()) <= MAX_BYTES
