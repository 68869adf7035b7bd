"""Two faults at the same time on the real API server. After them, the Node is right again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.cluster.agent import ANNOTATION, CONDITION
from tests.cluster.controlplane import Cluster
from tests.cluster.fault_histories import run
from tests.cluster.fault_scene import FAULTS
from tests.cluster.nodewatch import Version
from tests.cluster.truth import Change, Span, broken_promise

NAME = "example.com/a"
TRUE, FALSE = "True", "False"


def version(at: float, status: str, published: int, allocatable: int | None = None) -> Version:
    """A version of a Node, received at this second. status: the condition's. allocatable: by default as published."""
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


# The machine's quantity is 2 at second 0, and 3 from second 10. version() gets: second, condition, published number.
TWO, THREE = Change(0, {NAME: 2}), Change(10, {NAME: 3})
_RIGHT = [version(1, TRUE, 2), version(12, TRUE, 3)]
_LATE = [version(1, TRUE, 2), version(90, TRUE, 3)]
_ZEROED = [version(1, TRUE, 2), version(20, TRUE, 2, allocatable=0)]
_DENIED = [version(1, TRUE, 2), version(12, FALSE, 2), version(110, TRUE, 3)]
END = 130
"""The second until which the judge looks."""


@pytest.mark.parametrize(
    ("versions", "changes", "spans", "promise"),
    [  # A Span is a fault, with the seconds at which it begins and ends. The promise is the broken one.
        (_RIGHT, [TWO, THREE], [], ""),
        (_LATE, [TWO, THREE], [], "true_only_while_right"),
        (_LATE, [TWO, THREE], [Span("nospace", 5, 60)], ""),
        (_LATE, [TWO, THREE], [Span("mount", 9, 30)], ""),
        (_LATE, [TWO, THREE], [Span("inotify", 5, 25), Span("mount", 9, 30)], ""),
        (_LATE, [TWO, Change(10, {NAME: None})], [], "true_only_while_right"),
        (_ZEROED, [TWO], [], "true_only_while_right"),
        (_DENIED, [TWO, THREE], [], "right_in_time"),
        (_DENIED, [TWO, THREE], [Span("policy", 9, 60)], ""),
    ],
)
def test_the_judge_finds_the_broken_promises_of_versions(
    versions: list[Version], changes: list[Change], spans: list[Span], promise: str
) -> None:
    broken = broken_promise(versions, changes, spans, END)
    assert (broken.name if broken else "") == promise


HISTORIES: Mapping[str, Sequence[Span]] = {  # each fault with the seconds at which it begins and ends
    "a webhook denies, and the kubelet starts before its runtime": [
        Span("webhook", 0, 30),
        Span("runtime", 10, 45),  # ends last, because a kubelet reports only when nothing hinders it
    ],
    "a mount hides a folder, and a policy denies": [Span("mount", 0, 40), Span("policy", 10, 30)],
    "no file can be watched, and another agent writes": [Span("inotify", 0, 30), Span("agent", 5, 40)],
    "a source is too old, and a webhook removes the condition": [Span("max_age", 0, 40), Span("condition", 15, 50)],
    "the Node is registered anew, and then etcd is full": [Span("anew", 0, 20), Span("nospace", 25, 50)],
}


def test_the_histories_have_every_fault() -> None:
    assert {planned.kind for history in HISTORIES.values() for planned in history} == {*FAULTS}


@pytest.mark.whole
@pytest.mark.parametrize("name", HISTORIES)
def test_after_two_faults_the_node_is_right_again(cluster: Cluster, name: str) -> None:
    assert run(cluster, HISTORIES[name]) == []
