"""The model API server's answers, in the bytes of a real one, and how it applies patches."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.nodes import merge

STRATEGIC = "application/strategic-merge-patch+json"


class Unreachable(Exception):
    """No response arrives. The request may have been carried out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Rejected(Exception):
    """The API server rejects a request."""

    def __init__(self, code: int, message: str, causes: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(message)
        self.answer = failure(code, message, causes)


def failure(
    code: int, message: str, causes: Sequence[Mapping[str, str]] = (), retry_after: float | None = None
) -> Answer:
    """An answer with an error, as a Status object."""
    details = {"name": "n1", "kind": "nodes"} | ({"causes": causes} if causes else {})
    status = {"kind": "Status", "status": "Failure", "message": message, "details": details, "code": code}
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:.0f}"}
    return Answer(code, json.dumps(status).encode(), headers)


def apply(node: dict[str, Any], content_type: str, patch: Mapping[str, Any]) -> dict[str, Any]:
    """The Node after a strategic merge patch of its status.

    Maps are merged, null removes a key, and conditions are merged by their type. Raises Rejected if metadata.uid or
    metadata.resourceVersion in the patch differs from the Node's.
    """
    assert content_type == STRATEGIC, content_type
    metadata = patch.get("metadata", {})
    for guard in ("uid", "resourceVersion"):
        if metadata.get(guard, node["metadata"].get(guard)) != node["metadata"].get(guard):
            raise Rejected(409, f'Operation cannot be fulfilled on nodes "n1": the {guard} differs; apply your changes')
    after = copy.deepcopy(node)
    for part in ("annotations", "labels"):
        merge(after["metadata"].setdefault(part, {}), metadata.get(part) or {})
    status = patch.get("status", {})
    for part in ("capacity", "allocatable"):
        merge(after["status"].setdefault(part, {}), status.get(part) or {})
    for condition in status.get("conditions", ()):
        _merge_condition(after["status"].setdefault("conditions", []), condition)
    return after


def _merge_condition(conditions: list[dict[str, Any]], change: Mapping[str, Any]) -> None:
    same_type = [condition for condition in conditions if condition["type"] == change["type"]]
    if change.get("$patch") == "delete":
        conditions[:] = [condition for condition in conditions if condition not in same_type]
    elif same_type:
        merge(same_type[0], change)
    else:
        conditions.append(dict(change))
