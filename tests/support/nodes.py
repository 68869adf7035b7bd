"""Nodes to try things on, and what the API server does with a patch. The cluster tests have the real one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from capacityd.model.node import ANNOTATION, CONDITION
from capacityd.node.documents.json_patch import patched


def node(
    capacity: Mapping[str, str] | None = None,
    annotated: object = None,
    condition: str | None = None,
) -> dict[str, Any]:
    """A Node as the API server gives it, all of whose capacity is allocatable.

    annotated: the content of our annotation, as JSON unless it is text.
    """
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "11111111-2222-3333-4444-555555555555", "annotations": {"theirs": "x"}},
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


apply_patch = patched
"""The Node after the patch; raises NodeConflict where a guard does not hold."""
