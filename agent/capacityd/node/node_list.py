"""Reads all Nodes of a cluster, in pages, with an operator's kubeconfig. It keeps a summary of each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from capacityd.model.errors import NodeListExpired, NodeUnreachable
from capacityd.model.fleet import ConditionSummary, Fleet, NodeSummary
from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION
from capacityd.model.quantity import LARGEST, name_problem, whole_quantity
from capacityd.node.client import Client
from capacityd.node.errors import Call, no_library_error
from capacityd.node.operator_kubeconfig import load_operators
from capacityd.node.transport_errors import from_transport_error

_PAGE = 250
"""Nodes in one response. Twice as many take 26 MiB more of memory, and are not faster."""
_MAX_PAGE_BYTES = 64 << 20
_TRIES = 5
"""Requests for one page while the API server asks to wait."""
_MAX_WAIT = 10.0
"""Seconds to wait before the next one, at most, whatever the API server asks."""

Progress = Callable[[int, "int | None"], None]
"""Receives how many Nodes have been read, and how many there are; None if the API server does not report it."""


def read_fleet(kubeconfig: str | None, selector: str, label: str, progress: Progress) -> Fleet:
    """Lists Nodes, and DeviceClasses if they may be listed. Raises NodeError.

    kubeconfig: None for $KUBECONFIG or ~/.kube/config.
    selector: a label selector; "" for all Nodes.
    label: the label that groups Nodes.
    """
    access = load_operators(kubeconfig)
    with no_library_error(lambda e: from_transport_error(e, Call(access.server, access.kubeconfig))):
        client = Client(access, _MAX_PAGE_BYTES)
    try:
        nodes = tuple(_nodes(client, selector, label, progress))
    except NodeListExpired:
        # The API server keeps the version of the first page for 5 to 10 minutes.
        nodes = tuple(_nodes(client, selector, label, progress))
    return Fleet(nodes, _device_classes(client.list_device_classes()))


def _nodes(client: Client, selector: str, label: str, progress: Progress) -> Iterator[NodeSummary]:
    token, count = "", 0
    while True:
        page = _page(client, selector, token)
        items = page["items"]
        yield from (_summary(item, label) for item in items)
        count += len(items)
        metadata = _mapping(page.get("metadata"))
        token, rest = metadata.get("continue") or "", metadata.get("remainingItemCount")
        progress(count, count + rest if isinstance(rest, int) else None if token else count)
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


def _summary(node: object, label: str) -> NodeSummary:
    """Tolerates whatever a Node contains: an error of one Node must not hide all others."""
    document = _mapping(node)
    metadata, status = _mapping(document.get("metadata")), _mapping(document.get("status"))
    annotations = _mapping(metadata.get("annotations"))
    group = _mapping(metadata.get("labels")).get(label)
    return NodeSummary(
        name=str(metadata.get("name")),
        label=None if group is None else str(group),
        capacity=_extended(status.get("capacity")),
        allocatable=_extended(status.get("allocatable")),
        published=_published(annotations.get(ANNOTATION)),
        configuration=str(annotations.get(CONFIGURATION_ANNOTATION) or ""),
        condition=_condition(status.get("conditions")),
    )


def _extended(quantities: object) -> dict[str, int]:
    """Returns the extended resources as far as the scheduler can count them: whole numbers up to LARGEST."""
    return {
        name: number
        for name, text in _mapping(quantities).items()
        if "/" in name and (number := whole_quantity(str(text))) is not None and number <= LARGEST
    }


def _published(annotation: object) -> dict[str, int]:
    if not isinstance(annotation, str):
        return {}
    try:
        stored = json.loads(annotation)
    except (ValueError, RecursionError):
        return {}
    return {
        name: value
        for name, value in _mapping(stored).items()
        if type(value) is int and 0 <= value <= LARGEST and not name_problem(name)
    }


def _condition(conditions: object) -> ConditionSummary | None:
    for entry in conditions if isinstance(conditions, list) else []:
        stored = _mapping(entry)
        if stored.get("type") == CONDITION:
            status, reason, message = (str(stored.get(key) or "") for key in ("status", "reason", "message"))
            return ConditionSummary(status, reason, message, _seconds(stored.get("lastHeartbeatTime")))
    return None


def _seconds(timestamp: object) -> float | None:
    if not isinstance(timestamp, str) or not timestamp.endswith("Z"):
        return None
    try:
        # strptime() takes 30 times as long. Before Python 3.11, fromisoformat() does not know "Z".
        return datetime.fromisoformat(f"{timestamp[:-1]}+00:00").timestamp()
    except ValueError:
        return None


def _device_classes(document: object) -> dict[str, tuple[str, ...]]:
    """Returns the DeviceClasses of each extended resource (Kubernetes 1.34 and later)."""
    items = _mapping(document).get("items")
    found: dict[str, tuple[str, ...]] = {}
    for item in items if isinstance(items, list) else []:
        resource = _mapping(_mapping(item).get("spec")).get("extendedResourceName")
        if isinstance(resource, str):
            name = str(_mapping(_mapping(item).get("metadata")).get("name"))
            found[resource] = (*found.get(resource, ()), name)
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
