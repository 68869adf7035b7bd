"""Builds the one JSON Patch (RFC 6902) on nodes/status that carries out a plan. Pure.

A test on the stored value (null for absent) guards every value that the patch changes: the patch succeeds or fails as a
whole. A test for null requires an existing parent, so the patch tests and adds a missing parent itself.
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
from capacityd.reconcile.condition import DesiredCondition

_Operations: TypeAlias = list[Mapping[str, object]]


class Removed(Enum):
    """A condition that is to be removed."""

    REMOVED = auto()


REMOVED = Removed.REMOVED
_ConditionChange: TypeAlias = DesiredCondition | Removed | None
"""None: the condition stays as it is."""


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

    annotated: the quantities in the annotation after the write. configuration: the hash of the configuration; ""
    removes the stored hash, None keeps it.
    """
    resources = [change for change in changes if not is_label(change.name)]
    labels = [change for change in changes if is_label(change.name)]
    capacity_tests, capacity_writes = _quantities(_CAPACITY, node_state.capacity, resources)
    allocatable_tests, allocatable_writes = _quantities(_ALLOCATABLE, node_state.allocatable, resources)
    label_tests, label_writes = _quantities(_LABELS, node_state.labels, labels)
    annotation_tests, annotation_writes = _annotations(node_state, changes, annotated, configuration)
    condition_tests, condition_writes = _condition(node_state, condition)
    tests = [*capacity_tests, *allocatable_tests, *label_tests, *annotation_tests, *condition_tests]
    if _is_true_after(node_state, condition):
        tests += _published_guards(node_state, changes, annotated)
    writes = [*capacity_writes, *allocatable_writes, *label_writes, *annotation_writes, *condition_writes]
    return _patch(node_state, tests, writes)


def _is_true_after(node_state: NodeState, condition: _ConditionChange) -> bool:
    """Whether the Node's condition is True after the patch."""
    if condition is None:
        return node_state.condition is not None and node_state.condition.status == "True"
    return isinstance(condition, DesiredCondition) and condition.is_true


def condition_patch(node_state: NodeState, condition: DesiredCondition | None) -> Patch:
    """Builds a patch of the condition alone; empty if the condition is None."""
    if condition is None:
        return ()
    tests, writes = _condition(node_state, condition)
    return _patch(node_state, tests, writes)


def _patch(node_state: NodeState, tests: _Operations, writes: _Operations) -> Patch:
    """The tests, then the writes; empty without writes. Fails as a whole if the Node has been replaced."""
    if not writes:
        return ()
    uid_test = [_test("/metadata/uid", node_state.uid)] if node_state.uid else []
    return (*uid_test, *tests, *writes)


def _quantities(
    path: str, current: Mapping[str, str] | None, changes: Sequence[Change]
) -> tuple[_Operations, _Operations]:
    """The tests and the writes of the map at this path. A value that is already as desired is tested but not written.

    current: the map as stored; None: the Node has no such map.
    """
    desired: dict[str, str | None] = {}  # None: the key is removed
    for change in changes:
        if change.action.writes:
            desired[resource_of(change.name)] = change.new if change.action is Action.SET else None
    if current is None:
        added = {key: quantity for key, quantity in desired.items() if quantity is not None}
        if not added:
            return [], []
        return [_test_absent(path)], [_add(path, added)]
    tests = [_test_stored(_child(path, key), current.get(key)) for key in desired]
    shown = _as_stored if path == _LABELS else plain  # a label 1k does not match a selector for 1000
    changed = {key: quantity for key, quantity in desired.items() if shown(quantity) != shown(current.get(key))}
    return tests, [_write(_child(path, key), quantity) for key, quantity in changed.items()]


def _as_stored(text: str | None) -> str | None:
    """For labels, where plain() stands for quantities."""
    return text


def _published_guards(node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int]) -> _Operations:
    """The tests for the published quantities that this patch does not write: each must still be on the Node.

    Without them, the condition could be True although another writer has removed a quantity.
    """
    written = {change.name for change in changes if change.action.writes}
    names = [name for name in annotated if name not in written]
    resources = [name for name in names if not is_label(name)]
    allocatable = node_state.allocatable or {}
    return [
        *(_test_stored(_path_of(name), node_state.stored(name)) for name in names),
        *(_test_stored(_child(_ALLOCATABLE, name), allocatable.get(name)) for name in resources),
    ]


