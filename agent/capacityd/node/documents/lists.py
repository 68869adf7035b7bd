"""Lists of objects: a page from the API server, and a list that kubectl has saved. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from capacityd.model.errors import InvalidDocument
from capacityd.node.documents.fields import InvalidField, described, mapping, objects, printable_text, text

Kind: TypeAlias = Literal["Node", "Pod", "DeviceClass"]
_KINDS: Mapping[str, Kind] = {"NodeList": "Node", "PodList": "Pod", "DeviceClassList": "DeviceClass"}
"""The kind of a list's items. The API server's lists omit it in the items. kubectl's lists have the kind List."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    items: Sequence[Mapping[str, Any]]
    next_token: str
    """The token to request the next page; "" for the last page."""


def list_page(document: object, kind: str) -> Page | None:
    """Parses a page of a list of this kind, e.g. NodeList; None if the document is not one."""
    if not isinstance(document, dict) or document.get("kind") != kind:
        return None
    try:
        items = objects(document, "items", "items") or []
        metadata = mapping(document, "metadata", "metadata") or {}
        return Page(items, text(metadata, "continue", "metadata.continue") or "")
    except InvalidField:
        return None


def saved_items(document: object) -> Sequence[Mapping[str, Any]] | None:
    """Returns the items of a saved list, or a single saved Node, each with its kind; None for any other document."""
    if not isinstance(document, dict):
        return None
    if document.get("kind") == "Node":
        return [document]
    try:
        items = objects(document, "items", "items")
    except InvalidField:
        return None
    if items is None:
        return None
    kind = _KINDS.get(str(document.get("kind")))
    return [{"kind": kind, **item} for item in items] if kind else items


def of_kind(items: Sequence[Mapping[str, Any]], kind: Kind) -> list[Mapping[str, Any]]:
    """Returns the items of this kind."""
    return [item for item in items if item.get("kind") == kind]


def device_classes_by_resource(items: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Returns extended resource -> names of its DeviceClasses (Kubernetes 1.34 and later).

    Raises InvalidDocument if a DeviceClass has a field of a wrong type.
    """
    classes: dict[str, tuple[str, ...]] = {}
    for item in items:
        try:
            metadata, spec = (mapping(item, key, key) or {} for key in ("metadata", "spec"))
            name = printable_text(metadata, "name", "metadata.name")
            resource = printable_text(spec, "extendedResourceName", "spec.extendedResourceName")
        except InvalidField as e:
            raise InvalidDocument(f"{described('DeviceClass', item)}: {e}") from e
        if resource:
            classes[resource] = (*classes.get(resource, ()), name)
    return classes
