"""Summarizes Nodes' JSON for `fleet`, from the API server or a saved list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capacityd.model.published import published_in, why_unreadable
from capacityd.model.quantity import LARGEST_QUANTITY
from capacityd.node.documents.fields import object_at, objects_at, text_at
from capacityd.node.documents.node import api_time, node_state
from kubectl_capacityd.cluster.documents.objects import naming_object, whole_quantities
from kubectl_capacityd.model import NodeSummary


def summarize(node: Mapping[str, Any], label: str) -> NodeSummary:
    """Returns a Node's summary. label: the label that groups Nodes. Raises InvalidDocument."""
    with naming_object("Node", node):
        state = node_state({**node, "kind": "Node"})  # the items of a list have no kind
        metadata = object_at(node, "metadata")
        node_labels = object_at(metadata, "labels")
        label_value = text_at(node_labels, label)
        spec = object_at(node, "spec")
    condition_since = None if state.condition is None else api_time(state.condition.transition)
    ready = _ready_condition(node)
    is_ready = ready.get("status") == "True" if ready else None
    quantities: dict[str, int] = {}
    labels: dict[str, tuple[int, str | None]] = {}
    for key, number in published_in(state.annotation).items():
        if key.is_label:
            labels[key.name] = (number, state.labels.get(key.name))
        else:
            quantities[key.name] = number
    return NodeSummary(
        name=state.name,
        label_value=label_value,
        capacity=_extended_resources(state.capacity),
        allocatable=_extended_resources(state.allocatable),
        published=quantities,
        labels=labels,
        configuration=state.configuration or "",
        condition=state.condition,
        condition_since=condition_since,
        annotation_error=why_unreadable(state.annotation),
        ready=is_ready,
        ready_since=api_time(ready.get("lastTransitionTime")),
        cordoned=spec.get("unschedulable") is True,
    )


def ready_heartbeat(node: Mapping[str, Any]) -> float | None:
    """When the kubelet last renewed the condition Ready, in seconds since the epoch; None if unknown."""
    return api_time(_ready_condition(node).get("lastHeartbeatTime"))


def _ready_condition(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition Ready; empty if there is none."""
    status = object_at(node, "status")
    for condition in objects_at(status, "conditions"):
        if condition.get("type") == "Ready":
            return condition
    return {}


def _extended_resources(quantities: Mapping[str, str]) -> dict[str, int]:
    """Returns the extended resources that the scheduler can count: whole numbers up to LARGEST_QUANTITY."""
    numbers = whole_quantities(quantities)
    return {name: number for name, number in numbers.items() if "/" in name and number <= LARGEST_QUANTITY}
