"""Lists of objects: a page of the API server's, and the list that kubectl saves. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["Node", "Pod", "DeviceClass"]
_KINDS: Mapping[str, Kind] = {"NodeList": "Node", "PodList": "Pod", "DeviceClassList": "DeviceClass"}
"""The kind of a list's items, which lists of the API server leave out of the items. kubectl's kind is List."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    items: Sequence[dict[str, Any]]
    next_token: str
    """By which the next page is requested; "" for the last one."""


def list_page(document: object, kind: str) -> Page | None:
    """Parses a page of a list of this kind, e.g. NodeList; None if it is not one."""
    if not isinstance(document, dict) or document.get("kind") != kind:
        return None
    items = document.get("items", [])
    if not isinstance(items, list):
        return None
    return Page(items, (document.get("metadata") or {}).get("continue") or "")


def saved_items(document: object) -> Sequence[Mapping[str, Any]] | None:
    """Returns the items of a saved list, or a Node that was saved alone, each with its kind; None if it is neither."""
    if not isinstance(document, dict):
        return None
    if document.get("kind") == "Node":
        return [document]
    items = document.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return None
    kind = _KINDS.get(str(document.get("kind")))
    return [{"kind": kind, **item} for item in items] if kind else items


def of_kind(items: Sequence[Mapping[str, Any]], kind: Kind) -> list[Mapping[str, Any]]:
    """Returns the items of this kind."""
    return [item for item in items if item.get("kind") == kind]


def device_classes_by_resource(items: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Returns the names of the DeviceClasses of each extended resource (Kubernetes 1.34 and later)."""
    classes: dict[str, tuple[str, ...]] = {}
    for item in items:
        if resource := item["spec"].get("extendedResourceName"):
            classes[resource] = (*classes.get(resource, ()), item["metadata"]["name"])
    return classes
