"""From the JSON of a Node to the few things that we go by. Strict about types, tolerant about what is missing. Pure."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Mapping
from typing import cast

from capacityd.capacity import ANNOTATION, CONDITION, Condition, NodeState
from capacityd.errors import NodeError
from capacityd.printable import printable


def node_state(document: object) -> NodeState:
    """What a Node says. Raises NodeError for what is no Node.

    Text is printable, except for what our patch has to repeat to the letter to guard it: our annotation and the stored
    condition.
    """
    if not isinstance(document, dict):
        raise NodeError("this is no Node: it is not a JSON object")
    if document.get("kind") == "List":
        raise NodeError('this is a List, not a Node: "kubectl get node NAME -o json" prints a single one')
    if document.get("kind") != "Node":
        raise NodeError(f"this is no Node: its kind is {_shown(document.get('kind'))}")
    metadata = _mapping(document, "metadata", "metadata") or {}
    status = _mapping(document, "status", "status") or {}
    name = _text(metadata, "name", "metadata.name")
    if not name:
        raise NodeError("this is no Node: metadata.name is missing")
    annotations = _mapping(metadata, "annotations", "metadata.annotations")
    annotation = (annotations or {}).get(ANNOTATION)
    if annotation is not None and not isinstance(annotation, str):
        raise NodeError(f"the Node's annotation {ANNOTATION} is not text")
    conditions = _conditions(status)
    ours = [*_ours(conditions or [])]
    capacity = _mapping(status, "capacity", "status.capacity")
    return NodeState(
        name=name,
        uid=_text(metadata, "uid", "metadata.uid"),
        capacity=None if capacity is None else _quantities(capacity, "status.capacity"),
        allocatable=_quantities(_mapping(status, "allocatable", "status.allocatable") or {}, "status.allocatable"),
        has_annotations=annotations is not None,
        annotation=annotation,
        conditions=None if conditions is None else len(conditions),
        condition=ours[0] if ours else None,
        machine_id=_text(
            _mapping(status, "nodeInfo", "status.nodeInfo") or {}, "machineID", "status.nodeInfo.machineID"
        ),
        surplus=tuple(ours[1:]),
        heartbeat=_heartbeat(conditions or []),
    )


def _mapping(parent: Mapping[str, object], key: str, path: str) -> dict[str, object] | None:
    found = parent.get(key)
    if found is not None and not isinstance(found, dict):
        raise NodeError(f"the Node's {path} is not a JSON object")
    return found


def _text(parent: Mapping[str, object], key: str, path: str) -> str:
    found = parent.get(key)
    if found is not None and not isinstance(found, str):
        raise NodeError(f"the Node's {path} is not text")
    return printable(found or "")


def _quantities(found: Mapping[str, object], path: str) -> dict[str, str]:
    quantities = {}
    for name, value in found.items():
        # A quantity may be written as a number; the API server itself always gives text.
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise NodeError(f"the Node's {path} has no quantity for {_shown(name)}")
        quantities[printable(name)] = printable(str(value))
    return quantities


def _conditions(status: Mapping[str, object]) -> list[dict[str, object]] | None:
    found = status.get("conditions")
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(condition, dict) for condition in found):
        raise NodeError("the Node's status.conditions is not a list of JSON objects")
    return cast("list[dict[str, object]]", found)


def _ours(conditions: list[dict[str, object]]) -> Iterator[Condition]:
    for index, stored in enumerate(conditions):
        if stored.get("type") == CONDITION:
            path = f"condition {CONDITION}"
            status, reason, message = (_text(stored, key, path) for key in ("status", "reason", "message"))
            yield Condition(status, reason, message, index, stored)


def _heartbeat(conditions: list[dict[str, object]]) -> float | None:
    """When the kubelet last reported itself Ready or not, in seconds since the epoch; None if it never did."""
    for stored in conditions:
        if stored.get("type") == "Ready":
            text = _text(stored, "lastHeartbeatTime", "condition Ready")
            try:
                return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
            except ValueError:
                return None
    return None


def _shown(value: object) -> str:
    return printable(f'"{value}"') if isinstance(value, str) else "missing" if value is None else "not text"
