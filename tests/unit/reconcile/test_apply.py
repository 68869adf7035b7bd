"""Applying a plan: what is tried again and for how long. No time passes here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from capacityd.model.errors import NodeConflict, NodeDenied, NodeError, NodeRejected, NodeUnreachable
from capacityd.model.node import NodeState, Plan
from capacityd.model.reading import Absent, Quantity, Reading
from capacityd.reconcile.apply import TRIES, Denied, apply
from capacityd.reconcile.plan import make_plan
from capacityd.reconcile.plan_input import PlanInput
from tests.support.nodes import node
from tests.unit.reconcile.doubles import MemoryNode

A, B = "example.com/a", "example.com/b"


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


def publish(state: NodeState, _: Denied) -> Plan:
    return make_plan({A: Quantity(4)}, state, PlanInput())


def test_what_works_is_done_once_and_nothing_to_do_is_not_written_nor_told(clock: Clock) -> None:
    node = MemoryNode()
    for applied in (True, False):
        outcome = apply(node, publish, retry_timeout=0.0)
        assert (outcome.applied, outcome.warnings) == (applied, ())
    assert (node.reads, node.writes, len(node.told), clock.slept) == (2, 1, 1, [])


def test_a_conflict_is_planned_anew(clock: Clock) -> None:
    node = MemoryNode(None, NodeConflict("no"), None, NodeConflict("no"))
    planned: list[NodeState] = []

    def decide(state: NodeState, denied: Denied) -> Plan:
        planned.append(state)
        return publish(state, denied)

    assert apply(node, decide, retry_timeout=0.0).applied
    assert (node.reads, node.writes, len(planned), len(node.told)) == (3, 1, 3, 1)
    assert len(clock.slept) == 2


def test_conflicts_come_to_an_end(clock: Clock) -> None:
    node = MemoryNode(*[None, NodeConflict("the Node is not as it was")] * 50)
    with pytest.raises(NodeConflict, match=f"not as it was; tried {TRIES} times"):
        apply(node, publish, retry_timeout=600.0)
    assert node.reads == TRIES
    assert clock.slept == [0.1 * 2**conflict for conflict in range(TRIES - 1)]
    assert sum(clock.slept) < 5


@pytest.mark.parametrize(
    ("error", "patience"),
    [
        *((kind("no"), 600.0) for kind in (NodeDenied, NodeRejected, NodeError)),
        (NodeUnreachable("nobody there"), 0.0),
    ],
)
def test_what_cannot_heal_in_time_is_not_tried_again(clock: Clock, error: NodeError, patience: float) -> None:
    node = MemoryNode(error)
    with pytest.raises(type(error)):
        apply(node, publish, retry_timeout=patience)
    assert (node.reads, clock.slept) == (1, [])


def test_with_patience_it_is_tried_until_that_ends(clock: Clock) -> None:
    node = MemoryNode(*[NodeUnreachable("nobody there")] * 1_000)
    with pytest.raises(NodeUnreachable):
        apply(node, publish, retry_timeout=60.0)
    assert clock.slept[:3] == [2, 4, 5]
    assert 50 < sum(clock.slept) <= 60
    assert node.reads == len(clock.slept) + 1


def test_the_server_says_how_long_to_wait(clock: Clock) -> None:
    node = MemoryNode(NodeUnreachable("later", retry_after=7.0), NodeUnreachable("now", retry_after=0.0))
    assert apply(node, publish, retry_timeout=60.0).applied
    assert clock.slept == [7.0, 0.0]


def test_a_wait_that_is_longer_than_the_patience_is_not_begun(clock: Clock) -> None:
    with pytest.raises(NodeUnreachable) as raised:
        apply(MemoryNode(NodeUnreachable("later", retry_after=61.0)), publish, retry_timeout=60.0)
    assert (raised.value.retry_after, clock.slept) == (61.0, [])
    assert apply(MemoryNode(NodeUnreachable("later", retry_after=60.0)), publish, retry_timeout=60.0).applied
    assert clock.slept == [60.0]


def test_an_event_that_fails_is_a_warning(clock: Clock) -> None:
    node = MemoryNode()
    node.event_error = NodeDenied("events: forbidden")
    outcome = apply(node, publish, retry_timeout=0.0)
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
