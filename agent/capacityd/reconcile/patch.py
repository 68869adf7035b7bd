"""Builds the one JSON Patch (RFC 6902) on nodes/status that carries out a plan. Pure.

A test on the stored value (null for absent) guards every value that the patch changes: the patch succeeds or fails as a
whole. A test for null requires an existing parent, so the patch tests and adds a missing parent itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

from capacityd.model.label import is_label, labelled
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


_CAPACITY, _ALLOCATABLE, _LABELS = "/status/capacity", "/status/allocatable", "/metadata/labels"


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
    capacity_tests, capacity_writes = _quantities(_CAPACITY, node_state.capacity, resources)
    allocatable_tests, allocatable_writes = _quantities(_ALLOCATABLE, node_state.allocatable, resources)
    label_tests, label_writes = _quantities(_LABELS, node_state.labels, [c for c in changes if is_label(c.name)])
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
    return _patch(node_state, *_condition(node_state, condition)) if condition else ()


def _patch(node_state: NodeState, tests: _Operations, writes: _Operations) -> Patch:
    uid = [_test("/metadata/uid", node_state.uid)] if node_state.uid else []
    return (*uid, *tests, *writes) if writes else ()


def _quantities(
    path: str, current: Mapping[str, str] | None, changes: Sequence[Change]
) -> tuple[_Operations, _Operations]:
    """The operations on the map at this path. A value that is already as desired is tested but not written."""
    desired = {_key_of(c.name): c.new if c.action is Action.SET else None for c in changes if c.action.writes}
    if current is None:
        added = {name: quantity for name, quantity in desired.items() if quantity is not None}
        return ([_test(path, None)], [_add(path, added)]) if added else ([], [])
    tests = [_test(_key(path, name), current.get(name)) for name in desired]
    shown = (lambda text: text) if path == _LABELS else plain  # a label 1k does not match a selector for 1000
    changed = {name: quantity for name, quantity in desired.items() if shown(quantity) != shown(current.get(name))}
    return tests, [
        _remove(_key(path, name)) if quantity is None else _add(_key(path, name), quantity)
        for name, quantity in changed.items()
    ]


def _published_guards(node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int]) -> _Operations:
    """Tests that published quantities that are not written are still on the Node: only then may the condition be
    True."""
    written = {c.name for c in changes if c.action.writes}
    names = [name for name in annotated if name not in written]
    allocatable = node_state.allocatable or {}
    return [
        *(_test(_path_of(name), node_state.stored(name)) for name in names),
        *(_test(_key(_ALLOCATABLE, name), allocatable.get(name)) for name in names if not is_label(name)),
    ]


def _annotations(
    node_state: NodeState, changes: Sequence[Change], annotated: Mapping[str, int], configuration: str | None
) -> tuple[_Operations, _Operations]:
    tests, quantities = _quantities_annotation(node_state, changes, annotated)
    desired = {ANNOTATION: quantities}
    if configuration is not None:
        desired[CONFIGURATION_ANNOTATION] = configuration or None
    current = {ANNOTATION: node_state.annotation, CONFIGURATION_ANNOTATION: node_state.configuration}
    changed = {key: text for key, text in desired.items() if text != current[key]}
    if not node_state.has_annotations:
        added = {key: text for key, text in changed.items() if text is not None}
        path = "/metadata/annotations"
        return ([*tests, _test(path, None)], [_add(path, added)]) if added else (tests, [])
    # The annotation determines who owns the keys, so the patch tests it even if it does not change.
    guarded = [key for key in desired if key in changed or key == ANNOTATION]
    tests += [_test(_annotation(key), current[key]) for key in guarded]
    return tests, [
        _remove(_annotation(key)) if text is None else _add(_annotation(key), text) for key, text in changed.items()
    ]


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
    newly = {name for name, quantity in annotated.items() if current.get(name) != quantity}
    tests = [_test(_path_of(c.name), c.old) for c in changes if c.action is Action.KEEP and c.name in newly]
    return tests, json.dumps(dict(sorted(annotated.items())), separators=(",", ":"))


def _condition(node_state: NodeState, desired: _ConditionChange) -> tuple[_Operations, _Operations]:
    duplicates = [*reversed(node_state.duplicate_conditions)]  # the last one first: removals move later entries
    tests = [_test(_place(duplicate), dict(duplicate.stored)) for duplicate in duplicates]
    writes = [_remove(_place(duplicate)) for duplicate in duplicates]
    current = node_state.condition
    if desired is None and current is not None and current.status != "True":
        # Another writer may have set it to True since.
        return [*tests, _test(_place(current), dict(current.stored))], writes
    if desired is None or (desired is REMOVED and current is None):
        return tests, writes
    value = desired.to_json() if isinstance(desired, DesiredCondition) else None
    if current is not None:
        path = _place(current)
        write = {"op": "replace", "path": path, "value": value} if value else _remove(path)
        return [*tests, _test(path, dict(current.stored))], [*writes, write]
    if node_state.conditions is None:
        return [_test("/status/conditions", None)], [_add("/status/conditions", [value])]
    # Only the version guards an append: two writers that append at the same time would add two conditions.
    version = [_test("/metadata/resourceVersion", node_state.resource_version)] if node_state.resource_version else []
    return version, [_add("/status/conditions/-", value)]


def _key_of(name: str) -> str:
    """The key of a resource, or of a label."""
    return labelled(name) or name


def _path_of(name: str) -> str:
    """Where the quantity of a resource, or a label, is stored."""
    return _key(_LABELS if is_label(name) else _CAPACITY, _key_of(name))


def _place(condition: Condition) -> str:
    return f"/status/conditions/{condition.index}"


def _annotation(key: str) -> str:
    return "/metadata/annotations/" + _escape(key)


def _key(path: str, name: str) -> str:
    return f"{path}/{_escape(name)}"


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _test(path: str, value: object) -> Mapping[str, object]:
    return {"op": "test", "path": path, "value": value}


def _add(path: str, value: object) -> Mapping[str, object]:
    return {"op": "add", "path": path, "value": value}


def _remove(path: str) -> Mapping[str, object]:
    return {"op": "remove", "path": path}
