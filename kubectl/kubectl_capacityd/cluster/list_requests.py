"""The requests for lists: each returns a page, or a whole list. Each raises a NodeError."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from capacityd.node.client import Client
from capacityd.node.documents.fields import JsonObject
from kubectl_capacityd.cluster.documents.lists import Page, device_classes_by_resource, list_page
from kubectl_capacityd.cluster.documents.overlays import NodeOverlay
from kubectl_capacityd.cluster.documents.overlays import node_overlays as overlays_of

T = TypeVar("T")

_API_MISSING_OR_DENIED = (403, 404, 405)
"""HTTP statuses if the server does not have the API of a request, or denies it."""


def nodes(client: Client, limit: int, selector: str, token: str, parse_item: Callable[[JsonObject], T]) -> Page[T]:
    """Returns a page of the Nodes that match a label selector.

    limit: Nodes in a page. token: from the previous page, "" for the first page. parse_item: parses a Node's JSON.
    """
    query = _query(limit=str(limit), labelSelector=selector, token=token)
    parse = partial(list_page, kind="NodeList", parse_item=parse_item)
    return client.get("nodes", "/api/v1/nodes", query, parse=parse)


def pods(client: Client, limit: int, selector: str, token: str, parse_item: Callable[[JsonObject], T]) -> Page[T]:
    """Returns a page of the pods of all namespaces that match a field selector. The rest is as in nodes()."""
    query = _query(limit=str(limit), fieldSelector=selector, token=token)
    parse = partial(list_page, kind="PodList", parse_item=parse_item)
    return client.get("pods", "/api/v1/pods", query, parse=parse)


def device_classes(client: Client) -> Mapping[str, tuple[str, ...]]:
    """Returns extended resource -> names of its DeviceClasses. Empty if the server lacks this API or denies it."""

    def parse(document: Any) -> Mapping[str, tuple[str, ...]]:
        return device_classes_by_resource(_items(document, "DeviceClassList"))

    path = "/apis/resource.k8s.io/v1/deviceclasses"
    return client.get("deviceclasses", path, {}, parse=parse, absent_on=_API_MISSING_OR_DENIED)


def node_overlays(client: Client) -> Sequence[NodeOverlay]:
    """Returns Karpenter's NodeOverlays in the order of precedence. Empty if the server lacks this API or denies it."""

    def parse(document: Any) -> Sequence[NodeOverlay]:
        return overlays_of(_items(document, "NodeOverlayList"))

    path = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
    return client.get("nodeoverlays", path, {}, parse=parse, absent_on=_API_MISSING_OR_DENIED)


def _query(token: str, **parameters: str) -> Mapping[str, str]:
    """The parameters that have a value. token: from the previous page, "" for the first page."""
    return {name: value for name, value in {**parameters, "continue": token}.items() if value}


def _items(document: Any, kind: str) -> Sequence[JsonObject]:
    """The items of a list of this kind. document: None if the server sent none."""
    return list_page(document, kind, parse_item=dict).items if document else []
