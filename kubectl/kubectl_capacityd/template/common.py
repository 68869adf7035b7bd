"""Finds what the Nodes of a group have in common. An autoscaler can expect the same of the next Node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from capacityd.cli.output.terminal import listed
from capacityd.model.text import plural
from kubectl_capacityd.model import NodeSummary, published_names

_MAX_NAMES = 5
"""Number of Nodes to list in a warning."""


@dataclass(frozen=True, slots=True)
class CommonResources:
    """What each Node of a group has at least."""

    compared_nodes: int
    """Number of Nodes that were compared."""
    quantities: Mapping[str, int]
    """Resource -> the smallest quantity."""
    differences: tuple[str, ...]
    """Which Nodes have more, and which Nodes were not compared because capacityd does not write them."""
    omissions: tuple[str, ...]
    """Why a resource or a Node is left out, although capacityd writes it."""


def common_resources(nodes: Sequence[NodeSummary], resource_names: Collection[str]) -> CommonResources:
    """Compares the published quantities of the Nodes. Ignores changes of other writers, which capacityd reverts.

    resource_names: the resources to compare; empty for all published resources.
    """
    compared = [node for node in nodes if node.has_capacityd and not node.annotation_error]
    quantities: dict[str, int] = {}
    differences: list[str] = []
    omissions: list[str] = []
    without_capacityd = [node.name for node in nodes if not node.has_capacityd]
    if without_capacityd:
        number = plural(len(without_capacityd), "Node")
        differences.append(f"{number} without capacityd: {listed(without_capacityd, most=_MAX_NAMES)}")
    for name in published_names(compared):
        if resource_names and name not in resource_names:
            continue
        lacking = [node.name for node in compared if name not in node.published]
        if lacking:
            of_nodes = f"{len(lacking)} of {plural(len(compared), 'Node')}"
            omissions.append(f"{name} is left out: {of_nodes} do not publish it: {listed(lacking, most=_MAX_NAMES)}")
            continue
        quantities[name] = min(node.published[name] for node in compared)
        difference = _difference(compared, name)
        if difference:
            differences.append(difference)
    for node in nodes:
        if node.annotation_error:
            why = f"the annotation capacityd/published can't be read: {node.annotation_error}"
            omissions.append(f"{node.name} is left out: {why}")
    return CommonResources(
        compared_nodes=len(compared),
        quantities=quantities,
        differences=tuple(differences),
        omissions=tuple(omissions),
    )


def _difference(nodes: Sequence[NodeSummary], name: str) -> str:
    """Which Nodes publish more of the resource than others; "" if all publish the same quantity."""
    nodes_by_quantity: dict[int, list[str]] = {}  # quantity -> names of the Nodes
    for node in nodes:
        nodes_by_quantity.setdefault(node.published[name], []).append(node.name)
    if len(nodes_by_quantity) == 1:
        return ""
    parts = [f"{quantity} on {listed(names, most=_MAX_NAMES)}" for quantity, names in sorted(nodes_by_quantity.items())]
    return f"{name} is {parts[0]}, but {', '.join(parts[1:])}"
