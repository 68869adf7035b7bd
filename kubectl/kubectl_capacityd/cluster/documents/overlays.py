"""Karpenter's NodeOverlays: what they say about the extended resources of a Node. Pure.

Source: NodeOverlaySpec and OrderByWeight in sigs.k8s.io/karpenter, pkg/apis/v1alpha1/nodeoverlay.go.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from capacityd.node.documents.fields import (
    JsonObject,
    naming_object,
    object_at,
    objects_at,
    printable_text_at,
    text_at,
    whole_quantities,
)
from kubectl_capacityd.model import Overlaid

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "Gt": operator.gt,
    "Lt": operator.lt,
    "Gte": operator.ge,
    "Lte": operator.le,
}


@dataclass(frozen=True, slots=True)
class _Requirement:
    """What a NodeOverlay demands of a Node's label."""

    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: JsonObject) -> bool:
        """Whether these labels meet the requirement. They never meet one with an unknown operator."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        compare = _COMPARISONS.get(self.operator)
        if compare is None or len(self.values) != 1:
            return False
        try:
            return compare(int(str(value)), int(self.values[0]))
        except ValueError:  # the label or the limit is no integer, or there is no label
            return False


@dataclass(frozen=True, slots=True)
class NodeOverlay:
    """What Karpenter adds to the Nodes of the machines that it could start."""

    name: str
    weight: int
    requirements: tuple[_Requirement, ...]
    capacity: Mapping[str, int]
    """Resource -> quantity; only whole numbers."""


def node_overlays(items: Sequence[JsonObject]) -> list[NodeOverlay]:
    """Returns the overlays with a capacity, in the order of precedence. Raises InvalidDocument."""
    overlays = [overlay for overlay in map(_node_overlay, items) if overlay.capacity]
    return sorted(overlays, key=lambda overlay: (overlay.weight, overlay.name), reverse=True)


def overlaid(overlays: Sequence[NodeOverlay], labels: JsonObject) -> dict[str, Overlaid]:
    """Returns resource -> what these overlays say about a Node with these labels. overlays: as from node_overlays()."""
    decided: dict[str, Overlaid] = {}
    for overlay in reversed(overlays):  # an earlier overlay decides, so it replaces later ones
        if all(requirement.holds(labels) for requirement in overlay.requirements):
            for name, quantity in overlay.capacity.items():
                decided[name] = Overlaid(overlay=overlay.name, quantity=quantity)
    return decided


def _node_overlay(item: JsonObject) -> NodeOverlay:
    with naming_object("NodeOverlay", item):
        metadata = object_at(item, "metadata") or {}
        spec = object_at(item, "spec") or {}
        weight = spec.get("weight")
        return NodeOverlay(
            name=printable_text_at(metadata, "name", path="metadata.name"),
            weight=weight if isinstance(weight, int) else 0,
            requirements=tuple(map(_requirement, objects_at(spec, "requirements", path="spec.requirements") or ())),
            capacity=whole_quantities(object_at(spec, "capacity", path="spec.capacity")),
        )


def _requirement(item: JsonObject) -> _Requirement:
    values = item.get("values")
    return _Requirement(
        key=text_at(item, "key", path="spec.requirements.key") or "",
        operator=text_at(item, "operator", path="spec.requirements.operator") or "",
        values=tuple(map(str, values)) if isinstance(values, list) else (),
    )
