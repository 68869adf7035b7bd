"""The guards of a patch: if another writer changes the Node between the read and the write, the whole patch fails."""

from __future__ import annotations

import copy

import pytest

from capacityd.model.errors import NodeConflict
from capacityd.model.label import label_of
from capacityd.model.node import ANNOTATION, CONDITION, ConditionReason
from capacityd.model.plan import Action, Change
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.reconcile.condition import DesiredCondition
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.patch import patch_for
from capacityd.reconcile.plan import make_plan
from tests.support.configs import config_with
from tests.support.nodes import apply_patch, node

NAME = "example.com/a"


# reading, the Node's value, the annotation's value, adopt
PLANS: list[tuple[Reading, str | None, int | None, bool]] = [
    (Quantity(4), "3", 3, False),  # changes the key and the annotation
    (Quantity(4), "0", 4, False),  # changes only the key
    (Unknown("busy"), "0", 4, False),
    (Absent("none"), "4", 4, False),  # removes both
    (Quantity(4), "4", None, True),  # changes only the annotation
    (Quantity(4), "4", 3, False),
]
PARENTS: list[tuple[str, str, object]] = [
    ("status", "capacity", {"cpu": "8"}),
    ("status", "allocatable", {"cpu": "8"}),
    ("metadata", "annotations", {"theirs": "x"}),
    ("status", "conditions", [{"type": "Ready"}]),
]
"""Fields that a Node may lack, and values that another writer may set."""
BETWEEN = [
    ("metadata", "annotations", {"theirs": "x"}),
    ("metadata", "annotations", {"theirs": "x", ANNOTATION: '{"example.com/b":1}'}),
    ("status", "capacity", {}),
    ("status", "capacity", {NAME: "7"}),
    ("metadata", "uid", "another"),
]
"""Changes by another writer between the read and the write."""


@pytest.mark.parametrize(("part", "field", "value"), BETWEEN)
@pytest.mark.parametrize(("reading", "current", "annotated", "adopt"), PLANS)
def test_a_plan_for_another_node_is_not_written(
    reading: Reading, current: str | None, annotated: int | None, adopt: bool, part: str, field: str, value: object
) -> None:
    document = node({NAME: current} if current else {}, {NAME: annotated} if annotated is not None else None)
    plan = make_plan(node_state(document), Facts({NAME: reading}, config_with(adopt={NAME} if adopt else ())))
    assert plan.write.patch
    apply_patch(document, plan.write.patch)
    before, document[part][field] = document[part][field], value
    if value != before:
        with pytest.raises(NodeConflict):
            apply_patch(document, plan.write.patch)


@pytest.mark.parametrize("condition", [True, False])
def test_of_several_own_conditions_one_or_none_remains(condition: bool) -> None:
    """Two instances of capacityd that write at once can each append a condition."""
    document = node(condition="True")
    ours, ready = document["status"]["conditions"]
    document["status"]["conditions"] = [ours, ready, ours | {"status": "False"}, ours]
    plan = make_plan(node_state(document), Facts({NAME: Absent("none")}, config_with(condition=condition)))
    written = apply_patch(document, plan.write.patch)
    assert [c["type"] for c in written["status"]["conditions"]] == ([CONDITION, "Ready"] if condition else ["Ready"])
    for index in (0, 2, 3):
        changed = copy.deepcopy(document)
        changed["status"]["conditions"][index]["message"] = "another's"
        with pytest.raises(NodeConflict):
            apply_patch(changed, plan.write.patch)


@pytest.mark.parametrize("current", [f'{{"{NAME}": true, "example.com/b": 2}}', f'{{"{NAME}":1,"example.com/b":2.0}}'])
def test_an_annotation_with_equal_values_of_other_types_is_rewritten(current: str) -> None:
    document = node({NAME: "1", "example.com/b": "2"}, current)
    readings = {NAME: Quantity(1), "example.com/b": Quantity(2)}
    plan = make_plan(node_state(document), Facts(readings, config_with(adopt={NAME, "example.com/b"})))
    written = apply_patch(document, plan.write.patch)
    assert written["metadata"]["annotations"][ANNOTATION] == f'{{"{NAME}":1,"example.com/b":2}}'


def test_a_published_key_whose_restoration_is_held_back_is_guarded_as_missing() -> None:
    """The rate limit may hold back a key that another writer has just removed from capacity."""
    document = node({}, {NAME: 4}, condition="False")
    document["status"]["allocatable"][NAME] = "4"
    condition = DesiredCondition(ConditionReason.PUBLISHED, "all", heartbeat=0.0)
    patch = patch_for(node_state(document), (), {NAME: 4}, None, condition)
    assert [c["status"] for c in apply_patch(document, patch)["status"]["conditions"] if c["type"] == CONDITION] == [
        "True"
    ]
    document["status"]["capacity"][NAME] = "7"
    with pytest.raises(NodeConflict):
        apply_patch(document, patch)


