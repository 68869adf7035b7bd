"""Reads all Nodes of a cluster and the requests of its pods, with an operator's kubeconfig. Keeps only summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from capacityd.model.errors import ListExpired, NodeForbidden, NodeUnreachable
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.fields import JsonObject
from kubectl_capacityd.cluster.documents.lists import device_classes_by_resource, list_page
from kubectl_capacityd.cluster.documents.node_summary import summarize
from kubectl_capacityd.cluster.documents.pod_requests import node_and_requests, sum_requests
from kubectl_capacityd.model import Fleet, NodeSummary, PodRequests

T = TypeVar("T")

_NODE_PAGE = 250
"""Number of Nodes in one response. Larger pages are not faster, and a double page needs 26 MiB more memory."""
_POD_PAGE = 500
"""Number of pods in one response. kubectl has the same limit."""
_MAX_PAGE_BYTES = 64 << 20
"""Maximum size of a response: a page of Nodes of 256 KiB each. Most Nodes are much smaller."""
_UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_MAX_NAMED = 20
"""For up to this many named Nodes, the pods of each Node are listed instead of all pods of the cluster."""
_API_MISSING_OR_DENIED = (403, 404, 405)
"""HTTP statuses of a server that lacks the requested API, or denies access."""
_RETRY_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt to request a page, unless the API server asks for another pause."""
_MAX_PAUSE = 10.0
"""Maximum pause in seconds before the next attempt, even if the API server asks for more."""


def read_fleet(
    access: ClusterAccess,
    label: str,
    selector: str,
    names: tuple[str, ...] | None,
    progress: Callable[[str, int], None],
) -> Fleet:
    """Lists Nodes and, if the user may list them, DeviceClasses and pods. Raises NodeError.

    label: the label that groups Nodes. selector: a label selector; "" for all Nodes.
    names: the Nodes whose pods to read. Empty: the pods of all Nodes. None: lists only Nodes.
    progress: called after each page with the kind ("Nodes", "pods") and the number read so far.
    """
    reader = _Reader(access, progress)
    nodes = reader.nodes(selector, label)
    if names is None:
        return Fleet(nodes)
    device_classes = reader.device_classes()
    return Fleet(nodes, device_classes=device_classes, requests=reader.pod_requests(names))


class _Reader:
    """Reads lists page by page. Repeats requests that fail for a temporary reason."""

    def __init__(self, access: ClusterAccess, progress: Callable[[str, int], None]) -> None:
        """progress: called after each page with the kind ("Nodes", "pods") and the number read so far."""
        self._client = Client(access, max_response_bytes=_MAX_PAGE_BYTES)
        self._progress = progress
        self._has_response = False  # whether the API server has responded to a request

    def nodes(self, selector: str, label: str) -> tuple[NodeSummary, ...]:
        """The Nodes that match a label selector."""
        query = {"limit": str(_NODE_PAGE), "labelSelector": selector}
        parse = partial(list_page, kind="NodeList", parse_item=partial(summarize, label=label))

        def read() -> tuple[NodeSummary, ...]:
            nodes: list[NodeSummary] = []
            for page in self._pages("nodes", query, parse):
                nodes += page
                self._progress("Nodes", len(nodes))
            return tuple(nodes)

        return _restarting_once(read)

    def pod_requests(self, names: tuple[str, ...]) -> PodRequests | None:
        """What unfinished pods request; None if the user may not list pods.

        names: the Nodes whose pods to read; empty for all Nodes.
        """
        selectors = [_UNFINISHED_PODS]
        if 0 < len(names) <= _MAX_NAMED:
            # The name "" selects the pods that wait for a Node, which `fleet` also reports.
            selectors = [f"{_UNFINISHED_PODS},spec.nodeName={name}" for name in ("", *names)]
        parse = partial(list_page, kind="PodList", parse_item=node_and_requests)

        def read() -> PodRequests:
            pods: list[tuple[str, Mapping[str, int]]] = []
            for selector in selectors:
                for page in self._pages("pods", {"limit": str(_POD_PAGE), "fieldSelector": selector}, parse):
                    pods += page
                    self._progress("pods", len(pods))
            return sum_requests(pods)

        try:
            return _restarting_once(read)
        except NodeForbidden:
            return None

    def device_classes(self) -> Mapping[str, tuple[str, ...]]:
        """Extended resource -> names of its DeviceClasses. Empty if the server lacks this API or denies access."""

        def parse(document: Any) -> Mapping[str, tuple[str, ...]]:
            items: list[JsonObject] = []
            if document:
                items, _ = list_page(document, "DeviceClassList", parse_item=dict)
            return device_classes_by_resource(items)

        path = "/apis/resource.k8s.io/v1/deviceclasses"
        return self._send(
            partial(self._client.get, "deviceclasses", path, {}, parse=parse, absent_on=_API_MISSING_OR_DENIED)
        )

    def _pages(
        self, resource: str, query: Mapping[str, str], parse: Callable[[Any], tuple[list[T], str]]
    ) -> Iterator[list[T]]:
        """Yields the items of each page. resource: nodes or pods. parse: returns a page's items and the token of the
        next page, "" for the last page."""
        token = ""
        while True:
            parameters = {name: value for name, value in {**query, "continue": token}.items() if value}
            request = partial(self._client.get, resource, f"/api/v1/{resource}", parameters, parse=parse)
            items, next_token = self._send(request)
            yield items
            if not next_token:
                return
            if next_token == token:
                raise NodeUnreachable("the API server repeats a page of its list")
            token = next_token

    def _send(self, request: Callable[[], T]) -> T:
        """Sends a request to the API server, and returns the result.

        Repeats a failed request after a pause if the API server asks for a repetition, or has responded to an earlier
        request. If the server has never responded, its address may be wrong.
        """
        for pause in _RETRY_PAUSES:
            try:
                return self._send_once(request)
            except ListExpired:  # a NodeUnreachable for which a repetition does not help
                raise
            except NodeUnreachable as e:
                if not e.retry_after and not self._has_response:
                    raise
                time.sleep(min(e.retry_after or pause, _MAX_PAUSE))
        return self._send_once(request)

    def _send_once(self, request: Callable[[], T]) -> T:
        result = request()
        self._has_response = True
        return result


def _restarting_once(read: Callable[[], T]) -> T:
    """Reads a list. If the API server no longer has the next page, reads the list once more from its start."""
    try:
        return read()
    except ListExpired:
        return read()
