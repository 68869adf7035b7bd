"""Reads what the judge needs from a Node's raw document, without capacityd's own code for reading Nodes.

An entry is a resource's name ("example.com/a") or its label ("label example.com/a"). The annotation uses these names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from capacityd.model.quantity import whole_quantity
from tests.support.judge.surroundings import Document

PUBLISHED, CONFIGURATION = "capacityd/published", "capacityd/configuration"
CONDITION = "CapacityPublished"
_LABEL = "label "


def label(resource: str) -> str:
    """The entry of a resource's label."""
    return _LABEL + resource


def is_label(entry: str) -> bool:
    """Whether an entry is a label."""
    return entry.startswith(_LABEL)


def resource_of(entry: str) -> str:
    """The resource of an entry."""
    return entry.removeprefix(_LABEL)


def uid(node: Document | None) -> str:
    """The uid of a Node. "": there is no Node."""
    return str(node["metadata"].get("uid", "")) if node else ""


def stored(node: Document | None) -> dict[str, str]:
    """The text in capacity of each resource, and the value of each label, by entry."""
    if node is None:
        return {}
    labels = node["metadata"].get("labels") or {}
    return _part(node, "capacity") | {label(key): str(value) for key, value in labels.items()}


def allocatable(node: Document | None) -> dict[str, str]:
    """The text in allocatable, by resource."""
    return {} if node is None else _part(node, "allocatable")


def _part(node: Document, name: str) -> dict[str, str]:
    return dict(node["status"].get(name) or {})


def number(entry: str, text: str | None) -> int | None:
    """The whole number in a stored text. None: another text, or no text. In a label, only plain digits are a number."""
    if text is None:
        return None
    found = whole_quantity(text)
    return None if is_label(entry) and text != str(found) else found


def annotation(node: Document | None) -> str | None:
    """The text of the annotation."""
    if node is None:
        return None
    annotations: Mapping[str, str] = node["metadata"].get("annotations") or {}
    return annotations.get(PUBLISHED)


def published(node: Document | None) -> dict[str, int]:
    """The number in the annotation, by entry."""
    content = _parsed(annotation(node))
    return {name: number for name, number in content.items() if type(number) is int and "/" in name}


@lru_cache
def _parsed(text: str | None) -> dict[str, Any]:
    """The content of an annotation. {}: the text is no JSON object."""
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def conditions(node: Document | None) -> list[Mapping[str, Any]]:
    """All conditions of capacityd's type."""
    if node is None:
        return []
    every = node["status"].get("conditions") or []
    return [condition for condition in every if condition.get("type") == CONDITION]


def is_true(node: Document | None) -> bool:
    """Whether the condition is True."""
    return any(condition.get("status") == "True" for condition in conditions(node))


def rest(node: Document) -> dict[str, Any]:
    """The Node without the parts that capacityd may change: numbers, labels, its two annotations and its condition."""
    metadata = {key: value for key, value in node["metadata"].items() if key not in ("labels", "resourceVersion")}
    annotations = node["metadata"].get("annotations") or {}
    metadata["annotations"] = {k: v for k, v in annotations.items() if k not in (PUBLISHED, CONFIGURATION)}
    metadata.pop("managedFields", None)
    status = {key: value for key, value in node["status"].items() if key not in ("capacity", "allocatable")}
    every = status.pop("conditions", None) or []
    status["conditions"] = [condition for condition in every if condition.get("type") != CONDITION]
    return {**node, "metadata": metadata, "status": status}
