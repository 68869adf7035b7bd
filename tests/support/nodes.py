"""Made-up Nodes, as JSON documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from capacityd.model.node import ANNOTATION, CONDITION

UID = "11111111-2222-3333-4444-555555555555"


def node(
    capacity: Mapping[str, str] | None = None, annotated: object = None, condition: str | None = None
) -> dict[str, Any]:
    """A Node as the API server returns it. All of its capacity is allocatable.

    annotated: the content of capacityd's annotation. A value that is no text is written as JSON. condition: its status.
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
        text = annotated if isinstance(annotated, str) else json.dumps(annotated)
        document["metadata"]["annotations"][ANNOTATION] = text
    if condition is not None:
        ours = {"type": CONDITION, "status": condition, "reason": "Published", "message": "old"}
        document["status"]["conditions"].insert(0, ours)
    return document


def merge(part: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Sets these keys of a part of a document. None removes a key."""
    for key, value in changes.items():
        part.pop(key, None)
        if value is not None:
            part[key] = value
