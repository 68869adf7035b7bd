"""Reads all Nodes of a cluster and the requests of its pods, with an operator's kubeconfig. Keeps only summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeForbidden, NodeUnreachable
from capacityd.node.client import Client
from capacityd.node.documents.fields import JsonObject
from capacityd.node.errors import Call
from kubectl_capacityd.cluster.documents.lists import device_classes_by_resource, list_page
from kubectl_capacityd.cluster.documents.node_summary import summarize
from kubectl_capacityd.cluster.documents.pod_requests import node_and_requests, sum_requests
from kubectl_capacityd.model import Fleet, PodRequests

T = TypeVar("T")

_NODE_PAGE = 250
"""Number of Nodes in one response. Larger pages are not faster, and a double page needs 26 MiB more memory."""
_POD_PAGE = 500
"""Number of pods in one response. kubectl has the same limit."""
_MAX_PAGE_BYTES = 64 * 1024**2
"""Maximum size of a response: a page of Nodes of 256 KiB each. Most Nodes are much smaller."""
_UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_API_MISSING_OR_DENIED = (403, 404, 405)
"""HTTP statuses of a server that lacks the requested API, or denies access."""
_MAX_RETRIES = 4
"""How often a request is repeated if the API server asks for that."""
_MAX_PAUSE = 10.0
"""Maximum pause in seconds before a repetition, even if the API server asks for more."""


def read_fleet(access: ClusterAccess, label: str, selector: str, *, only_nodes: bool = False) -> Fleet:
    """Lists Nodes and, if the user may list them, DeviceClasses and pods. Raises NodeError.

    label: the label that groups Nodes. selector: a label selector; "" for all Nodes. only_nodes: whether to list only
    Nodes.
    """
    client = Client(access, max_response_bytes=_MAX_PAGE_BYTES)
    query = {"limit": str(_NODE_PAGE)}
    if selector:
        query["labelSelector"] = selector
    parse_node = partial(summarize, label=label)
    nodes = tuple(_read_list(client, "nodes", query, kind="NodeList", parse_item=parse_node))
    if only_nodes:
        return Fleet(nodes)
    return Fleet(nodes, device_classes=_device_classes(client), requests=_pod_requests(client))


def _pod_requests(client: Client) -> PodRequests | None:
    """What unfinished pods request; None if the user may not list pods."""
    query = {"limit": str(_POD_PAGE), "fieldSelector": _UNFINISHED_PODS}
    try:
        pods = _read_list(client, "pods", query, kind="PodList", parse_item=node_and_requests)
    except NodeForbidden:
        return None
    return sum_requests(pods)


def _device_classes(client: Client) -> Mapping[str, tuple[str, ...]]:
    """Extended resource -> names of its DeviceClasses. Empty if the server lacks this API or denies access."""

    def parse(document: Any) -> Mapping[str, tuple[str, ...]]:
        items: list[JsonObject] = []
        if document:
            items, _next_token = list_page(document, "DeviceClassList", parse_item=dict)
        return device_classes_by_resource(items)

    call = Call("list", "deviceclasses")
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    return _with_retries(partial(client.request, call, path, parse, absent_on=_API_MISSING_OR_DENIED))


def _read_list(
    client: Client, resource: str, query: Mapping[str, str], kind: str, parse_item: Callable[[JsonObject], T]
) -> list[T]:
    """Reads a list page by page. resource: nodes or pods. kind: the kind of the list, such as NodeList."""
    parse = partial(list_page, kind=kind, parse_item=parse_item)
    items: list[T] = []
    token = ""  # names the next page
    while True:
        page_query = {**query, "continue": token} if token else query
        path = f"/api/v1/{resource}?{urlencode(page_query)}"
        page, next_token = _with_retries(partial(client.request, Call("list", resource), path, parse))
        items += page
        if not next_token:
            return items
        if next_token == token:
            raise NodeUnreachable("the API server repeats a page of its list")
        token = next_token


def _with_retries(request: Callable[[], T]) -> T:
    """Sends a request, and returns the result. Repeats the request after a pause if the API server asks for that."""
    retries = 0
    while True:
        try:
            return request()
        except NodeUnreachable as e:
            if not e.retry_after or retries == _MAX_RETRIES:
                raise
            retries += 1
            time.sleep(min(e.retry_after, _MAX_PAUSE))
