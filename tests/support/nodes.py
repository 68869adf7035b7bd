"""Made-up Nodes, and how the API server applies a patch. The cluster tests use the real API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from capacityd.model.node import ANNOTATION, CONDITION
from capacityd.model.plan import MachineRecord
from capacityd.node.documents.json_patch import patched

UID = "11111111-2222-3333-4444-555555555555"


def node(
    capacity: Mapping[str, str] | None = None,
    annotated: object = None,
    condition: str | None = None,
) -> dict[str, Any]:
    """A Node as the API server returns it. All of its capacity is allocatable.

    annotated: the content of capacityd's annotation: text as it is, anything else as JSON.
    """
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": UID, "annotations": {"theirs": "x"}},
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


def recorded(
    published: Mapping[str, int] | None = None,
    intended: Mapping[str, int] | None = None,
    *,
    node_uid: str = UID,
) -> MachineRecord:
    """A machine record of the Node that node() returns."""
    return MachineRecord(published or {}, intended or {}, node_uid=node_uid)


apply_patch = patched
"""Returns the Node after the patch. Raises NodeConflict if a guard fails."""
