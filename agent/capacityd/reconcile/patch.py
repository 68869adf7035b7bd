"""The one JSON Patch (RFC 6902) on nodes/status that carries out a plan. Pure.

Every value that it touches is guarded by a test on what was stored, null for absent: all of it happens, or nothing.
A test for null passes below an existing parent only, so a missing parent is tested and added itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from capacityd.model.node import (
    ANNOTATION,
    CONFIGURATION_ANNOTATION,
    Action,
    Change,
    Condition,
    NodeState,
    stored_record,
)
from capacityd.model.quantity import plain


def patch_for(
    state: NodeState,
    changes: Sequence[Change],
    published: Mapping[str, int],
    configuration: str | None,
    condition: Mapping[str, object] | None,
    drop: bool,
) -> tuple[Mapping[str, object], ...]:
    """The patch; empty if nothing differs.

    published: the last applied quantities afterwards. configuration: the hash of the configuration; "" to remove it,
    None to leave it. condition: the desired one; None to leave it. drop: remove the condition.
    """
    tests: _Operations = []
    writes: _Operations = []
    for part in (
        _quantities(_CAPACITY, state.capacity, changes),
        _quantities(_ALLOCATABLE, state.allocatable, changes),
        _annotations(state, changes, published, configuration),
        _condition(state, condition, drop),
    ):
        tests += part[0]
        writes += part[1]
    if not writes:
        return ()
    if condition and condition["status"] == "True":
        tests += _allocatable_guards(state, changes, published)
    uid = [_test("/metadata/uid", state.uid)] if state.uid else []
    return (*uid, *tests, *writes)


def condition_patch(state: NodeState, condition: Mapping[str, object] | None) -> tuple[Mapping[str, object], ...]:
    """The patch of the condition alone; empty if it is None."""
    tests, writes = _condition(state, condition, drop=False) if condition else ([], [])
    uid = [_test("/metadata/uid", state.uid)] if state.uid else []
    return (*uid, *tests, *writes) if writes else ()


_Operations = list[Mapping[str, object]]


_CAPACITY, _ALLOCATABLE = "/status/capacity", "/status/allocatable"


def _quantities(
    path: str, stored: Mapping[str, str] | None, changes: Sequence[Change]
) -> tuple[_Operations, _Operations]:
    """Of the map at this path. A value that is already as desired is guarded, but not written."""
    desired = {c.name: c.new if c.action is Action.SET else None for c in changes if c.action.writes}
    if stored is None:
        added = {name: quantity for name, quantity in desired.items() if quantity is not None}
        return ([_test(path, None)], [_add(path, added)]) if added else ([], [])
    tests = [_test(_key(path, name), stored.get(name)) for name in desired]
    writing = {name: quantity for name, quantity in desired.items() if plain(quantity) != plain(stored.get(name))}
    return tests, [
        _remove(_key(path, name)) if quantity is None else _add(_key(path, name), quantity)
        for name, quantity in writing.items()
    ]


def _allocatable_guards(state: NodeState, changes: Sequence[Change], published: Mapping[str, int]) -> _Operations:
    """Tests that what is published and not written is still allocatable, so that the condition may be True."""
    written = {c.name for c in changes if c.action.writes}
    stored = state.allocatable or {}
    return [_test(_key(_ALLOCATABLE, name), stored[name]) for name in published if name not in written]


def _annotations(
    state: NodeState, changes: Sequence[Change], published: Mapping[str, int], configuration: str | None
) -> tuple[_Operations, _Operations]:
    tests, record = _record(state, changes, published)
    desired = {ANNOTATION: record}
    if configuration is not None:
        desired[CONFIGURATION_ANNOTATION] = configuration or None
    stored = {ANNOTATION: state.annotation, CONFIGURATION_ANNOTATION: state.configuration}
    writing = {key: text for key, text in desired.items() if text != stored[key]}
    if not state.has_annotations:
        added = {key: text for key, text in writing.items() if text is not None}
        path = "/metadata/annotations"
        return ([*tests, _test(path, None)], [_add(path, added)]) if added else (tests, [])
    # The annotation determines whose the keys are, so it is guarded even if it does not change.
    guarded = [key for key in desired if key in writing or key == ANNOTATION]
    tests += [_test(_annotation(key), stored[key]) for key in guarded]
    return tests, [
        _remove(_annotation(key)) if text is None else _add(_annotation(key), text) for key, text in writing.items()
    ]


def _record(
    state: NodeState, changes: Sequence[Change], published: Mapping[str, int]
) -> tuple[_Operations, str | None]:
    """The desired text of the annotation, None for no annotation, and guards of what it newly records."""
    if not published:
        return [], None
    before = stored_record(state.annotation)
    if before == published and all(type(number) is int for number in before.values()):
        return [], state.annotation
    # A key that has the desired value already is recorded without being written; it must still have it.
    newly = {name for name, number in published.items() if before.get(name) != number}
    tests = [_test(_key(_CAPACITY, c.name), c.old) for c in changes if c.action is Action.KEEP and c.name in newly]
    return tests, json.dumps(dict(sorted(published.items())), separators=(",", ":"))


def _condition(state: NodeState, condition: Mapping[str, object] | None, drop: bool) -> tuple[_Operations, _Operations]:
    tests: _Operations = []
    writes: _Operations = []
    for one in reversed(state.surplus):  # the last first, so that the others keep their places
        tests.append(_test(_place(one), dict(one.stored)))
        writes.append(_remove(_place(one)))
    before = state.condition
    if before and (drop or condition):
        write = _remove(_place(before)) if drop else {"op": "replace", "path": _place(before), "value": condition}
        return [*tests, _test(_place(before), dict(before.stored))], [*writes, write]
    if drop or not condition:
        return tests, writes
    if state.conditions is None:
        return [_test("/status/conditions", None)], [_add("/status/conditions", [condition])]
    return [], [_add("/status/conditions/-", condition)]


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
