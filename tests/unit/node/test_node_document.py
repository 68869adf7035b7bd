"""Which fields of a Node's JSON capacityd uses, and which documents are not Nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.node import ANNOTATION, CONDITION, Condition, NodeState
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.documents.node import node_state

OURS = {"type": CONDITION, "status": "False", "reason": "Unknown", "message": "unknown: x", "lastHeartbeatTime": None}


def document(metadata: Any = None, status: Any = None) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": "n1", **(metadata or {})}, "status": status}


def test_a_node_has_all_its_fields() -> None:
    state = node_state(
        document(
            {"uid": "u-1", "resourceVersion": "77", "annotations": {ANNOTATION: '{"example.com/x":\n1}'}},
            {
                "capacity": {"cpu": "4", "example.com/x": "1"},
                "allocatable": {"cpu": "3800m"},
                "conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}, OURS],
                "nodeInfo": {"machineID": "abc"},
            },
        )
    )
    assert (state.name, state.uid, state.machine_id, state.resource_version) == ("n1", "u-1", "abc", "77")
    assert (state.capacity, state.allocatable) == ({"cpu": "4", "example.com/x": "1"}, {"cpu": "3800m"})
    assert state.annotation == '{"example.com/x":\n1}', "unchanged, because it is compared"
    assert state.conditions == (Condition("False", "Unknown", "unknown: x"),)


@pytest.mark.parametrize("status", [None, {}, {"capacity": None, "conditions": None, "nodeInfo": None}])
def test_missing_fields_are_empty(status: Any) -> None:
    state = node_state(document({"annotations": None}, status))
    assert replace(state, fingerprint="") == NodeState("n1")


@pytest.mark.parametrize("text", ["1k", "1e3", "1E3", "+1000", "1000.0", "1000000m", "0.001M", "1000"])
def test_a_whole_number_is_in_plain_digits(text: str) -> None:
    """The API server stores 1000 as 1k. A label is not normalized, because a selector compares its text."""
    state = node_state(document({"labels": {"x": text}}, {"capacity": {"x": text}, "allocatable": {"x": text}}))
    assert (state.capacity, state.allocatable, state.labels) == ({"x": "1000"}, {"x": "1000"}, {"x": text})


@pytest.mark.parametrize("text", ["1500m", "0.5", "1e30", "9" * 4300])
def test_what_is_no_whole_number_of_64_bits_is_unchanged(text: str) -> None:
    assert node_state(document(status={"capacity": {"x": text}})).capacity == {"x": text}


def test_text_is_safe_to_print() -> None:
    status = {"capacity": {"a\nb": "1"}, "nodeInfo": {"machineID": "\0"}}
    state = node_state(document({"name": "n\x1b[31m", "uid": "u\x1b"}, status))
    assert (state.name, state.capacity, state.machine_id) == ("n\\x1b[31m", {"a\\nb": "1"}, "\\x00")
    assert state.uid == "u\x1b", "unchanged, because it is compared"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ([], "not a JSON object"),
        ({}, "its kind is missing"),
        ({"kind": "Pod\x1b"}, "its kind is missing, or another one"),
        ({"kind": "List", "items": [document()]}, "kubectl get node NAME -o json"),
        ({"kind": "Node"}, "metadata.name is missing"),
        (document({"name": 3}), "name is not text"),
        (document({"uid": {}}), "uid is not text"),
        (document({"annotations": {ANNOTATION: {}}}), f"{ANNOTATION} is not text"),
        (document(status=3), "status is not a JSON object"),
        (document(status={"capacity": {"cpu": 4}}), "capacity has an invalid quantity"),
        (document(status={"capacity": {"cpu": "1\x07"}}), "capacity has an invalid quantity"),
        (document(status={"conditions": [3]}), "conditions is not a list"),
        (document(status={"conditions": [{"type": CONDITION, "status": 1}]}), "status is not text"),
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


def test_all_conditions_of_our_type_are_kept() -> None:
    state = node_state(document(status={"conditions": [OURS, {"type": "Ready"}, OURS | {"message": "later"}]}))
    assert [condition.message for condition in state.conditions] == ["unknown: x", "later"]
    assert state.condition == state.conditions[0]


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
        assert all(isinstance(quantity, str) for quantity in state.capacity.values())
