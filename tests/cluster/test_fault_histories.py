"""One random history of faults on the real API server, and what its judge notices. fault_histories.py runs forty."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.agent import ANNOTATION, CONDITION
from tests.cluster.controlplane import Cluster
from tests.cluster.fault_histories import plan, run
from tests.cluster.fault_scene import FAULTS
from tests.cluster.nodewatch import Version
from tests.cluster.truth import SLACK, Change, Lie, Span, allowed, belongs_to_another, is_right, lies, right_within

NAME = "example.com/a"
TRUE, FALSE = "True", "False"


def version(at: float, status: str, published: int, allocatable: int | None = None, uid: str = "1") -> Version:
    """A Node. allocatable: by default as published."""
    capacity = {NAME: str(published)}
    node: dict[str, Any] = {
        "metadata": {"uid": uid, "annotations": {ANNOTATION: json.dumps({NAME: published})}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity if allocatable is None else {NAME: str(allocatable)},
            "conditions": [{"type": CONDITION, "status": status}],
        },
    }
    return Version("MODIFIED", at, node)


def test_a_lie_lasts_from_the_change_to_the_next_right_version() -> None:
    two, three = Change(0, {NAME: 2}), Change(10, {NAME: 3})
    assert lies([version(1, TRUE, 2)], [two], 9) == []
    assert lies([version(1, TRUE, 2), version(12, TRUE, 3)], [two, three], 20) == [Lie(NAME, 10, 12)]
    assert lies([version(1, TRUE, 2), version(12, FALSE, 2)], [two, three], 20) == [Lie(NAME, 10, 12)]
    assert lies([version(1, TRUE, 2, 0)], [two], 9) == [Lie(NAME, 1, 9)]
    assert lies([version(1, TRUE, 2)], [two, Change(5, {NAME: None})], 9) == [Lie(NAME, 5, 9)]
    gone = Version("DELETED", 11, version(1, TRUE, 2).node)
    assert lies([version(1, TRUE, 2), gone], [two, three], 20) == [Lie(NAME, 10, 11)]
    assert is_right(version(1, TRUE, 2), {NAME: 2})
    assert not is_right(version(1, FALSE, 2), {NAME: 2})


def test_the_numbers_that_another_agent_publishes_first_on_a_new_node_are_its_own() -> None:
    changes = [Change(0, {NAME: 2}), Change(10, {NAME: 3})]
    assert not belongs_to_another([version(1, TRUE, 2)], changes)
    assert not belongs_to_another([version(1, TRUE, 2), version(12, TRUE, 7)], changes)
    anew = [version(1, TRUE, 2), version(12, TRUE, 7, uid="2"), version(13, TRUE, 3, uid="2")]
    assert belongs_to_another(anew, changes)


def test_how_long_a_lie_may_last() -> None:
    lie = Lie(NAME, 100, 130)
    assert allowed(lie, [], []) == SLACK
    assert allowed(lie, [], [10, 30, 50, 70, 90]) == SLACK + 60
    assert allowed(lie, [Span("role", 90, 110)], []) == 110 + 60 - 100 + SLACK
    assert allowed(lie, [Span("role", 0, 20)], []) == SLACK
    assert allowed(lie, [Span("mount", 100, 110)], []) == 60 + SLACK
    assert allowed(lie, [Span("policy", 90, 200)], []) == SLACK
    assert right_within([Span("policy", 0, 50), Span("role", 20, 1000)]) == 100 + SLACK
    assert right_within([Span("policy", 0, 50), Span("agent", 20, 60)]) == 80 + SLACK
    assert right_within([Span("role", 0, 50), Span("agent", 20, 60)]) == 60 + 80 + SLACK


def test_the_plans_have_every_fault() -> None:
    plans = [plan(1, number) for number in range(40)]
    counts = {kind: sum(any(p.kind == kind for p in planned) for planned in plans) for kind in FAULTS}
    assert min(counts.values()) >= 3
    assert {len(planned) for planned in plans} == {2, 3, 4}


@pytest.mark.whole
@pytest.mark.parametrize("number", [0, 4])
def test_a_history_ends_right(cluster: Cluster, number: int) -> None:
    outcome = run(cluster, number, plan(1, number))
    assert outcome.wrong == []
    assert len(outcome.spans) == len(outcome.planned)
