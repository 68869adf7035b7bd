"""Parses the JSON of a Node and of a SelfSubjectReview. Strict about types, tolerant of missing fields. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from capacityd.model.errors import InvalidDocument
from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION, Condition, NodeState
from capacityd.model.text import printable
from capacityd.node.documents.fields import (
    InvalidField,
    JsonObject,
    described,
    mapping,
    objects,
    printable_text,
    text,
)

_NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"  # noqa: S105  # a key, not a secret


def node_state(document: object) -> NodeState:
    """Returns the state of a Node. Raises InvalidDocument if the document is not a Node.

    Text is made printable, except text that our patch's tests repeat literally: annotation, condition and uid.
    """
    if not isinstance(document, dict):
        raise InvalidDocument("this is not a Node: it is not a JSON object")
    if document.get("kind") == "List":
        raise InvalidDocument('this is a List, not a Node: "kubectl get node NAME -o json" prints a single one')
    if document.get("kind") != "Node":
        raise InvalidDocument(f"this is not a Node: its kind is {_shown(document.get('kind'))}")
    try:
        return _node_state(document)
    except InvalidField as e:
        raise InvalidDocument(f"{described('Node', document)}: {e}") from e


def _node_state(document: JsonObject) -> NodeState:
    metadata = mapping(document, "metadata", "metadata") or {}
    status = mapping(document, "status", "status") or {}
    node_info = mapping(status, "nodeInfo", "status.nodeInfo") or {}
    name = printable_text(metadata, "name", "metadata.name")
    if not name:
        raise InvalidDocument("this is not a Node: metadata.name is missing")
    annotations = mapping(metadata, "annotations", "metadata.annotations")
    annotation, configuration = (
        text(annotations or {}, key, f"annotation {key}") for key in (ANNOTATION, CONFIGURATION_ANNOTATION)
    )
    conditions = objects(status, "conditions", "status.conditions")
    ours = [*_ours(conditions or [])]
    capacity, allocatable = (_quantities(status, key) for key in ("capacity", "allocatable"))
    return NodeState(
        name=name,
        uid=text(metadata, "uid", "metadata.uid") or "",
        capacity=capacity,
        allocatable=allocatable,
        has_annotations=annotations is not None,
        annotation=annotation,
        conditions=None if conditions is None else len(conditions),
        condition=ours[0] if ours else None,
        machine_id=printable_text(node_info, "machineID", "status.nodeInfo.machineID"),
        duplicate_conditions=tuple(ours[1:]),
        heartbeat=_ready_heartbeat(conditions or []),
        configuration=configuration,
        resource_version=printable_text(metadata, "resourceVersion", "metadata.resourceVersion"),
    )


def reviewed_user(document: object) -> tuple[str, str]:
    """Returns the user of a SelfSubjectReview and the Node that the user's token is bound to; "" if missing."""
    status = document.get("status") if isinstance(document, dict) else None
    user = status.get("userInfo") if isinstance(status, dict) else None
    if not isinstance(user, dict):
        return "", ""
    name, extra = user.get("username"), user.get("extra")
    nodes = extra.get(_NODE_OF_TOKEN) if isinstance(extra, dict) else None
    node = nodes[0] if isinstance(nodes, list) and nodes and isinstance(nodes[0], str) else ""
    return printable(name) if isinstance(name, str) else "", printable(node)


def _quantities(status: JsonObject, key: str) -> dict[str, str] | None:
    path = f"status.{key}"
    stored = mapping(status, key, path)
    if stored is None:
        return None
    quantities = {}
    for name, value in stored.items():
        # A file may contain a quantity as a number. The API server always sends text, and a test repeats it literally.
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not str(value).isprintable():
            raise InvalidField(f"{path} has an invalid quantity for {_shown(name)}")
        quantities[printable(name)] = str(value)
    return quantities


def _ours(conditions: Sequence[JsonObject]) -> Iterator[Condition]:
    for index, stored in enumerate(conditions):
        if stored.get("type") == CONDITION:
            path = f"condition {CONDITION}"
            status, reason, message = (printable_text(stored, key, path) for key in ("status", "reason", "message"))
            heartbeat = api_time(stored.get("lastHeartbeatTime"))
            transition = str(stored.get("lastTransitionTime") or "")
            yield Condition(status, reason, message, index, stored, heartbeat, transition)


def _ready_heartbeat(conditions: Sequence[JsonObject]) -> float | None:
    """Returns when the kubelet last updated the condition Ready, in seconds since the epoch; None if it never did."""
    for stored in conditions:
        if stored.get("type") == "Ready":
            return api_time(text(stored, "lastHeartbeatTime", "condition Ready"))
    return None


def api_time(value: object) -> float | None:
    """Parses the API server's format of a time into seconds since the epoch; None if it is not a time."""
    if not isinstance(value, str) or not value.endswith("Z"):
        return None
    try:
        # strptime() takes 30 times as long. Before Python 3.11, fromisoformat() does not support "Z".
        return datetime.fromisoformat(f"{value[:-1]}+00:00").timestamp()
    except ValueError:
        return None


def _shown(value: object) -> str:
    if isinstance(value, str):
        return printable(f'"{value}"')
    return "missing" if value is None else "not text"


def as_served(document: Any) -> Any:
    """Completes a Node from a file as the API server does: its Nodes have a status, and their quantities are text.

    Our patch's tests compare text, and a patch can't add anything below a missing parent.
    """
    if not isinstance(document, dict) or document.get("kind") != "Node":
        return document
    if document.get("status") is None:
        document["status"] = {}
    status = document["status"]
    for key in ("capacity", "allocatable"):
        quantities = status.get(key) if isinstance(status, dict) else None
        if isinstance(quantities, dict):
            for name, value in quantities.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    quantities[name] = str(value)
    return document