@pytest.mark.parametrize(
    ("part", "field", "name"),
    [("metadata", "labels", label_of(NAME)), ("status", "capacity", NAME), ("status", "allocatable", NAME)],
)
def test_a_published_key_of_a_missing_map_is_guarded_as_missing(part: str, field: str, name: str) -> None:
    """The API server fails every test below a missing map, also a test for null."""
    document = node({NAME: "4"}, {name: 4}, condition="False")
    document[part].pop(field, None)
    condition = DesiredCondition(ConditionReason.PUBLISHED, "all", heartbeat=0.0)
    patch = patch_for(node_state(document), (), {name: 4}, None, condition)
    assert apply_patch(document, patch)["status"]["conditions"][0]["status"] == "True"
    document[part][field] = {NAME: "7"}
    with pytest.raises(NodeConflict):
        apply_patch(document, patch)


@pytest.mark.parametrize("part", ["capacity", "allocatable"])
def test_the_condition_becomes_true_only_if_all_that_is_published_is_still_there(part: str) -> None:
    document = node({NAME: "1", "example.com/b": "2"}, {NAME: 1, "example.com/b": 1}, condition="False")
    plan = make_plan(node_state(document), Facts({NAME: Quantity(1), "example.com/b": Quantity(2)}))
    apply_patch(document, plan.write.patch)
    document["status"][part][NAME] = "0"
    with pytest.raises(NodeConflict):
        apply_patch(document, plan.write.patch)


@pytest.mark.parametrize(
    ("reading", "current", "allocatable", "after"),
    [
        (Quantity(4), "3", "3", "4"),
        (Quantity(4), "3", None, "4"),
        (Quantity(4), "3", "4", "4"),  # the kubelet is about to lower allocatable
        (Quantity(4), "4", "3", "4"),
        (Quantity(4), "4", "4000m", "4000m"),
        (Quantity(4), None, "3", "4"),
        (Unknown("busy"), "3", "0", "3"),
        (Unknown("busy"), "0", "0", "3"),
        (Absent("none"), "3", "3", None),
        (Absent("none"), "3", None, None),
        (Absent("none"), "3", "0", None),
        (Absent("none"), None, "3", None),
        (Absent("none"), None, "7", "7"),
        (Absent("none"), "7", "7", "7"),
    ],
)
def test_allocatable_goes_with_capacity(
    reading: Reading, current: str | None, allocatable: str | None, after: str | None
) -> None:
    document = node({NAME: current} if current else {}, {NAME: 3})
    document["status"]["allocatable"] = {"cpu": "8"} | ({NAME: allocatable} if allocatable else {})
    patch = make_plan(node_state(document), Facts({NAME: reading})).write.patch
    written = apply_patch(document, patch)["status"]["allocatable"]
    assert written == {"cpu": "8"} | ({NAME: after} if after else {})
    if written != document["status"]["allocatable"]:
        document["status"]["allocatable"] = {"cpu": "8", NAME: "5"}
        with pytest.raises(NodeConflict):
            apply_patch(document, patch)


def test_a_bare_node_is_patched_only_for_a_change() -> None:
    document = node()
    for part, name in (("metadata", "uid"), *((part, name) for part, name, _ in PARENTS)):
        del document[part][name]
    assert make_plan(node_state(document), Facts({})).write.patch == ()
    written = apply_patch(document, make_plan(node_state(document), Facts({NAME: Quantity(4)})).write.patch)
    assert written["status"]["capacity"] == written["status"]["allocatable"] == {NAME: "4"}
    assert written["metadata"]["annotations"] == {ANNOTATION: f'{{"{NAME}":4}}'}
    assert [(c["type"], c["status"]) for c in written["status"]["conditions"]] == [(CONDITION, "True")]


@pytest.mark.parametrize(("part", "name", "another"), PARENTS)
def test_what_another_writer_added_meanwhile_is_not_overwritten(part: str, name: str, another: object) -> None:
    document = node()
    del document[part][name]
    patch = make_plan(node_state(document), Facts({NAME: Quantity(4)})).write.patch
    apply_patch(document, patch)
    document[part][name] = another
    with pytest.raises(NodeConflict):
        apply_patch(document, patch)


def test_a_patch_that_leaves_the_condition_false_fails_if_another_writer_has_set_it_to_true() -> None:
    document = node({NAME: "3"}, {NAME: 3}, "False")
    change = Change(NAME, Action.SET, "3", "4", "the reading changed")
    patch = patch_for(node_state(document), [change], {NAME: 4}, None, None)
    apply_patch(document, patch)
    for condition in document["status"]["conditions"]:
        condition["status"] = "True"
    with pytest.raises(NodeConflict):
        apply_patch(document, patch)
