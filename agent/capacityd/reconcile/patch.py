"""Builds the one JSON Patch (RFC 6902) on nodes/status that carries out a plan. Pure.

A test of the stored value (null for absent) guards every value that the patch changes. If one test fails, the whole
patch fails. A test for null requires an existing parent, so the patch tests and adds a missing parent itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

from capacityd.model.label import is_label, resource_of
from capacityd.model.node import ANNOTATION, CONFIGURATION_ANNOTATION, Condition, NodeState, annotation_content
from capacityd.model.plan import Action, Change, Patch
from capacityd.model.quantity import plain
from capacityd.reconcile import operations
from capacityd.reconcile.condition import DesiredCondition
from capacityd.reconcile.operations import Operations, Part


class Removed(Enum):
    """The type of REMOVED. An enum, so that mypy can tell REMOVED from the other values of _ConditionChange."""

    REMOVED = auto()


REMOVED = Removed.REMOVED
_ConditionChange: TypeAlias = DesiredCondition | Removed | None
"""REMOVED: the condition is removed. None: the condition stays as it is."""


_CAPACITY = "/status/capacity"
_ALLOCATABLE = "/status/allocatable"
_LABELS = "/metadata/labels"
_ANNOTATIONS = "/metadata/annotations"
_CONDITIONS = "/status/conditions"


def patch_for(
    node_state: NodeState,
    changes: Sequence[Change],
    annotated: Mapping[str, int],
    configuration: str | None,
    condition: _ConditionChange,
) -> Patch:
    """Builds the patch; it is empty if nothing differs.

    annotated: name -> quantity in the annotation after the write. configuration: the hash of the configuration; ""
    removes the stored hash, None keeps it.
    """
    resources = [change for change in changes if not is_label(change.name)]
    labels = [change for change in changes if is_label(change.name)]
    parts = [
        _quantities(_CAPACITY, node_state.capacity, resources),
        _quantities(_ALLOCATABLE, node_state.allocatable, resources),
        _quantities(_LABELS, node_state.labels, labels),
        _annotations(node_state, changes, annotated, configuration),
        _condition(node_state, condition),
    ]
    if _is_true_after(node_state, condition):
        parts.append(Part(tests=_published_guards(node_state, changes, annotated), writes=[]))
    return _patch(node_state, parts)


def _is_true_after(node_state: NodeState, condition: _ConditionChange) -> bool:
    """Whether the Node's condition is True after the patch."""
    if condition is None:
        return node_state.condition is not None and node_state.condition.status == "True"
    return isinstance(condition, DesiredCondition) and condition.is_true


def condition_patch(node_state: NodeState, condition: DesiredCondition | None) -> Patch:
    """Builds a patch of the condition alone; empty if the condition is None."""
    if condition is None:
        return ()
    return _patch(node_state, [_condition(node_state, condition)])


def _patch(node_state: NodeState, parts: Sequence[Part]) -> Patch:
    """All tests, then all writes; empty without writes. Fails as a whole if the Node has been replaced."""
    tests = [operation for part in parts for operation in part.tests]
    writes = [operation for part in parts for operation in part.writes]
    if not writes:
        return ()
    if node_state.uid:
        tests = [operations.test("/metadata/uid", node_state.uid), *tests]
    return (*tests, *writes)


def _quantities(path: str, current: Mapping[str, str] | None, changes: Sequence[Change]) -> Part:
    """The part for the map at this path. A value that is already as desired is tested but not written.

    current: the map as stored; None: the Node has no such map.
    """
    desired: dict[str, str | None] = {}  # None: the key is removed
    for change in changes:
        if change.action.writes:
            desired[resource_of(change.name)] = change.new if change.action is Action.SET else None
    if current is None:
        return operations.new_map(path, desired)
    tests = [operations.test_key(path, current, key) for key in desired]
    writes = [
        operations.set_or_remove(operations.child(path, key), quantity)
        for key, quantity in desired.items()
        if not _is_as_desired(path, current.get(key), quantity)
    ]
    return Part(tests, writes)


def _is_as_desired(path: str, stored: str | None, desired: str | None) -> bool:
    """Whether a value in the map at this path is the desired one. None: the key is absent."""
    if path == _LABELS:  # a label 1k does not match a selector for 1000
        return stored == desired
    return plain(stored) == plain(desired)


def _published_guards(node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int]) -> Operations:
    """The tests for the published quantities that this patch does not write: each must still be on the Node.

    Without them, the condition could be True although another writer has removed a quantity.
    """
    written = {change.name for change in changes if change.action.writes}
    names = [name for name in annotated if name not in written]
    resources = [name for name in names if not is_label(name)]
    return [
        *(_test_capacity_or_label(node_state, name) for name in names),
        *(operations.test_key(_ALLOCATABLE, node_state.allocatable, name) for name in resources),
    ]


