"""Applying a plan: which requests are retried and for how long. No time passes here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeUnauthorized, NodeUnreachable
from capacityd.model.node import NodeState
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Absent, Quantity, Reading
from capacityd.reconcile.apply import MAX_CONFLICTS, Retries, Start, apply
from capacityd.reconcile.attempt import Denied
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan
from tests.support.nodes import node
from tests.unit.reconcile.doubles import MemoryNode

A, B = "example.com/a", "example.com/b"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses so far. They advance the clock, and each is the longest that the random choice allows."""
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr("capacityd.reconcile.apply.time", clock)
    monkeypatch.setattr("capacityd.reconcile.apply.random", SimpleNamespace(uniform=_most))
    return slept


def _most(least: float, most: float) -> float:
    assert least == 0
    return most


def publish(state: NodeState, record: MachineRecord | None, denied: Denied, _: Plan | None) -> Plan:
    return make_plan(state, Facts({A: Quantity(4)}))


def test_a_successful_write_is_not_repeated_whether_or_not_its_event_fails(slept: list[float]) -> None:
    node = MemoryNode()
    node.event_error = NodeUnauthorized("events: forbidden")
    warning = "the Event could not be written: events: forbidden"
    for applied in (True, False):
        outcome = apply(node, publish, Start(None))
        assert (outcome.applied, outcome.warnings) == (applied, (warning,) if applied else ())
    assert (node.reads, node.writes, len(node.events), slept) == (2, 1, 1, [])


def test_conflicts_are_retried_a_few_times(slept: list[float]) -> None:
    node = MemoryNode(*[None, NodeConflict("the Node is not as it was")] * 50)
    with pytest.raises(NodeConflict, match=f"not as it was; tried {MAX_CONFLICTS} times"):
        apply(node, publish, Start(None), retries=Retries(600.0))
    assert node.reads == MAX_CONFLICTS
    assert slept == [0.1 * 2**conflict for conflict in range(MAX_CONFLICTS - 1)]
    assert sum(slept) < 5


def later(seconds: float) -> NodeUnreachable:
    return NodeUnreachable("later", retry_after=seconds)


UNREACHABLE = NodeUnreachable("nobody there")


@pytest.mark.parametrize(
    ("errors", "patience", "pauses", "applied"),
    [
        *(([kind("no")], 600.0, [], False) for kind in (NodeUnauthorized, NodeRejected, NodeError)),
        ([None, NodeConflict("no"), None, NodeConflict("no")], 0.0, [0.1, 0.2], True),
        ([UNREACHABLE], 0.0, [], False),
        ([UNREACHABLE] * 50, 20.0, [2.0, 4.0, 5.0, 5.0], False),
        ([later(7.0), later(0.0)], 60.0, [7.0, 0.0], True),  # Retry-After
        ([later(60.0)], 60.0, [60.0], True),
        ([later(61.0)], 60.0, [], False),  # a wait longer than the patience is not started
    ],
)
def test_which_errors_are_retried_and_for_how_long(
    slept: list[float], errors: list[NodeError | None], patience: float, pauses: list[float], applied: bool
) -> None:
    node = MemoryNode(*errors)
    if applied:
        assert apply(node, publish, Start(None), retries=Retries(patience)).applied
    else:
        with pytest.raises(NodeError) as raised:
            apply(node, publish, Start(None), retries=Retries(patience))
        assert raised.value is errors[0]
    assert slept == pauses
    assert node.reads == len(pauses) + 1


@pytest.mark.parametrize(("lose", "drop", "reported"), [(1, 0, 0), (0, 1, 2)])
@pytest.mark.parametrize("reading", [Quantity(3), Absent("none")])
def test_events_are_created_at_most_once(
    slept: list[float], reading: Reading, lose: int, drop: int, reported: int
) -> None:
    """If only the response to the write is lost, no Events are created. If the write is lost, its retry creates two."""
    unreliable = MemoryNode()
    unreliable.document = node({A: "4", B: "9"}, {A: 4})
    unreliable.lose, unreliable.drop = lose, drop

    def decide(state: NodeState, record: MachineRecord | None, denied: Denied, _: Plan | None) -> Plan:
        return make_plan(state, Facts({A: reading, B: Quantity(1)}))

    for _ in range(3):
        apply(unreliable, decide, Start(None), retries=Retries(60.0))
    assert unreliable.writes == 1
    assert len(unreliable.events) == reported