def _annotations(
    node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int], configuration: str | None
) -> tuple[_Operations, _Operations]:
    """The tests and the writes of the annotations. annotated, configuration: as for patch_for()."""
    tests, quantities = _quantities_annotation(node_state, changes, annotated)
    desired = {ANNOTATION: quantities}  # None: the annotation is removed
    if configuration is not None:
        desired[CONFIGURATION_ANNOTATION] = configuration or None
    current = {ANNOTATION: node_state.annotation, CONFIGURATION_ANNOTATION: node_state.configuration}
    changed = {key: text for key, text in desired.items() if text != current[key]}
    if not node_state.has_annotations:
        added = {key: text for key, text in changed.items() if text is not None}
        if not added:
            return tests, []
        return [*tests, _test_absent(_ANNOTATIONS)], [_add(_ANNOTATIONS, added)]
    # The annotation determines who owns the keys, so the patch tests it even if it does not change.
    guarded = [key for key in desired if key in changed or key == ANNOTATION]
    tests += [_test_stored(_child(_ANNOTATIONS, key), current[key]) for key in guarded]
    return tests, [_write(_child(_ANNOTATIONS, key), text) for key, text in changed.items()]


def _quantities_annotation(
    node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int]
) -> tuple[_Operations, str | None]:
    """Tests of the quantities that are new in the annotation, and the annotation's desired text (None: no
    annotation)."""
    if not annotated:
        return [], None
    current = annotation_content(node_state.annotation)
    if current == annotated and all(type(quantity) is int for quantity in current.values()):
        return [], node_state.annotation
    # A key that already has the desired value is recorded without a write; the patch tests that the key still has it.
    newly_annotated = {name for name, quantity in annotated.items() if current.get(name) != quantity}
    kept = [change for change in changes if change.action is Action.KEEP and change.name in newly_annotated]
    tests = [_test_stored(_path_of(change.name), change.old) for change in kept]
    return tests, json.dumps(dict(sorted(annotated.items())), separators=(",", ":"))


def _condition(node_state: NodeState, desired: _ConditionChange) -> tuple[_Operations, _Operations]:
    """The tests and the writes of the condition. Removes its duplicates."""
    duplicates = [*reversed(node_state.duplicate_conditions)]  # the last one first: removals move later entries
    tests = [_test_condition(duplicate) for duplicate in duplicates]
    writes = [_remove(_condition_path(duplicate)) for duplicate in duplicates]
    current = node_state.condition
    if desired is None:
        if current is not None and current.status != "True":
            # Another writer may have set the condition to True since.
            tests.append(_test_condition(current))
        return tests, writes
    if current is None:  # then there are no duplicates
        return ([], []) if desired is REMOVED else _new_condition(node_state, desired)
    path = _condition_path(current)
    if isinstance(desired, DesiredCondition):
        write: Mapping[str, object] = {"op": "replace", "path": path, "value": desired.to_json()}
    else:
        write = _remove(path)
    return [*tests, _test_condition(current)], [*writes, write]


def _new_condition(node_state: NodeState, desired: DesiredCondition) -> tuple[_Operations, _Operations]:
    """The test and the write of a condition on a Node without one."""
    if node_state.condition_count is None:
        return [_test_absent(_CONDITIONS)], [_add(_CONDITIONS, [desired.to_json()])]
    append = _add(f"{_CONDITIONS}/-", desired.to_json())
    if not node_state.resource_version:
        return [], [append]
    # Only the version guards an append: two writers that append at the same time would add two conditions.
    return [_test("/metadata/resourceVersion", node_state.resource_version)], [append]


def _path_of(name: str) -> str:
    """Where the quantity of a resource, or a label, is stored."""
    return _child(_LABELS if is_label(name) else _CAPACITY, resource_of(name))


def _condition_path(condition: Condition) -> str:
    return f"{_CONDITIONS}/{condition.index}"


def _child(path: str, key: str) -> str:
    """The path of a key in the map at this path, as a JSON Pointer (RFC 6901)."""
    escaped = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{escaped}"


def _test(path: str, value: object) -> Mapping[str, object]:
    return {"op": "test", "path": path, "value": value}


def _test_absent(path: str) -> Mapping[str, object]:
    """The API server takes a missing value for null."""
    return _test(path, None)


def _test_stored(path: str, stored: str | None) -> Mapping[str, object]:
    """Tests a value in a map. None: the key is absent."""
    return _test_absent(path) if stored is None else _test(path, stored)


def _test_condition(condition: Condition) -> Mapping[str, object]:
    return _test(_condition_path(condition), dict(condition.document))


def _write(path: str, desired: str | None) -> Mapping[str, object]:
    """Sets a value in a map. None: removes the key."""
    return _remove(path) if desired is None else _add(path, desired)


def _add(path: str, value: object) -> Mapping[str, object]:
    return {"op": "add", "path": path, "value": value}


def _remove(path: str) -> Mapping[str, object]:
    return {"op": "remove", "path": path}
