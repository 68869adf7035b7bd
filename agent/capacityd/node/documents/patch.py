"""Converts a patch of a Node to a strategic merge patch, or applies the patch to a Node's JSON.

The API server merges the maps by key and the conditions by type. A value of null removes a key. The API server answers
409 Conflict if the Node's resourceVersion differs from that of the patch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from capacityd.model.errors import NodeError
from capacityd.model.node import CONDITION, Condition, Patch


def patch_document(patch: Patch) -> dict[str, Any]:
    """Returns the JSON of a patch."""
    conditions: list[dict[str, str]] = []
    if patch.removes_conditions:
        conditions.append({"$patch": "delete", "type": CONDITION})
    if patch.condition:
        conditions.append(_condition(patch.condition))
    metadata = {
        "uid": patch.uid,
        "resourceVersion": patch.resource_version,
        "annotations": dict(patch.annotations),
        "labels": _texts(patch.labels),
    }
    status = {
        "capacity": _texts(patch.capacity),
        "allocatable": _texts(patch.allocatable),
        "conditions": conditions,
    }
    return {"metadata": _without_empty(metadata), "status": _without_empty(status)}


def _without_empty(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that contain something."""
    return {key: value for key, value in entries.items() if value}


def are_preconditions(uid: str, version: str) -> bool:
    """Whether a patch with this uid and resourceVersion can apply only to the Node as it was read.

    Without the uid, the API server patches any Node of this name. Without the resourceVersion, it overwrites what
    others have written since the read. It treats the resourceVersion "0" as missing.
    """
    has_version = version.strip("0") != ""
    return uid != "" and has_version


def require_preconditions(patch: Patch) -> None:
    """Raises NodeError if the patch could apply to another Node, or to a Node that has changed since it was read."""
    if not are_preconditions(patch.uid, patch.resource_version):
        raise NodeError(
            "the Node has no uid or no resourceVersion, so a patch could overwrite what others write meanwhile"
        )


def patched(document: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """Applies the patch to a Node's JSON as the API server would, but keeps the resourceVersion."""
    change = patch_document(patch)
    change["status"].pop("conditions", None)  # applied below, by type
    result = _merged(document, change)
    if patch.removes_conditions or patch.condition:
        stored = result["status"].get("conditions") or []
        others = [condition for condition in stored if condition.get("type") != CONDITION]
        own = [_condition(patch.condition)] if patch.condition else []
        result["status"]["conditions"] = [*others, *own]
    return result


def _merged(stored: Mapping[str, Any] | None, change: Mapping[str, Any]) -> dict[str, Any]:
    """The stored object after a change of some keys. None removes a key."""
    result = dict(stored or {})
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = value
    return result


def _texts(numbers: Mapping[str, int | None]) -> dict[str, str | None]:
    """The numbers as text. None, which removes the name, stays None."""
    texts: dict[str, str | None] = {}
    for name, number in numbers.items():
        texts[name] = None if number is None else str(number)
    return texts


def _condition(condition: Condition) -> dict[str, str]:
    """The condition as an entry of a Node's status.conditions."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(condition.heartbeat))
    return {
        "type": CONDITION,
        "status": condition.status,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": condition.transition or stamp,
        "reason": condition.reason,
        "message": condition.message,
    }