def _annotations(
    node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int], configuration: str | None
) -> Part:
    """The part for the annotations. annotated, configuration: as for patch_for()."""
    desired = {ANNOTATION: _annotation_text(node_state, annotated)}  # None: the annotation is removed
    if configuration is not None:
        desired[CONFIGURATION_ANNOTATION] = configuration or None
    tests = _newly_annotated_guards(node_state, changes, annotated)
    if not node_state.has_annotations:
        added = operations.new_map(_ANNOTATIONS, desired)
        return Part(tests=[*tests, *added.tests], writes=added.writes)
    current = {ANNOTATION: node_state.annotation, CONFIGURATION_ANNOTATION: node_state.configuration}
    writes = []
    for key, text in desired.items():
        is_changed = text != current[key]
        if is_changed:
            writes.append(operations.set_or_remove(operations.child(_ANNOTATIONS, key), text))
        # ANNOTATION determines who owns the keys, so the patch tests it even if it does not change.
        if is_changed or key == ANNOTATION:
            tests.append(operations.test_stored(operations.child(_ANNOTATIONS, key), current[key]))
    return Part(tests, writes)


def _annotation_text(node_state: NodeState, annotated: Mapping[str, int]) -> str | None:
    """The desired text of ANNOTATION; None: no annotation. A text with the same content stays as it is."""
    if not annotated:
        return None
    current = annotation_content(node_state.annotation)
    has_only_numbers = all(type(quantity) is int for quantity in current.values())  # in Python, 1.0 and True equal 1
    if current == annotated and has_only_numbers:
        return node_state.annotation
    return json.dumps(dict(sorted(annotated.items())), separators=(",", ":"))


def _newly_annotated_guards(
    node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int]
) -> Operations:
    """The tests for keys that already have the desired value, but that the annotation does not list with this value
    yet. Each must still have its value, because the patch does not write it."""
    current = annotation_content(node_state.annotation)
    return [
        _test_capacity_or_label(node_state, change.name)
        for change in changes
        if change.action is Action.KEEP
        and change.name in annotated
        and current.get(change.name) != annotated[change.name]
    ]


def _condition(node_state: NodeState, desired: _ConditionChange) -> Part:
    """The part for the condition. Also removes further conditions of the same type."""
    current = node_state.condition
    if current is None:  # then there are no duplicates
        if isinstance(desired, DesiredCondition):
            return _new_condition(node_state, desired)
        return Part(tests=[], writes=[])
    duplicates = [*reversed(node_state.duplicate_conditions)]  # the last one first: removals move later entries
    tests = [_test_condition(duplicate) for duplicate in duplicates]
    writes = [operations.remove(_condition_path(duplicate)) for duplicate in duplicates]
    path = _condition_path(current)
    if isinstance(desired, DesiredCondition):
        writes.append({"op": "replace", "path": path, "value": desired.to_json()})
    elif desired is REMOVED:
        writes.append(operations.remove(path))
    elif current.status == "True":
        # The condition stays True. patch_for() tests the published quantities, so the condition needs no test.
        return Part(tests, writes)
    # Another writer may have changed the condition since.
    tests.append(_test_condition(current))
    return Part(tests, writes)


def _new_condition(node_state: NodeState, desired: DesiredCondition) -> Part:
    """The part for a condition on a Node without one."""
    if node_state.condition_count is None:
        new_list = operations.add(_CONDITIONS, [desired.to_json()])
        return Part(tests=[operations.test_absent(_CONDITIONS)], writes=[new_list])
    append = operations.add(f"{_CONDITIONS}/-", desired.to_json())
    if not node_state.resource_version:
        return Part(tests=[], writes=[append])
    # Only the version guards an append: two writers that append at the same time would add two conditions.
    is_same_version = operations.test("/metadata/resourceVersion", node_state.resource_version)
    return Part(tests=[is_same_version], writes=[append])


def _test_capacity_or_label(node_state: NodeState, name: str) -> Mapping[str, object]:
    """Tests that a resource's capacity, or a label, is still as stored."""
    if is_label(name):
        return operations.test_key(_LABELS, node_state.labels, resource_of(name))
    return operations.test_key(_CAPACITY, node_state.capacity, name)


def _condition_path(condition: Condition) -> str:
    return f"{_CONDITIONS}/{condition.index}"


def _test_condition(condition: Condition) -> Mapping[str, object]:
    return operations.test(_condition_path(condition), dict(condition.document))
