"""Applying a plan: what is tried again and for how long. No time passes here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from capacityd.model.errors import NodeConflict, NodeDenied, NodeError, NodeRejected, NodeUnreachable
from capacityd.model.node import Change, Event, NodeState, Plan
from capacityd.model.reading import Absent, Quantity, Reading
from capacityd.node.parse import node_state
from capacityd.reconcile.apply import TRIES, Denied, apply
from capacityd.reconcile.plan import make_plan
from capacityd.reconcile.plan_input import PlanInput
from tests.support.nodes import node
from tests.unit.reconcile.test_reconcile import MemoryNode

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


def _always(plan: Plan, _: NodeState, __: Denied) -> Plan:
    return plan


class Clock:
    """Time as apply has it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The longest pauses that could be drawn."""
    found = Clock()
    monkeypatch.setattr("capacityd.reconcile.apply.time", found)
    monkeypatch.setattr("capacityd.reconcile.apply.random", SimpleNamespace(uniform=_most))
    return found


def _most(least: float, most: float) -> float:
    assert least == 0
    return most


def plan(*changes: Change, newly: tuple[str, ...] = (), patch: Sequence[Mapping[str, object]] = PATCH) -> Plan:
    return Plan("n1", changes, tuple(patch), {}, newly_refused=newly)


def a_plan(_: NodeState, denied: Denied) -> Plan:
    return plan(Change("example.com/a", "set", "3", "4", "the hardware changed"))


def test_what_works_is_done_once(clock: Clock) -> None:
    node = FaultyNode()
    outcome = apply(node, a_plan, retry_timeout=0.0)
    assert (outcome.applied, outcome.warnings, node.reads, node.writes, len(node.told)) == (True, (), 1, 1, 1)
    assert clock.slept == []


def test_nothing_to_do_is_not_written_nor_told(clock: Clock) -> None:
    node = FaultyNode()
    outcome = apply(
        node, lambda _, __: plan(Change("example.com/a", "keep", "4", "4", ""), patch=()), retry_timeout=0.0
    )
    assert (outcome.applied, node.reads, node.writes, node.told) == (False, 1, 0, [])


def test_a_conflict_is_planned_anew(clock: Clock) -> None:
    node = FaultyNode(None, NodeConflict("no"), None, NodeConflict("no"))
    planned: list[NodeState] = []

    def decide(state: NodeState, denied: Denied) -> Plan:
        planned.append(state)
        return a_plan(state, denied)

    outcome = apply(node, decide, retry_timeout=0.0)
    assert outcome.applied
    assert (node.reads, node.writes, len(planned), len(node.told)) == (3, 3, 3, 1)
    assert len(clock.slept) == 2


def test_conflicts_come_to_an_end(clock: Clock) -> None:
    node = FaultyNode(*[None, NodeConflict("the Node is not as it was")] * 50)
    with pytest.raises(NodeConflict, match=f"not as it was; tried {TRIES} times"):
        apply(node, a_plan, retry_timeout=600.0)
    assert (node.reads, node.writes) == (TRIES, TRIES)
    assert clock.slept == [0.1 * 2**conflict for conflict in range(TRIES - 1)]
    assert sum(clock.slept) < 5


@pytest.mark.parametrize("error", [NodeDenied("no"), NodeRejected("nonsense"), NodeError("what?")])
def test_what_cannot_heal_is_not_tried_again(clock: Clock, error: NodeError) -> None:
    node = FaultyNode(error)
    with pytest.raises(type(error)):
        apply(node, a_plan, retry_timeout=600.0)
    assert (node.reads, clock.slept) == (1, [])


def test_without_patience_an_unreachable_server_is_told_at_once(clock: Clock) -> None:
    node = FaultyNode(NodeUnreachable("nobody there"))
    with pytest.raises(NodeUnreachable):
        apply(node, a_plan, retry_timeout=0.0)
    assert (node.reads, clock.slept) == (1, [])


def test_with_patience_it_is_tried_until_that_ends(clock: Clock) -> None:
    node = FaultyNode(*[NodeUnreachable("nobody there")] * 1_000)
    with pytest.raises(NodeUnreachable):
        apply(node, a_plan, retry_timeout=60.0)
    assert clock.slept[:3] == [2, 4, 5]
    assert 50 < sum(clock.slept) <= 60
    assert node.reads == len(clock.slept) + 1


def test_an_answer_that_was_lost_is_looked_for(clock: Clock) -> None:
    node = FaultyNode(None, NodeUnreachable("the answer was lost"))
    assert apply(node, a_plan, retry_timeout=60.0).applied
    assert (node.reads, node.writes) == (2, 2)
    assert len(node.told) == 1


def test_the_server_says_how_long_to_wait(clock: Clock) -> None:
    node = FaultyNode(NodeUnreachable("later", retry_after=7.0), NodeUnreachable("now", retry_after=0.0))
    assert apply(node, a_plan, retry_timeout=60.0).applied
    assert clock.slept == [7.0, 0.0]


def test_a_wait_that_is_longer_than_the_patience_is_not_begun(clock: Clock) -> None:
    node = FaultyNode(NodeUnreachable("later", retry_after=61.0))
    with pytest.raises(NodeUnreachable) as raised:
        apply(node, a_plan, retry_timeout=60.0)
    assert (raised.value.retry_after, clock.slept) == (61.0, [])
    assert apply(FaultyNode(NodeUnreachable("later", retry_after=60.0)), a_plan, retry_timeout=60.0).applied
    assert clock.slept == [60.0]


def test_an_event_that_fails_is_a_warning(clock: Clock) -> None:
    node = FaultyNode(telling=NodeDenied("events: forbidden"))
    outcome = apply(node, a_plan, retry_timeout=0.0)
    assert outcome.applied
    assert outcome.warnings == ("the Event could not be written: events: forbidden",)
    assert (node.reads, node.writes) == (1, 1)


@pytest.mark.parametrize(("lose", "drop", "reported"), [(1, 0, 0), (0, 1, 2)])
@pytest.mark.parametrize("reading", [Quantity(3), Absent("none")])
def test_events_are_created_at_most_once(clock: Clock, reading: Reading, lose: int, drop: int, reported: int) -> None:
    """If the answer to the write is lost they are not; if the write itself is, its repetition reports it."""
    memory = MemoryNode()
    memory.document = node({A: "4", B: "9"}, {A: 4})
    memory.lose, memory.drop = lose, drop
    for _ in range(3):
        apply(memory, lambda state, _: make_plan({A: reading, B: Quantity(1)}, state, PlanInput()), retry_timeout=60.0)
    assert memory.writes == 1
    assert len(memory.told) == reported
