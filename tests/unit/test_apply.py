"""Applying a plan: what is tried again and for how long. No time passes here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from capacityd.apply import TRIES, Untold, apply
from capacityd.capacity import Change, Event, NodeState, Plan
from capacityd.decision import Terms
from capacityd.errors import NodeConflict, NodeDenied, NodeError, NodeRejected, NodeUnreachable
from capacityd.model import Absent, Quantity, Reading
from capacityd.node.state import node_state
from capacityd.plan import make_plan
from tests.unit.nodes import node
from tests.unit.test_look import MemoryNode

A, B, C, D = (f"example.com/{letter}" for letter in "abcd")

STATE = node_state(node())
PATCH: tuple[Mapping[str, object], ...] = ({"op": "add", "path": "/status/capacity/x", "value": "1"},)
WRITTEN = {"x": "1", A: "4"}


class FaultyNode:
    """A Node that fails as listed, one error for each request in turn, and then works. None: this one works.

    stored: what it says of its capacity when it has been written.
    """

    name = "n1"

    def __init__(
        self, *errors: NodeError | None, telling: NodeError | None = None, stored: Mapping[str, str] = WRITTEN
    ) -> None:
        self.errors = list(errors)
        self.stored = stored
        self.telling = telling
        self.reads = self.writes = 0
        self.told: list[Event] = []

    def read(self) -> NodeState:
        self.reads += 1
        self._fail()
        return STATE

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        self.writes += 1
        self._fail()
        return replace(STATE, capacity=self.stored)

    def report(self, event: Event, state: NodeState) -> None:
        self.told.append(event)
        if self.telling:
            raise self.telling

    def _fail(self) -> None:
        if self.errors and (error := self.errors.pop(0)):
            raise error


def _always(plan: Plan, _: NodeState) -> Plan:
    return plan


def test_what_is_to_be_told_is_known_before_it_is_written() -> None:
    """So that the look after one that is killed can tell it; and not for a write of which there is nothing to tell."""
    told = [Change("x", "set", None, "1", "found")]
    node, intended = FaultyNode(), []

    def intend(untold: Untold) -> None:
        assert (node.writes, node.told) == (0, [])
        intended.append(untold)

    for plan in (Plan("n1", tuple(told), PATCH, {}), Plan("n1", (), PATCH, {})):
        node.writes, node.told = 0, []
        apply(node, partial(_always, plan), 0.0, None, intend)
    (untold,) = intended
    assert (untold.uid, untold.capacity, untold.refused) == (STATE.uid, {"x": "1"}, ())
    assert [event.message for event in untold.events] == ["x: none → 1 (found)"]


class Clock:
    """Time as apply has it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The longest pauses that could be drawn."""
    found = Clock()
    monkeypatch.setattr("capacityd.apply.time", found)
    monkeypatch.setattr("capacityd.apply.random", SimpleNamespace(uniform=_most))
    return found


def _most(least: float, most: float) -> float:
    assert least == 0
    return most


def plan(*changes: Change, newly: tuple[str, ...] = (), patch: Sequence[Mapping[str, object]] = PATCH) -> Plan:
    return Plan("n1", changes, tuple(patch), {}, newly_refused=newly)


def a_plan(_: NodeState) -> Plan:
    return plan(Change("example.com/a", "set", "3", "4", "the hardware changed"))


def test_what_works_is_done_once(clock: Clock) -> None:
    node = FaultyNode()
    outcome = apply(node, a_plan, patience=0.0)
    assert (outcome.applied, outcome.warnings, node.reads, node.writes, len(node.told)) == (True, (), 1, 1, 1)
    assert clock.slept == []


def test_nothing_to_do_is_not_written_nor_told(clock: Clock) -> None:
    node = FaultyNode()
    outcome = apply(node, lambda _: plan(Change("example.com/a", "keep", "4", "4", ""), patch=()), patience=0.0)
    assert (outcome.applied, node.reads, node.writes, node.told) == (False, 1, 0, [])


def test_a_conflict_is_planned_anew(clock: Clock) -> None:
    node = FaultyNode(None, NodeConflict("no"), None, NodeConflict("no"))
    planned: list[NodeState] = []

    def decide(state: NodeState) -> Plan:
        planned.append(state)
        return a_plan(state)

    outcome = apply(node, decide, patience=0.0)
    assert outcome.applied
    assert (node.reads, node.writes, len(planned), len(node.told)) == (3, 3, 3, 1)
    assert len(clock.slept) == 2


def test_conflicts_come_to_an_end(clock: Clock) -> None:
    node = FaultyNode(*[None, NodeConflict("the Node is not as it was")] * 50)
    with pytest.raises(NodeConflict, match=f"not as it was; tried {TRIES} times"):
        apply(node, a_plan, patience=600.0)
    assert (node.reads, node.writes) == (TRIES, TRIES)
    assert clock.slept == [0.1 * 2**conflict for conflict in range(TRIES - 1)]
    assert sum(clock.slept) < 5


@pytest.mark.parametrize("error", [NodeDenied("no"), NodeRejected("nonsense"), NodeError("what?")])
def test_what_cannot_heal_is_not_tried_again(clock: Clock, error: NodeError) -> None:
    node = FaultyNode(error)
    with pytest.raises(type(error)):
        apply(node, a_plan, patience=600.0)
    assert (node.reads, clock.slept) == (1, [])


def test_without_patience_an_unreachable_server_is_told_at_once(clock: Clock) -> None:
    node = FaultyNode(NodeUnreachable("nobody there"))
    with pytest.raises(NodeUnreachable):
        apply(node, a_plan, patience=0.0)
    assert (node.reads, clock.slept) == (1, [])


def test_with_patience_it_is_tried_until_that_ends(clock: Clock) -> None:
    node = FaultyNode(*[NodeUnreachable("nobody there")] * 1_000)
    with pytest.raises(NodeUnreachable):
        apply(node, a_plan, patience=60.0)
    assert clock.slept[:3] == [2, 4, 5]
    assert 50 < sum(clock.slept) <= 60
    assert node.reads == len(clock.slept) + 1


def test_an_answer_that_was_lost_is_looked_for(clock: Clock) -> None:
    node = FaultyNode(None, NodeUnreachable("the answer was lost"))
    assert apply(node, a_plan, patience=60.0).applied
    assert (node.reads, node.writes) == (2, 2)
    assert len(node.told) == 1


def test_the_server_says_how_long_to_wait(clock: Clock) -> None:
    node = FaultyNode(NodeUnreachable("later", retry_after=7.0), NodeUnreachable("now", retry_after=0.0))
    assert apply(node, a_plan, patience=60.0).applied
    assert clock.slept == [7.0, 0.0]


def test_a_wait_that_is_longer_than_the_patience_is_not_begun(clock: Clock) -> None:
    node = FaultyNode(NodeUnreachable("later", retry_after=61.0))
    with pytest.raises(NodeUnreachable) as raised:
        apply(node, a_plan, patience=60.0)
    assert (raised.value.retry_after, clock.slept) == (61.0, [])
    assert apply(FaultyNode(NodeUnreachable("later", retry_after=60.0)), a_plan, patience=60.0).applied
    assert clock.slept == [60.0]


def test_an_event_that_fails_is_a_warning(clock: Clock) -> None:
    node = FaultyNode(telling=NodeDenied("events: forbidden"))
    outcome = apply(node, a_plan, patience=0.0)
    assert outcome.applied
    assert outcome.warnings == ("the Event could not be written: events: forbidden",)
    assert (node.reads, node.writes) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "stored", "says"),
    [
        ({A: "4"}, {}, f"{A} is none, not 4."),
        ({A: "4"}, {A: "4k"}, f"{A} is 4000, not 4."),
        ({A: None}, {A: "4"}, f"{A} is 4, not none."),
        ({A: "4", B: "5", C: "10000"}, {A: "3", C: "10k"}, f"{A} is 3, not 4; {B} is none, not 5."),
    ],
)
def test_a_write_that_is_altered_on_its_way_is_no_success(
    clock: Clock, changes: Mapping[str, str | None], stored: Mapping[str, str], says: str
) -> None:
    """What an admission webhook makes of it is what is stored, and what the API server answers."""
    node = FaultyNode(stored=stored)
    made = plan(*(Change(name, "remove" if new is None else "set", "1", new, "found") for name, new in changes.items()))
    with pytest.raises(NodeRejected, match=re.escape(f"otherwise: {says} Does an admission webhook")):
        apply(node, partial(_always, made), patience=600.0)
    assert (node.writes, node.told, clock.slept) == (1, [], [])


def test_a_record_that_is_altered_on_its_way_is_no_success(clock: Clock) -> None:
    node = FaultyNode()
    with pytest.raises(NodeRejected, match="otherwise: the annotation capacityd/published is another"):
        apply(node, lambda state: replace(a_plan(state), published={A: 4}), patience=600.0)
    assert (node.writes, node.told) == (1, [])


UNTOLD = Untold(STATE.uid, {A: "4", B: None}, (C,), (Event("Normal", "CapacityChanged", "told", "Publish"),))
DONE = node({A: "4", C: "9"}, condition="False")
DONE["status"]["conditions"][0]["message"] = f"refused: {C}, {D}"


@pytest.mark.parametrize(
    ("document", "carried_out"),
    [
        (DONE, True),
        (DONE | {"status": DONE["status"] | {"capacity": {A: "4000m"}}}, True),
        (DONE | {"metadata": DONE["metadata"] | {"uid": "another"}}, False),
        (DONE | {"status": DONE["status"] | {"capacity": {A: "3"}}}, False),
        (DONE | {"status": DONE["status"] | {"capacity": {A: "4", B: "1"}}}, False),
        (DONE | {"status": DONE["status"] | {"capacity": {}}}, False),
        (DONE | {"status": DONE["status"] | {"capacity": None}}, False),
        (DONE | {"status": DONE["status"] | {"conditions": []}}, False),
    ],
)
def test_whether_a_write_whose_answer_was_lost_was_carried_out(document: dict[str, Any], carried_out: bool) -> None:
    assert UNTOLD.carried_out(node_state(document)) is carried_out


@pytest.mark.parametrize(("lose", "drop"), [(1, 0), (0, 1)])
@pytest.mark.parametrize("reading", [Quantity(3), Absent("none")])
def test_what_was_lost_is_told_of_once(clock: Clock, reading: Reading, lose: int, drop: int) -> None:
    """Whether the answer was, or the write; beside it something is refused."""
    memory = MemoryNode()
    memory.document = node({A: "4", B: "9"}, {A: 4})
    memory.lose, memory.drop = lose, drop
    apply(memory, lambda state: make_plan({A: reading, B: Quantity(1)}, state, Terms()), patience=60.0)
    assert memory.writes == 1
    changed, refused = memory.told
    assert changed.startswith(f"{A}: 4 → {'3' if isinstance(reading, Quantity) else 'none'} ")
    assert refused.startswith(f"{B}: not published by capacityd")
