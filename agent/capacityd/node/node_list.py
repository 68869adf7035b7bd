"""Reads all Nodes of a cluster and the requests of its pods, with an operator's kubeconfig. Keeps only summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from capacityd.model.errors import ListExpired, NodeForbidden, NodeUnreachable
from capacityd.model.fleet import Fleet, NodeSummary, Requests
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.fields import JsonObject
from capacityd.node.documents.lists import Page
from capacityd.node.documents.node_summary import summarize
from capacityd.node.documents.pod_requests import node_and_requests, sum_requests

T = TypeVar("T")

_NODE_PAGE = 250
"""Nodes in one response. Twice as many need 26 MiB more memory, and are not faster."""
_POD_PAGE = 500
_MAX_PAGE_BYTES = 64 << 20
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
    client = Client(access, max_response_bytes=_MAX_PAGE_BYTES, timeout=_PAGE_TIMEOUT)
    # Before the Nodes: their labels, which decide about NodeOverlays, are not kept.
    overlays = _send_retrying(client.list_node_overlays, responded=False)
    parse = partial(summarize, label=label, overlays=overlays)
    # The API server has responded, so a later error may be a short one.
    nodes = _nodes(client, selector, parse=parse, progress=partial(progress, "Nodes"), responded=True)
    device_classes = _send_retrying(client.list_device_classes, responded=True)
    requests = _restarting_once(lambda: _requests(client, names, progress=partial(progress, "pods")))
    return Fleet(nodes, device_classes=device_classes, requests=requests)


def read_nodes(
    access: ClusterAccess, label: str, selector: str, progress: Callable[[str, int], None]
) -> tuple[NodeSummary, ...]:
    """Lists Nodes only. The arguments are those of read_fleet(). Raises NodeError."""
    client = Client(access, max_response_bytes=_MAX_PAGE_BYTES, timeout=_PAGE_TIMEOUT)
    parse = partial(summarize, label=label)
    return _nodes(client, selector, parse=parse, progress=partial(progress, "Nodes"), responded=False)


def _nodes(
    client: Client,
    selector: str,
    parse: Callable[[JsonObject], NodeSummary],
    progress: Callable[[int], None],
    *,
    responded: bool,
) -> tuple[NodeSummary, ...]:
    list_nodes = partial(client.list_nodes, _NODE_PAGE, selector, parse=parse)
    return _restarting_once(lambda: tuple(_all_items([list_nodes], progress, responded=responded)))


def _restarting_once(read: Callable[[], T]) -> T:
    """Reads a list, and once more from its start if the API server no longer has the rest of the list."""
    try:
        return read()
    except ListExpired:
        return read()


def _requests(client: Client, names: tuple[str, ...], progress: Callable[[int], None]) -> Requests | None:
    """Returns the requests of unfinished pods; None if the user may not list pods."""
    selectors = [_UNFINISHED_PODS]
    if 0 < len(names) <= _MAX_NAMED:
        # Also the pods that are not bound to a Node: their nodeName is empty.
        selectors = [f"{_UNFINISHED_PODS},spec.nodeName={name}" for name in ("", *names)]
    lists = [partial(client.list_pods, _POD_PAGE, selector, parse=node_and_requests) for selector in selectors]
    try:
        return sum_requests(_all_items(lists, progress, responded=True))
    except NodeForbidden:
        return None


def _all_items(
    lists: Iterable[Callable[..., Page[T]]], progress: Callable[[int], None], *, responded: bool = False
) -> Iterator[T]:
    """Yields the items of these lists, page by page.

    lists: a function for each list, which takes the token from a page and requests the next page.
    responded: whether the API server has responded to an earlier request.
    """
    count = 0
    for request in lists:
        token = ""
        while True:
            page = _send_retrying(partial(request, token=token), responded=responded)
            responded = True
            yield from page.items
            count += len(page.items)
            progress(count)
            if not page.next_token:
                break
            if page.next_token == token:
                raise NodeUnreachable("the API server repeats a page of its list")
            token = page.next_token


def _send_retrying(send: Callable[[], T], *, responded: bool) -> T:
    """Waits and tries again if the API server asks for it, or if the server has responded to an earlier request."""
    for pause in _RETRY_PAUSES:
        try:
            return send()
        except ListExpired:
            raise
        except NodeUnreachable as e:
            if e.retry_after is None and not responded:
                raise  # the address may be wrong
            if e.retry_after is not None:
                pause = e.retry_after
            time.sleep(min(pause, _MAX_PAUSE))
    return send()
