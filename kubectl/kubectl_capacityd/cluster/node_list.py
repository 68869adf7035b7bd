"""Reads all Nodes of a cluster and the requests of its pods, with an operator's kubeconfig. Keeps only summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from capacityd.model.errors import ListExpired, NodeForbidden, NodeUnreachable
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.fields import JsonObject
from kubectl_capacityd.cluster import list_requests
from kubectl_capacityd.cluster.documents.lists import Page
from kubectl_capacityd.cluster.documents.node_summary import summarize
from kubectl_capacityd.cluster.documents.pod_requests import node_and_requests, sum_requests
from kubectl_capacityd.model import Fleet, NodeSummary, PodRequests

T = TypeVar("T")

_NODE_PAGE = 250
"""Nodes in one response. Twice as many need 26 MiB more memory, and are not faster."""
_POD_PAGE = 500
"""Pods in one response, as in kubectl."""
_MAX_PAGE_BYTES = 64 << 20
"""A page of Nodes of 256 KiB each. Most Nodes are much smaller."""
_PAGE_TIMEOUT = 120.0
"""Seconds for a page of some megabytes: an operator's network may be slow."""
_UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_MAX_NAMED = 20
"""For up to this many named Nodes, the pods of each Node are listed instead of all pods of the cluster."""

_RETRY_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt to request a page, unless the API server asks for another pause."""
_MAX_PAUSE = 10.0
"""Maximum pause in seconds before the next attempt, even if the API server asks for more."""


def read_fleet(
    access: ClusterAccess, label: str, selector: str, names: tuple[str, ...], progress: Callable[[str, int], None]
) -> Fleet:
    """Lists Nodes and, if the user may list them, NodeOverlays, DeviceClasses and pods. Raises NodeError.

    label: the label that groups Nodes. selector: a label selector; "" for all Nodes.
    names: the Nodes whose pods to read; empty: the pods of all Nodes.
    progress: called after each page with the kind ("Nodes", "pods") and the number read so far.
    """
    reader = _Reader(access, progress)
    # Before the Nodes: which overlays apply depends on a Node's labels, and its summary does not contain them.
    overlays = reader.send(partial(list_requests.node_overlays, reader.client))
    nodes = reader.nodes(selector, partial(summarize, label=label, overlays=overlays))
    device_classes = reader.send(partial(list_requests.device_classes, reader.client))
    return Fleet(nodes, device_classes=device_classes, requests=reader.pod_requests(names))


def read_nodes(
    access: ClusterAccess, label: str, selector: str, progress: Callable[[str, int], None]
) -> tuple[NodeSummary, ...]:
    """Lists Nodes only. The arguments are those of read_fleet(). Raises NodeError."""
    return _Reader(access, progress).nodes(selector, partial(summarize, label=label))


class _Reader:
    """Reads lists page by page, and repeats a request whose error may pass."""

    def __init__(self, access: ClusterAccess, progress: Callable[[str, int], None]) -> None:
        """progress: as in read_fleet()."""
        self.client = Client(access, max_response_bytes=_MAX_PAGE_BYTES, timeout=_PAGE_TIMEOUT)
        self._progress = progress
        self._has_response = False  # whether the API server has responded to a request

    def nodes(self, selector: str, summarize_node: Callable[[JsonObject], NodeSummary]) -> tuple[NodeSummary, ...]:
        """Returns the Nodes that match a label selector. summarize_node: takes a Node's JSON."""
        list_nodes = partial(
            list_requests.nodes, self.client, limit=_NODE_PAGE, selector=selector, parse_item=summarize_node
        )
        return _restarting_once(lambda: tuple(self._items("Nodes", [list_nodes])))

    def pod_requests(self, names: tuple[str, ...]) -> PodRequests | None:
        """Returns what unfinished pods request; None if the user may not list pods. names: as in read_fleet()."""
        selectors = [_UNFINISHED_PODS]
        if 0 < len(names) <= _MAX_NAMED:
            # "": also the pods that wait for a Node, because `fleet` reports these.
            selectors = [f"{_UNFINISHED_PODS},spec.nodeName={name}" for name in ("", *names)]
        list_pods = partial(list_requests.pods, self.client, limit=_POD_PAGE, parse_item=node_and_requests)
        lists = [partial(list_pods, selector=selector) for selector in selectors]
        try:
            return _restarting_once(lambda: sum_requests(self._items("pods", lists)))
        except NodeForbidden:
            return None

    def send(self, request: Callable[[], T]) -> T:
        """Sends a request to the API server. Returns the request's result.

        Waits and tries again if the API server asks for it, or has responded to an earlier request: a server that has
        never responded may have another address.
        """
        for pause in _RETRY_PAUSES:
            try:
                return self._send_once(request)
            except ListExpired:  # a NodeUnreachable that no repetition ends
                raise
            except NodeUnreachable as e:
                if e.retry_after is None and not self._has_response:
                    raise
                seconds = pause if e.retry_after is None else e.retry_after
                time.sleep(min(seconds, _MAX_PAUSE))
        return self._send_once(request)

    def _send_once(self, request: Callable[[], T]) -> T:
        result = request()
        self._has_response = True
        return result

    def _items(self, kind: str, lists: Iterable[Callable[..., Page[T]]]) -> Iterator[T]:
        """Yields the items of these lists, and reports the progress. kind: of the items, as in read_fleet().

        lists: a function for each list, which requests the page that a token stands for.
        """
        count = 0
        for list_page in lists:
            for page in self._pages(list_page):
                yield from page.items
                count += len(page.items)
                self._progress(kind, count)

    def _pages(self, list_page: Callable[..., Page[T]]) -> Iterator[Page[T]]:
        token = ""
        while True:
            page = self.send(partial(list_page, token=token))
            yield page
            if not page.next_token:
                return
            if page.next_token == token:
                raise NodeUnreachable("the API server repeats a page of its list")
            token = page.next_token


def _restarting_once(read: Callable[[], T]) -> T:
    """Reads a list, and once more from its start if the API server no longer has the rest of the list."""
    try:
        return read()
    except ListExpired:
        return read()
