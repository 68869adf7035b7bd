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
    metadata: dict[str, Any] = {"uid": patch.uid, "resourceVersion": patch.resource_version}
    if patch.annotations:
        metadata["annotations"] = dict(patch.annotations)
    if patch.labels:
        metadata["labels"] = _texts(patch.labels)
    status: dict[str, Any] = {}
    if patch.capacity:
        status["capacity"] = _texts(patch.capacity)
    if patch.allocatable:
        status["allocatable"] = _texts(patch.allocatable)
    removals = [{"$patch": "delete", "type": CONDITION}] if patch.removes_conditions else []
    conditions = [_condition(patch.condition)] if patch.condition else []
    if removals or conditions:
        status["conditions"] = [*removals, *conditions]
    return {"metadata": metadata, "status": status}


def is_guard(uid: str, version: str) -> bool:
    """Whether a patch with this uid and resourceVersion applies only to the Node as it was read.

    Without the uid, the API server patches any Node of this name. Without the resourceVersion, it overwrites what
    others have written since the read. It treats the resourceVersion "0" as missing.
    """
    return bool(uid and version.strip("0"))


def require_guard(patch: Patch) -> None:
    """Raises NodeError if the patch could apply to another Node, or to a Node that has changed since it was read."""
    if not is_guard(patch.uid, patch.resource_version):
        raise NodeError(
            "the Node has no uid or no resourceVersion, so a patch could overwrite what others write meanwhile"
        )


def patched(document: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """Applies the patch to a Node's JSON as the API server would, but keeps the resourceVersion."""
    metadata, status = dict(document.get("metadata") or {}), dict(document.get("status") or {})
    _merge(metadata, "annotations", patch.annotations)
    _merge(metadata, "labels", _texts(patch.labels))
    _merge(status, "capacity", _texts(patch.capacity))
    _merge(status, "allocatable", _texts(patch.allocatable))
    if patch.removes_conditions or patch.condition:
        kept = [stored for stored in status.get("conditions") or [] if stored.get("type") != CONDITION]
        added = [_condition(patch.condition)] if patch.condition else []
        status["conditions"] = [*kept, *added]
    return {**document, "metadata": metadata, "status": status}


def _merge(parent: dict[str, Any], key: str, values: Mapping[str, str | None]) -> None:
    """Merges values into the map at this key. A value of None removes a name."""
    if not values:
        return
    merged = {**(parent.get(key) or {}), **values}
    parent[key] = {name: value for name, value in merged.items() if value is not None}


def _texts(numbers: Mapping[str, int | None]) -> dict[str, str | None]:
    """The numbers as text. None stays None."""
    return {name: None if number is None else str(number) for name, number in numbers.items()}


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
