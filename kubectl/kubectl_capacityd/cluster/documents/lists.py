"""Lists of objects: a page from the API server, and a list that kubectl has saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from capacityd.node.documents.fields import (
    InvalidDocument,
    JsonObject,
    object_at,
    objects_at,
    printable_text_at,
    text_at,
)
from kubectl_capacityd.cluster.documents.objects import naming_object

T = TypeVar("T")

_KIND_OF_ITEMS = {
    "NodeList": "Node",
    "PodList": "Pod",
    "DeviceClassList": "DeviceClass",
}
"""Kind of a list from the API server -> kind of its items, which lack the field `kind`. Lists by kubectl have the kind
List, and their items have the field."""


def list_page(document: Any, kind: str, parse_item: Callable[[JsonObject], T]) -> tuple[list[T], str]:
    """The parsed items of a page, and the token to request the next page; "" for the last page. Raises InvalidDocument.

    kind: the kind of the list, such as NodeList.
    """
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise InvalidDocument(f"it is not a {kind}")
    items = objects_at(document, "items")
    metadata = object_at(document, "metadata")
    next_token = text_at(metadata, "continue") or ""
    return [parse_item(item) for item in items], next_token


def saved_items(document: Any) -> Mapping[str, Sequence[JsonObject]]:
    """Returns the items of a saved list, or a single saved Node: kind -> items. Raises InvalidDocument."""
    if not isinstance(document, dict):
        raise InvalidDocument('it is not a list of Nodes, as from "kubectl get nodes -o json"')
    if document.get("kind") == "Node":
        return {"Node": [document]}
    kind_of_items = _KIND_OF_ITEMS.get(str(document.get("kind")))  # None for a list by kubectl
    by_kind = defaultdict(list)
    for item in objects_at(document, "items"):
        by_kind[kind_of_items or str(item.get("kind"))].append(item)
    return by_kind


def device_classes_by_resource(items: Sequence[JsonObject]) -> dict[str, tuple[str, ...]]:
    """Returns extended resource -> names of its DeviceClasses (Kubernetes 1.34 and later). Raises InvalidDocument."""
    classes: dict[str, tuple[str, ...]] = {}
    for item in items:
        with naming_object("DeviceClass", item):
            metadata = object_at(item, "metadata")
            spec = object_at(item, "spec")
            name = printable_text_at(metadata, "name")
            resource = printable_text_at(spec, "extendedResourceName")
        if resource:
            earlier_names = classes.get(resource, ())
            classes[resource] = (*earlier_names, name)
    return classes
