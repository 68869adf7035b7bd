"""Karpenter's NodeOverlays: what they say about the extended resources of a Node. Pure.

NodeOverlaySpec and OrderByWeight in sigs.k8s.io/karpenter, pkg/apis/v1alpha1/nodeoverlay.go.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from capacityd.model.fleet import Overlaid
from capacityd.model.quantity import whole_quantity
from capacityd.node.documents.fields import JsonObject, mapping, naming, objects, printable_text, text

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
        """Whether these labels meet the requirement. An operator that this version does not know never does."""
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
        try:
            (limit,) = self.values
            return compare is not None and compare(int(str(value)), int(limit))
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class NodeOverlay:
    """What Karpenter adds to the machines that it could start."""

    name: str
    weight: int
    requirements: tuple[_Requirement, ...]
    capacity: Mapping[str, int]


def node_overlays(items: Sequence[JsonObject]) -> list[NodeOverlay]:
    """Returns the overlays with a capacity, the one that decides first. Raises InvalidDocument."""
    overlays = [overlay for overlay in map(_node_overlay, items) if overlay.capacity]
    return sorted(overlays, key=lambda overlay: (overlay.weight, overlay.name), reverse=True)


def overlaid(overlays: Sequence[NodeOverlay], labels: JsonObject) -> dict[str, Overlaid]:
    """Returns resource -> what these overlays say about a Node with these labels. overlays: as from node_overlays()."""
    decided: dict[str, Overlaid] = {}
    for overlay in overlays:
        if all(requirement.holds(labels) for requirement in overlay.requirements):
            decided = {name: Overlaid(overlay.name, number) for name, number in overlay.capacity.items()} | decided
    return decided


def _node_overlay(item: JsonObject) -> NodeOverlay:
    with naming("NodeOverlay", item):
        metadata, spec = (mapping(item, key, key) or {} for key in ("metadata", "spec"))
        weight = spec.get("weight")
        capacity = mapping(spec, "capacity", "spec.capacity") or {}
        return NodeOverlay(
            printable_text(metadata, "name", "metadata.name"),
            weight if isinstance(weight, int) else 0,
            tuple(map(_requirement, objects(spec, "requirements", "spec.requirements") or ())),
            {
                name: number
                for name, quantity in capacity.items()
                if (number := whole_quantity(str(quantity))) is not None
            },
        )


def _requirement(item: JsonObject) -> _Requirement:
    values = item.get("values")
    return _Requirement(
        text(item, "key", "spec.requirements.key") or "",
        text(item, "operator", "spec.requirements.operator") or "",
        tuple(map(str, values)) if isinstance(values, list) else (),
    )
