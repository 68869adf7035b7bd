"""Made-up Nodes, as JSON documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from capacityd.model.errors import NodeConflict
from capacityd.model.node import ANNOTATION, CONDITION

UID = "11111111-2222-3333-4444-555555555555"


def node(
    capacity: Mapping[str, str] | None = None,
    annotated: object = None,
    condition: str | None = None,
) -> dict[str, Any]:
    """A Node as the API server returns it. All of its capacity is allocatable.

    annotated: the content of capacityd's annotation. A value that is no text is written as JSON.
    """
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": UID, "resourceVersion": "7", "annotations": {"theirs": "x"}},
        "status": {
            "capacity": dict(capacity or {}),
            "allocatable": dict(capacity or {}),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    if annotated is not None:
        document["metadata"]["annotations"][ANNOTATION] = (
            annotated if isinstance(annotated, str) else json.dumps(annotated)
        )
    if condition is not None:
        ours = {"type": CONDITION, "status": condition, "reason": "Published", "message": "old"}
        document["status"]["conditions"].insert(0, ours)
    return document


def merge_patch(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The Node after a strategic merge patch. It supports only what capacityd's patches contain.

    Raises NodeConflict if the patch is for another version of the Node.
    """
    metadata, status = document["metadata"], document["status"]
    asked = patch["metadata"]
    if any(asked[key] != metadata[key] for key in ("uid", "resourceVersion")):
        raise NodeConflict("the object has been modified")
    merged_metadata = {key: _merged(metadata.get(key), asked[key]) for key in ("annotations", "labels") if key in asked}
    changes = patch.get("status", {})
    merged_status: dict[str, Any] = {
        key: _merged(status.get(key), changes[key]) for key in ("capacity", "allocatable") if key in changes
    }
    if conditions := changes.get("conditions"):
        types = {condition["type"] for condition in conditions}
        kept = [condition for condition in status.get("conditions", []) if condition["type"] not in types]
        added = [condition for condition in conditions if "$patch" not in condition]
        merged_status["conditions"] = [*kept, *added]
    return {**document, "metadata": {**metadata, **merged_metadata}, "status": {**status, **merged_status}}


def _merged(stored: Mapping[str, str] | None, changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**(stored or {}), **changes}
    return {name: value for name, value in merged.items() if value is not None}
