"""The one JSON Patch (RFC 6902) on nodes/status that carries a plan out, and the Node condition that sums it up. Pure.

Every value that it touches is guarded by a test on what was stored, null for absent: all of it happens, or nothing.
A test for null passes below an existing parent only, so a missing parent is tested and added itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from capacityd.capacity import ANNOTATION, CONDITION, Change, Condition, NodeState

_UNKNOWN, _REFUSED = "unknown: ", "refused: "


def patch_for(
    state: NodeState,
    changes: Sequence[Change],
    published: Mapping[str, int],
    condition: Mapping[str, object] | None,
    drop: bool,
) -> tuple[Mapping[str, object], ...]:
    """The patch, empty if nothing differs.

    published: the record as it shall be. condition: as it shall be, None to leave it. drop: take the condition away.
    """
    tests, writes = _capacity(state, changes)
    for part in (_record(state, changes, published), _condition(state, condition, drop)):
        tests += part[0]
        writes += part[1]
    if not writes:
        return ()
    uid = [_test("/metadata/uid", state.uid)] if state.uid else []
    return (*uid, *tests, *writes)


def wanted_condition(
    state: NodeState, unknown: Sequence[str], refused: Sequence[str], complete: bool, now: float
) -> Mapping[str, object] | None:
    """The Node condition as it shall be; None if the Node's says the same already. now: seconds since the epoch."""
    parts = [] if complete else ["the configuration has errors (capacityd config check)"]
    parts += [_UNKNOWN + ", ".join(unknown)] if unknown else []
    parts += [_REFUSED + ", ".join(refused)] if refused else []
    reason = "ConfigurationInvalid" if not complete else "Unknown" if unknown else "Refused" if refused else "Published"
    status = "False" if parts else "True"
    message = "; ".join(parts) or "all configured resources are published"
    before = state.condition
    if before and (before.status, before.reason, before.message) == (status, reason, message):
        return None
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    changed = stamp
    if before and before.status == status:
        changed = str(before.stored.get("lastTransitionTime") or stamp)
    return {
        "type": CONDITION,
        "status": status,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": changed,
        "reason": reason,
        "message": message,
    }


def refused_before(state: NodeState) -> frozenset[str]:
    """The names that the Node's condition calls refused: of those an Event has told."""
    return _named(state, _REFUSED)


def unknown_before(state: NodeState) -> frozenset[str]:
    """The names that the Node's condition calls unknown."""
    return _named(state, _UNKNOWN)


def _named(state: NodeState, prefix: str) -> frozenset[str]:
    for part in (state.condition.message if state.condition else "").split("; "):
        if part.startswith(prefix):
            return frozenset(part.removeprefix(prefix).split(", "))
    return frozenset()


def stored_record(annotation: str | None) -> Mapping[str, object]:
    """The record as it stands, whatever somebody may have put there."""
    try:
        found = json.loads(annotation or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_Operations = list[Mapping[str, object]]


def _capacity(state: NodeState, changes: Sequence[Change]) -> tuple[_Operations, _Operations]:
    writing = [c for c in changes if c.action in ("set", "remove")]
    if not writing:
        return [], []
    if state.capacity is None:
        return [_test("/status/capacity", None)], [_add("/status/capacity", {c.name: c.new for c in writing})]
    tests = [_test(_key(c.name), c.old) for c in writing]
    return tests, [_add(_key(c.name), c.new) if c.action == "set" else _remove(_key(c.name)) for c in writing]


def _record(
    state: NodeState, changes: Sequence[Change], published: Mapping[str, int]
) -> tuple[_Operations, _Operations]:
    """The record says whose the keys are, so it is guarded also where it stays as it is."""
    path = "/metadata/annotations/" + _escape(ANNOTATION)
    if not published:
        if state.annotation is None:
            return [], []
        return [_test(path, state.annotation)], [_remove(path)]
    before = stored_record(state.annotation)
    if before == published and all(type(number) is int for number in before.values()):
        return [_test(path, state.annotation)], []
    # A key that is as it shall be is recorded without being written; it must be so still.
    newly = {name for name, number in published.items() if before.get(name) != number}
    kept = [c for c in changes if c.action == "keep" and c.name in newly]
    tests = [_test(_key(c.name), c.old) for c in kept]
    text = json.dumps(dict(sorted(published.items())), separators=(",", ":"))
    if not state.has_annotations:
        return [*tests, _test("/metadata/annotations", None)], [_add("/metadata/annotations", {ANNOTATION: text})]
    return [*tests, _test(path, state.annotation)], [_add(path, text)]


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


def _key(name: str) -> str:
    return "/status/capacity/" + _escape(name)


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _test(path: str, value: object) -> Mapping[str, object]:
    return {"op": "test", "path": path, "value": value}


def _add(path: str, value: object) -> Mapping[str, object]:
    return {"op": "add", "path": path, "value": value}


def _remove(path: str) -> Mapping[str, object]:
    return {"op": "remove", "path": path}
