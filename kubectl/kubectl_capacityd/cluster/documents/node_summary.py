"""Summarizes Nodes' JSON for `fleet`, from the API server or a saved list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.model.label import is_label
from capacityd.model.node import annotated_quantities, annotation_content, is_annotation_lost, published_resources
from capacityd.model.quantity import LARGEST_QUANTITY
from capacityd.node.documents.fields import naming_object, object_at, text_at, whole_quantities
from capacityd.node.documents.node import api_time, node_state
from kubectl_capacityd.cluster.documents.overlays import NodeOverlay, overlaid
from kubectl_capacityd.model import NodeSummary


def summarize(node: Mapping[str, Any], label: str, overlays: Sequence[NodeOverlay] = ()) -> NodeSummary:
    """Returns a Node's summary. label: the label that groups Nodes. Raises InvalidDocument if it is not a Node.

    overlays: the cluster's NodeOverlays, in the order of precedence.
    """
    with naming_object("Node", node):
        state = node_state({**node, "kind": "Node"})  # the items of a list have no kind
        metadata = object_at(node, "metadata") or {}
        node_labels = object_at(metadata, "labels", path="metadata.labels") or {}
        label_value = text_at(node_labels, label, path=f"label {label}")
        spec = object_at(node, "spec") or {}
    ready = _ready(node)
    annotated = annotated_quantities(state.annotation)  # of resources and of labels (model/label.py)
    return NodeSummary(
        name=state.name,
        label_value=label_value,
        capacity=_extended(state.capacity),
        allocatable=_extended(state.allocatable),
        annotated=published_resources(state),
        labels={
            name: (quantity, state.stored(name))  # the published quantity, and the label's value on the Node
            for name, quantity in annotated.items()
            if is_label(name)
        },
        configuration=state.configuration or "",
        condition=state.condition,
        condition_since=api_time(state.condition.transition) if state.condition else None,
        annotation_error=_annotation_error(state.annotation),
        ready=(ready.get("status") == "True") if ready else None,  # None: unknown
        ready_since=api_time(ready.get("lastTransitionTime")),
        cordoned=spec.get("unschedulable") is True,
        overlaid=overlaid(overlays, node_labels),
    )


def ready_heartbeat(node: Mapping[str, Any]) -> float | None:
    """Returns when the kubelet last renewed the condition Ready, in seconds since the epoch; None if unknown."""
    return api_time(_ready(node).get("lastHeartbeatTime"))


def _ready(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition Ready; empty if there is none."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((stored for stored in conditions if stored.get("type") == "Ready"), {})


def _extended(quantities: Mapping[str, str] | None) -> dict[str, int]:
    """Returns the extended resources that the scheduler can count: whole numbers up to LARGEST_QUANTITY."""
    numbers = whole_quantities(quantities)
    return {name: number for name, number in numbers.items() if "/" in name and number <= LARGEST_QUANTITY}


def _annotation_error(annotation: str | None) -> str:
    """Why the annotation can't be read, or which of its entries can't; "" if all can."""
    if annotation is None:
        return ""
    if is_annotation_lost(annotation):
        return "it is not a JSON object"
    # annotated_quantities() skips the entries that capacityd can't have written.
    unreadable = sorted(annotation_content(annotation).keys() - annotated_quantities(annotation).keys())
    return f"not a quantity of an extended resource: {', '.join(unreadable)}" if unreadable else ""
