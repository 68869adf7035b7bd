"""Reads a cluster's Nodes and pods from a list that kubectl has saved."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from capacityd.model.errors import NodeError, UsageError
from capacityd.node.documents.fields import InvalidDocument, JsonObject
from capacityd.node.file_node import display_name, read_json
from kubectl_capacityd.cluster.documents.lists import device_classes_by_resource, saved_items
from kubectl_capacityd.cluster.documents.node_summary import ready_heartbeat, summarize
from kubectl_capacityd.cluster.documents.pod_requests import node_and_requests, sum_requests
from kubectl_capacityd.model import Fleet

_REMEDY = 'save a list of Nodes with "kubectl get nodes -o json"'


def read_fleet_file(path: str, label: str) -> Fleet:
    """Returns the Nodes, DeviceClasses and pods in a saved list. Raises UsageError for any other file.

    path: output of kubectl get -o json; "-" for standard input. label: the label that groups Nodes.
    """
    try:
        items = saved_items(read_json(path))
        nodes = items.get("Node", ())
        pods = items.get("Pod", ())
        if not nodes:
            raise InvalidDocument(f"there are no Nodes in this list: {_REMEDY}")
        # kubectl may have saved only the Nodes. Then the pods are unknown.
        requests = sum_requests(map(node_and_requests, pods)) if pods else None
        return Fleet(
            nodes=tuple(summarize(node, label) for node in nodes),
            device_classes=device_classes_by_resource(items.get("DeviceClass", ())),
            requests=requests,
            read_at=_read_at(nodes),
        )
    except NodeError as e:
        raise UsageError(f"{e}: {_REMEDY}") from e
    except InvalidDocument as e:
        raise UsageError(f"{display_name(path)}: {e}") from e


def _read_at(nodes: Sequence[JsonObject]) -> float | None:
    """When the list was saved, in seconds since the epoch; None if unknown.

    The list does not contain this time, and the file may be a copy with a later time. Most kubelets renew the heartbeat
    of Ready every 5 minutes. So the median heartbeat is close to the time of the list, even if some Nodes are silent or
    have a wrong clock.
    """
    heartbeats = [heartbeat for heartbeat in map(ready_heartbeat, nodes) if heartbeat is not None]
    return statistics.median_high(heartbeats) if heartbeats else None
