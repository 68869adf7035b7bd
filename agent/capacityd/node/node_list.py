"""Reads all Nodes of a cluster, in pages, with an operator's kubeconfig. It keeps a summary of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from capacityd.model.errors import NodeListExpired, NodeUnreachable
from capacityd.model.fleet import Fleet, NodeSummary
from capacityd.model.node import read_record
from capacityd.model.quantity import LARGEST, whole_quantity
from capacityd.node.client import Client
from capacityd.node.operator_kubeconfig import load_operators
from capacityd.node.parse import node_state

_PAGE = 250
"""Nodes in one response. Twice as many take 26 MiB more of memory, and are not faster."""
_MAX_PAGE_BYTES = 64 << 20
_PAGE_TIMEOUT = 120.0
"""Seconds for a page, which is some megabytes: an operator's network may be slow."""
_TRIES = 5
"""Requests for one page while the API server asks to wait."""
_MAX_WAIT = 10.0
"""Seconds to wait before the next one, at most, whatever the API server asks."""


def read_fleet(kubeconfig: str | None, selector: str, label: str, progress: Callable[[int], None]) -> Fleet:
    """Lists Nodes, and DeviceClasses if they may be listed. Raises NodeError.

    kubeconfig: None for $KUBECONFIG or ~/.kube/config.
    selector: a label selector; "" for all Nodes.
    label: the label that groups Nodes.
    progress: receives how many Nodes have been read, after each page.
    """
    client = Client(load_operators(kubeconfig), _MAX_PAGE_BYTES, _PAGE_TIMEOUT)
    try:
        nodes = tuple(_nodes(client, selector, label, progress))
    except NodeListExpired:
        # The API server keeps the version of the first page for 5 to 10 minutes.
        nodes = tuple(_nodes(client, selector, label, progress))
    return Fleet(nodes, _device_classes(client.list_device_classes()))


def _nodes(client: Client, selector: str, label: str, progress: Callable[[int], None]) -> Iterator[NodeSummary]:
    token, count = "", 0
    while True:
        page = _page(client, selector, token)
        yield from (_summary(item, label) for item in page["items"])
        count += len(page["items"])
        progress(count)
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return


def _page(client: Client, selector: str, token: str) -> dict[str, Any]:
    for remaining in reversed(range(_TRIES)):
        try:
            page = client.list_nodes(_PAGE, token, selector)
            break
        except NodeUnreachable as e:
            if e.retry_after is None or not remaining:
                raise
            time.sleep(min(e.retry_after, _MAX_WAIT))
    if isinstance(page, dict) and page.get("kind") == "NodeList" and isinstance(page.setdefault("items", []), list):
        return page
    raise NodeUnreachable(f"{client.access.server} sent a response that is not a list of Nodes. Is it an API server?")


def _summary(node: Mapping[str, Any], label: str) -> NodeSummary:
    state = node_state({**node, "kind": "Node"})  # the items of a list have no kind
    group = (node["metadata"].get("labels") or {}).get(label)
    return NodeSummary(
        name=state.name,
        label=group,
        capacity=_extended(state.capacity or {}),
        allocatable=_extended(state.allocatable),
        published=read_record(state.annotation),
        configuration=state.configuration or "",
        condition=state.condition,
    )


def _extended(quantities: Mapping[str, str]) -> dict[str, int]:
    """Returns the extended resources as far as the scheduler can count them: whole numbers up to LARGEST."""
    return {
        name: number
        for name, text in quantities.items()
        if "/" in name and (number := whole_quantity(text)) is not None and number <= LARGEST
    }


def _device_classes(document: Any) -> dict[str, tuple[str, ...]]:
    """Returns the DeviceClasses of each extended resource (Kubernetes 1.34 and later). document: None for none."""
    found: dict[str, tuple[str, ...]] = {}
    for item in (document or {}).get("items") or []:
        if resource := item["spec"].get("extendedResourceName"):
            found[resource] = (*found.get(resource, ()), item["metadata"]["name"])
    return found
