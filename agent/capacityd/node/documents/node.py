"""Parses the JSON of a Node and of a SelfSubjectReview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from capacityd.model.fingerprint import fingerprint
from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION, Condition, NodeState
from capacityd.model.quantity import in_plain_digits
from capacityd.model.text import printable
from capacityd.node.documents.fields import (
    InvalidDocument,
    JsonObject,
    object_at,
    objects_at,
    printable_text_at,
    text_at,
    texts_at,
)
from capacityd.node.documents.patch import are_preconditions
from capacityd.node.identity import User

_NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"  # noqa: S105  # a key, not a secret


def node_state(document: Any) -> NodeState:
    """Returns the state of a Node. Raises InvalidDocument if the document is not a Node.

    Texts are made printable. Only the uid, the annotations and the labels stay unchanged, because they are compared
    with other texts.
    """
    if not isinstance(document, dict) or document.get("kind") != "Node":
        raise InvalidDocument("this is not a Node")
    metadata = object_at(document, "metadata")
    status = object_at(document, "status")
    node_info = object_at(status, "nodeInfo")
    name = printable_text_at(metadata, "name")
    if not name:
        raise InvalidDocument("metadata.name is missing")
    annotations = object_at(metadata, "annotations")
    conditions = objects_at(status, "conditions")
    return NodeState(
        name=name,
        uid=text_at(metadata, "uid") or "",
        resource_version=text_at(metadata, "resourceVersion") or "",
        capacity=_quantities(status, "capacity"),
        allocatable=_quantities(status, "allocatable"),
        labels=_labels(metadata),
        annotation=text_at(annotations, ANNOTATION),
        configuration=text_at(annotations, CONFIGURATION_ANNOTATION),
        conditions=tuple(_own_conditions(conditions)),
        machine_id=printable_text_at(node_info, "machineID"),
        system_uuid=printable_text_at(node_info, "systemUUID"),
        fingerprint=fingerprint(document),
    )


def named_node(document: Any, name: str, uid: str | None = None) -> NodeState:
    """Returns the state of the requested Node. uid: the Node's uid; None if it is not known yet.

    Raises InvalidDocument if the document is about another Node, or lacks the uid or the resourceVersion.
    """
    state = node_state(document)
    is_other_uid = uid is not None and state.uid != uid
    if state.name != name or is_other_uid:
        raise InvalidDocument("it is about another Node")
    if not are_preconditions(state.uid, state.resource_version):
        raise InvalidDocument("metadata.uid or metadata.resourceVersion is missing")
    return state


def reviewed_user(document: Any) -> User:
    """Returns the user in a SelfSubjectReview. Raises InvalidDocument."""
    if not isinstance(document, dict):
        raise InvalidDocument("it is not a JSON object")
    status = object_at(document, "status")
    user = object_at(status, "userInfo")
    extra = object_at(user, "extra")
    nodes = texts_at(extra, _NODE_OF_TOKEN)  # a list, although a token is bound to only one Node
    bound_node = printable(nodes[0]) if nodes else ""
    return User(printable_text_at(user, "username"), bound_node)


def _labels(metadata: JsonObject) -> dict[str, str]:
    labels = object_at(metadata, "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}  # the API server stores only text


def _quantities(status: JsonObject, key: str) -> dict[str, str]:
    """Name -> quantity. Whole numbers become plain digits, such as 1000 instead of the API server's 1k."""
    quantities = {}
    for name, value in object_at(status, key).items():
        if not isinstance(value, str) or not value.isprintable():
            raise InvalidDocument(f"{key} has an invalid quantity")
        quantities[printable(name)] = in_plain_digits(value)
    return quantities


def _own_conditions(conditions: Sequence[JsonObject]) -> Iterator[Condition]:
    """Yields the conditions of capacityd's type. Two writers at the same time may have added several."""
    for document in conditions:
        if document.get("type") == CONDITION:
            yield Condition(
                status=printable_text_at(document, "status"),
                reason=printable_text_at(document, "reason"),
                message=printable_text_at(document, "message"),
                heartbeat=api_time(document.get("lastHeartbeatTime")),
                transition=text_at(document, "lastTransitionTime") or "",
            )


def api_time(value: object) -> float | None:
    """Returns a time of the API server in seconds since the epoch; None if the value is not a time."""
    if not isinstance(value, str) or not value.endswith("Z"):
        return None
    try:
        # strptime() takes 30 times as long. Before Python 3.11, fromisoformat() does not support "Z".
        return datetime.fromisoformat(f"{value[:-1]}+00:00").timestamp()
    except ValueError:
        return None
