"""Which fields of a Node's JSON capacityd uses, and which documents are not Nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.node import ANNOTATION, CONDITION
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.documents.node import node_state

OURS = {"type": CONDITION, "status": "False", "reason": "Unknown", "message": "unknown: x", "lastHeartbeatTime": None}


def document(metadata: Any = None, status: Any = None) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": "n1", **(metadata or {})}, "status": status}


def test_a_node_has_all_its_fields() -> None:
    state = node_state(
        document(
            {"uid": "u-1", "annotations": {ANNOTATION: '{"example.com/x":\n1}'}},
            {
                "capacity": {"cpu": "4", "example.com/x": "1"},
                "allocatable": {"cpu": "3800m"},
                "conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}, OURS],
                "nodeInfo": {"machineID": "abc"},
            },
        )
    )
    assert (state.name, state.uid, state.machine_id, state.has_annotations) == ("n1", "u-1", "abc", True)
    assert (state.capacity, state.allocatable) == ({"cpu": "4", "example.com/x": "1"}, {"cpu": "3800m"})
    assert state.annotation == '{"example.com/x":\n1}', "a guard needs it to the letter"
    assert state.condition_count == 2
    assert state.condition is not None
    assert (state.condition.index, state.condition.status, state.condition.reason) == (1, "False", "Unknown")
    assert state.condition.document == OURS


@pytest.mark.parametrize("status", [None, {}, {"capacity": None, "conditions": None, "nodeInfo": None}])
def test_what_is_missing_is_not_made_up(status: Any) -> None:
    state = node_state(document({"annotations": None}, status))
    assert not state.has_annotations
    assert (state.capacity, state.allocatable, state.annotation, state.condition_count, state.condition) == (None,) * 5
    assert (state.uid, state.machine_id) == ("", "")


def test_an_empty_map_is_there() -> None:
    state = node_state(document({"annotations": {}}, {"capacity": {}, "allocatable": {}, "conditions": []}))
    assert (state.capacity, state.allocatable, state.has_annotations, state.condition_count) == ({}, {}, True, 0)


def test_text_is_safe_to_print() -> None:
    status = {"capacity": {"a\nb": "1"}, "nodeInfo": {"machineID": "\0"}}
    state = node_state(document({"name": "n\x1b[31m", "uid": "u\x1b"}, status))
    assert (state.name, state.capacity, state.machine_id) == ("n\\x1b[31m", {"a\\nb": "1"}, "\\x00")
    assert state.uid == "u\x1b", "a guard needs it unchanged"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ([], "not a JSON object"),
        ({}, "its kind is missing"),
        ({"kind": "Pod\x1b"}, "its kind is missing, or another one"),
        ({"kind": "List", "items": [document()]}, "kubectl get node NAME -o json"),
        ({"kind": "Node"}, "metadata.name is missing"),
        (document({"name": 3}), "metadata.name is not text"),
        (document({"uid": {}}), "metadata.uid is not text"),
        (document({"annotations": {ANNOTATION: {}}}), f"annotation {ANNOTATION} is not text"),
        (document(status=3), "status is not a JSON object"),
        (document(status={"capacity": {"cpu": 4}}), "status.capacity has an invalid quantity"),
        (document(status={"capacity": {"cpu": "1\x07"}}), "status.capacity has an invalid quantity"),
        (document(status={"conditions": [3]}), "status.conditions is not a list"),
        (document(status={"conditions": [{"type": CONDITION, "status": 1}]}), f"condition {CONDITION} is not text"),
    ],
)
def test_a_wrong_shape_is_named(wrong: Any, expected: str) -> None:
    with pytest.raises(InvalidDocument) as raised:
        node_state(wrong)
    assert expected in str(raised.value)


KEYS = ["capacity", "conditions", "type", "name", "annotations", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("stamp", ["yesterdayZ", "2026-01-02T03:04:05+01:00", None])
def test_an_invalid_heartbeat_counts_as_none(stamp: str | None) -> None:
    conditions = [
        {"type": "DiskPressure", "lastHeartbeatTime": "2026-01-02T03:04:05Z"},
        {"type": "Ready", "lastHeartbeatTime": stamp},
        OURS | {"lastHeartbeatTime": stamp or 7},
    ]
    state = node_state(document(status={"conditions": conditions}))
    assert state.condition is not None
    assert state.condition.heartbeat is None


def test_further_own_conditions_are_surplus() -> None:
    state = node_state(document(status={"conditions": [OURS, {"type": "Ready"}, OURS | {"message": "later"}]}))
    assert state.condition is not None
    assert (state.condition.index, state.condition.message) == (0, "unknown: x")
    assert [(c.index, c.message) for c in state.duplicate_conditions] == [(2, "later")]


@given(JSON, JSON)
def test_any_json_is_a_node_or_an_error(metadata: Any, status: Any) -> None:
    error, state = "", None
    try:
        state = node_state({"kind": "Node", "metadata": metadata, "status": status})
    except InvalidDocument as e:
        error = str(e)
    assert error.isprintable()
    if state is not None:
        assert state.name.isprintable()
        assert all(isinstance(quantity, str) for quantity in (state.capacity or {}).values())
