"""What the Nodes of a group have in common, for `template`: what an autoscaler can expect of the next Node. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from capacityd.cli.output.terminal import listed
from capacityd.model.fleet import NodeSummary
from capacityd.model.text import plural

_MAX_NAMES = 5
"""Number of Nodes to list in a warning."""


@dataclass(frozen=True, slots=True)
class Common:
    """What each Node of a group has at least."""

    nodes: int
    """Number of Nodes that were compared."""
    quantities: Mapping[str, int]
    """Resource -> the smallest quantity."""
    differences: tuple[str, ...]
    """Which Nodes have more, and which Nodes were not compared because capacityd does not write them."""
    omissions: tuple[str, ...]
    """Why a resource or a Node is left out, although capacityd writes it."""


def common(nodes: Sequence[NodeSummary], names: Collection[str]) -> Common:
    """Compares what capacityd last applied to each Node. It restores these quantities if another writer changes them.

    names: the resources; empty: all that a Node publishes.
    """
    compared = [node for node in nodes if node.has_capacityd and not node.annotation_error]
    published = sorted({name for node in compared for name in node.annotated if not names or name in names})
    # Resource -> names of the Nodes that do not publish it.
    lacking = {name: [node.name for node in compared if name not in node.annotated] for name in published}
    everywhere = [name for name in published if not lacking[name]]
    omissions = [
        f"{name} is left out: {len(lacking[name])} of {plural(len(compared), 'Node')} do not publish it: "
        f"{listed(lacking[name], _MAX_NAMES)}"
        for name in published
        if lacking[name]
    ]
    omissions += [
        f"{node.name} is left out: the annotation capacityd/published can't be read: {node.annotation_error}"
        for node in nodes
        if node.annotation_error
    ]
    return Common(
        nodes=len(compared),
        quantities={name: min(node.annotated[name] for node in compared) for name in everywhere},
        differences=tuple(_differences(nodes, compared=compared, names=everywhere)),
        omissions=tuple(omissions),
    )


def _differences(nodes: Sequence[NodeSummary], compared: Sequence[NodeSummary], names: Sequence[str]) -> Iterator[str]:
    if without := [node.name for node in nodes if not node.has_capacityd]:
        yield f"{plural(len(without), 'Node')} without capacityd: {listed(without, _MAX_NAMES)}"
    for name in names:
        nodes_by_quantity: dict[int, list[str]] = {}
        for node in compared:
            nodes_by_quantity.setdefault(node.annotated[name], []).append(node.name)
        if len(nodes_by_quantity) > 1:
            smallest, *larger = (
                f"{quantity} on {listed(names_of_nodes, _MAX_NAMES)}"
                for quantity, names_of_nodes in sorted(nodes_by_quantity.items())
            )
            yield f"{name} is {smallest}, but {', '.join(larger)}"
