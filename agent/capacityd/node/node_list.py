"""Reads all Nodes of a cluster and the requests of its pods, with an operator's kubeconfig. Keeps only summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from capacityd.model.errors import InvalidDocument, NodeForbidden, NodeUnreachable
from capacityd.model.fleet import Fleet, NodeSummary, Requests
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.lists import device_classes_by_resource, list_page
from capacityd.node.documents.node_summary import summarize
from capacityd.node.documents.pod_requests import requests_of_pods
from capacityd.node.list_pages import pages, retry_if_expired
from capacityd.node.operator_kubeconfig import load_operators

_NODE_PAGE = 250
"""Nodes in one response. Twice as many need 26 MiB more memory, and are not faster."""
_POD_PAGE = 500
_MAX_PAGE_BYTES = 64 << 20
_PAGE_TIMEOUT = 120.0
"""Seconds for a page of some megabytes: an operator's network may be slow."""
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_MAX_SELECTED = 20
"""For up to this many named Nodes, the pods of each Node are listed instead of all pods of the cluster."""


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """The Nodes to read, and how to group them."""

    label: str
    """The label that groups Nodes."""
    selector: str = ""
    """A label selector; "" for all Nodes."""
    names: tuple[str, ...] = ()
    """The Nodes whose pods to read; empty: the pods of all Nodes."""


def read_fleet(kubeconfig: str | None, query: FleetQuery, progress: Callable[[str, int], None]) -> Fleet:
    """Lists Nodes and, if the user may list them, DeviceClasses and pods. Raises NodeError.

    kubeconfig: None for $KUBECONFIG or ~/.kube/config.
    progress: called after each page with the kind ("Nodes", "pods") and the number read so far.
    """
    client = Client(load_operators(kubeconfig), _MAX_PAGE_BYTES, _PAGE_TIMEOUT)
    with _usable_responses(client.access):
        nodes = retry_if_expired(lambda: tuple(_nodes(client, query, partial(progress, "Nodes"))))
        classes = _device_classes(client)
        requests = retry_if_expired(lambda: _requests(client, query.names, partial(progress, "pods")))
    return Fleet(nodes, classes, requests)


def read_device_classes(kubeconfig: str) -> Mapping[str, tuple[str, ...]]:
    """Returns extended resource -> names of its DeviceClasses; empty if the user may not list them.

    Raises NodeError.
    """
    client = Client(load_operators(kubeconfig))
    with _usable_responses(client.access):
        return _device_classes(client)


@contextmanager
def _usable_responses(access: ClusterAccess) -> Iterator[None]:
    """Raises NodeUnreachable if the API server sends an invalid document."""
    try:
        yield
    except InvalidDocument as e:
        message = f"API server {access.server} sent a response that cannot be used: {access.quote(str(e))}"
        raise NodeUnreachable(message) from None


def _device_classes(client: Client) -> Mapping[str, tuple[str, ...]]:
    page = list_page(client.list_device_classes(), "DeviceClassList")
    return device_classes_by_resource(page.items if page else ())


def _nodes(client: Client, query: FleetQuery, progress: Callable[[int], None]) -> Iterator[NodeSummary]:
    count = 0
    send = partial(client.list_nodes, _NODE_PAGE, selector=query.selector)
    for page in pages(send, "NodeList", client.access.server):
        yield from (summarize(item, query.label) for item in page)
        count += len(page)
        progress(count)


def _requests(client: Client, names: tuple[str, ...], progress: Callable[[int], None]) -> Requests | None:
    """Returns the requests of unfinished pods; None if the user may not list pods."""
    selectors = [_UNFINISHED]
    if 0 < len(names) <= _MAX_SELECTED:
        selectors = [f"{_UNFINISHED},spec.nodeName={name}" for name in ("", *names)]  # "": unbound pods
    try:
        return requests_of_pods(_pods(client, selectors, progress))
    except NodeForbidden:
        return None


def _pods(client: Client, selectors: Sequence[str], progress: Callable[[int], None]) -> Iterator[Mapping[str, Any]]:
    count = 0
    for selector in selectors:
        send = partial(client.list_pods, _POD_PAGE, selector=selector)
        for page in pages(send, "PodList", client.access.server):
            yield from page
            count += len(page)
            progress(count)
