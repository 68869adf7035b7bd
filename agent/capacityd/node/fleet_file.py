"""Reads a cluster's Nodes and pods from a list that kubectl has saved."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.model.errors import NodeError, UsageError
from capacityd.model.fleet import Fleet
from capacityd.node.documents.lists import device_classes_by_resource, of_kind, saved_items
from capacityd.node.documents.node_summary import ready_heartbeat, summarize
from capacityd.node.documents.pod_requests import requests_of_pods


def read_fleet_file(path: str, label: str) -> Fleet:
    """Returns the Nodes, DeviceClasses and pods in a saved list. Raises UsageError for any other file.

    path: output of kubectl get -o json; "-" for standard input. label: the label that groups Nodes.
    """
    items = _items(path)
    nodes = of_kind(items, "Node")
    if not nodes:
        raise UsageError(f'{path}: no Nodes in this list: save them with "kubectl get nodes -o json"')
    pods = of_kind(items, "Pod")
    try:
        return Fleet(
            tuple(summarize(node, label) for node in nodes),
            device_classes_by_resource(of_kind(items, "DeviceClass")),
            requests_of_pods(pods) if pods else None,
            _read_at(nodes),
        )
    except NodeError as e:
        raise UsageError(f"{path}: {e}") from e


def _items(path: str) -> Sequence[Mapping[str, Any]]:
    """The list's items, each with its kind."""
    try:
        if path == "-":
            document = json.load(sys.stdin)
        else:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
    except OSError as e:
        raise UsageError(f"{path}: could not be read: {os.strerror(e.errno or 0)}") from e
    except (ValueError, RecursionError) as e:
        raise UsageError(f'{path}: it is not JSON: save the list with "kubectl get nodes -o json"') from e
    items = saved_items(document)
    if items is None:
        raise UsageError(f'{path}: it is not a list of Nodes: save one with "kubectl get nodes -o json"')
    return items


def _read_at(nodes: Sequence[Mapping[str, Any]]) -> float | None:
    """When the list was saved. The list does not contain this time, but most kubelets renew Ready every 5 minutes.

    The file's own time may be that of a copy. The median of the heartbeats is close to the time, even if some Nodes are
    silent or have a wrong clock.
    """
    heartbeats = [heartbeat for node in nodes if (heartbeat := ready_heartbeat(node)) is not None]
    return statistics.median_high(heartbeats) if heartbeats else None
