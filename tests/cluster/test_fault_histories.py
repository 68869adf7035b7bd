"""Each fault alone on the real API server, and what the judge notices. fault_histories.py mixes the faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.agent import ANNOTATION, CONDITION
from tests.cluster.controlplane import Cluster
from tests.cluster.fault_histories import Planned, plan, run
from tests.cluster.fault_scene import FAULTS
from tests.cluster.nodewatch import Version
from tests.cluster.truth import Change, Span, broken_promise

NAME = "example.com/a"
TRUE, FALSE = "True", "False"
LENGTH = 30.0
"""Seconds that a fault lasts."""


def version(at: float, status: str, published: int, allocatable: int | None = None) -> Version:
    """A Node. allocatable: by default as published."""
    capacity = {NAME: str(published)}
    node: dict[str, Any] = {
        "metadata": {"uid": "1", "annotations": {ANNOTATION: json.dumps({NAME: published})}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity if allocatable is None else {NAME: str(allocatable)},
            "conditions": [{"type": CONDITION, "status": status}],
        },
    }
    return Version("MODIFIED", at, node)


TWO, THREE = Change(0, {NAME: 2}), Change(10, {NAME: 3})
_RIGHT = [version(1, TRUE, 2), version(12, TRUE, 3)]
_LATE = [version(1, TRUE, 2), version(90, TRUE, 3)]
_ZEROED = [version(1, TRUE, 2), version(20, TRUE, 2, 0)]
_DENIED = [version(1, TRUE, 2), version(12, FALSE, 2), version(110, TRUE, 3)]


@pytest.mark.parametrize(
    ("versions", "changes", "spans", "promise"),
    [
        (_RIGHT, [TWO, THREE], [], ""),
        (_LATE, [TWO, THREE], [], "true_only_while_right"),
        (_LATE, [TWO, THREE], [Span("role", 5, 60)], ""),
        (_LATE, [TWO, THREE], [Span("mount", 9, 30)], ""),
        (_LATE, [TWO, Change(10, {NAME: None})], [], "true_only_while_right"),
        (_ZEROED, [TWO], [], "true_only_while_right"),
        (_DENIED, [TWO, THREE], [], "right_in_time"),
        (_DENIED, [TWO, THREE], [Span("policy", 9, 60)], ""),
    ],
)
def test_the_judge_finds_what_the_versions_break(
    versions: list[Version], changes: list[Change], spans: list[Span], promise: str
) -> None:
    broken = broken_promise(versions, changes, spans, 130)
    assert (broken.name if broken else "") == promise


def test_the_plans_have_every_fault() -> None:
    plans = [plan(1, number) for number in range(40)]
    counts = {kind: sum(any(p.kind == kind for p in planned) for planned in plans) for kind in FAULTS}
    assert min(counts.values()) >= 3
    assert {len(planned) for planned in plans} == {2, 3, 4}


@pytest.mark.whole
@pytest.mark.parametrize("kind", FAULTS)
def test_after_each_fault_the_node_is_right_again(cluster: Cluster, kind: str) -> None:
    outcome = run(cluster, [*FAULTS].index(kind), [Planned(kind, 0, LENGTH)])
    assert outcome.wrong == []
