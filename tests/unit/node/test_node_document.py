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
    """A Node's JSON with these metadata and this status."""
    return {"kind": "Node", "metadata": {"name": "n1", **(metadata or {})}, "status": status}


def test_a_node_has_all_its_fields() -> None:
    state = node_state(
        document(
            {
                "name": "n\x1b",
                "uid": "u\x1b",
                "resourceVersion": "77",
                "annotations": {ANNOTATION: '{"example.com/x":\n1}'},
            },
            {
                "capacity": {"cpu": "4", "a\nb": "1"},
                "allocatable": {"cpu": "3800m"},
                "conditions": [OURS, {"type": "Ready"}, OURS | {"message": "later"}],
                "nodeInfo": {"machineID": "\0", "systemUUID": "abc"},
            },
        )
    )
    assert (state.resource_version, state.system_uuid) == ("77", "abc")
    assert (state.name, state.machine_id) == ("n\\x1b", "\\x00"), "safe to print"
    assert state.capacity == {"cpu": "4", "a\\nb": "1"}
    assert state.allocatable == {"cpu": "3800m"}
    assert (state.uid, state.annotation) == ("u\x1b", '{"example.com/x":\n1}'), "unchanged, because they are compared"
    first = Condition("False", "Unknown", "unknown: x")
    assert state.conditions == (first, replace(first, message="later"))
    assert state.condition == first


@pytest.mark.parametrize("status", [None, {}, {"capacity": None, "conditions": None, "nodeInfo": None}])
def test_missing_fields_are_empty(status: Any) -> None:
    state = node_state(document({"annotations": None}, status))
    assert replace(state, fingerprint="") == NodeState("n1")


@pytest.mark.parametrize("text", ["1k", "1e3", "1E3", "+1000", "1000.0", "1000000m", "0.001M", "1000"])
def test_a_whole_number_is_in_plain_digits(text: str) -> None:
    """The API server stores 1000 as 1k. A label is not normalized, because a selector compares its text."""
    state = node_state(document({"labels": {"x": text}}, {"capacity": {"x": text}, "allocatable": {"x": text}}))
    assert (state.capacity, state.allocatable, state.labels) == ({"x": "1000"}, {"x": "1000"}, {"x": text})


@pytest.mark.parametrize("text", ["1500m", "0.5", "1e30", "9" * 4300])  # int() accepts 4300 digits
def test_what_is_no_whole_number_of_64_bits_is_unchanged(text: str) -> None:
    assert node_state(document(status={"capacity": {"x": text}})).capacity == {"x": text}


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("yesterdayZ", None),
        ("2026-01-02T03:04:05+01:00", None),
        (7, None),
        (None, None),
    ],
)
def test_an_invalid_heartbeat_counts_as_none(stamp: object, seconds: float | None) -> None:
    state = node_state(document(status={"conditions": [OURS | {"lastHeartbeatTime": stamp}]}))
    assert state.condition is not None
    assert state.condition.heartbeat == seconds


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ([], "this is not a Node"),
        ({"kind": "List", "items": [document()]}, "this is not a Node"),
        ({"kind": "Node"}, "metadata.name is missing"),
        (document({"name": 3}), "name is not text"),
        (document({"uid": {}}), "uid is not text"),
        (document({"annotations": {ANNOTATION: {}}}), f"{ANNOTATION} is not text"),
        (document(status=3), "status is not an object"),
        (document(status={"capacity": {"cpu": 4}}), "capacity has an invalid quantity"),
        (document(status={"capacity": {"cpu": "1\x07"}}), "capacity has an invalid quantity"),
        (document(status={"conditions": [3]}), "conditions is not a list"),
        (document(status={"conditions": [{"type": CONDITION, "status": 1}]}), "status is not text"),
    ],
)
def test_a_wrong_shape_is_named(wrong: Any, expected: str) -> None:
    with pytest.raises(InvalidDocument, match=expected):
        node_state(wrong)


KEYS = ["capacity", "conditions", "type", "name", "annotations", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_any_json_is_a_node_or_an_error(metadata: Any, status: Any) -> None:
    try:
        state = node_state({"kind": "Node", "metadata": metadata, "status": status})
    except InvalidDocument as e:
        assert str(e).isprintable()  # noqa: PT017  # both outcomes are right
        return
    assert state.name.isprintable()
    assert all(isinstance(quantity, str) for quantity in state.capacity.values())
