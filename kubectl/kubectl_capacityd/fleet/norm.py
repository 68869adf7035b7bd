"""The usual values in a group of Nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kubectl_capacityd.model import NodeSummary, published_names

_USUAL_SHARE = Fraction(4, 5)
"""If this share of a group's Nodes has the same value, the value is usual, and the other Nodes are outliers."""


@dataclass(frozen=True, slots=True)
class Usual:
    """A value that enough Nodes of a group have in common."""

    value: object
    """A quantity, or the hash of a configuration. None: the Nodes lack the resource."""
    nodes: int
    """Number of Nodes with this value."""
    total: int
    """Number of Nodes that were compared."""


@dataclass(frozen=True, slots=True)
class Norm:
    """The usual values in a group."""

    nodes_text: str
    """What messages call the group's Nodes, such as "Nodes of m7i.metal"."""
    has_condition: bool
    """Whether any Node of the group has capacityd's condition."""
    quantities: Mapping[str, Usual]
    """Resource -> its usual quantity. Resources without a usual quantity are left out."""
    configuration: Usual | None
    """The usual hash of the configuration; None if there is none."""

    def others_have(self, usual: Usual) -> str:
        """The beginning of a clause about the Nodes with the usual value: "9 of 10 Nodes have"."""
        return f"{usual.nodes} of {usual.total} {self.nodes_text} have"


def norm_of(label_value: str | None, nodes: Sequence[NodeSummary]) -> Norm:
    """The usual values of a group's Nodes. label_value: of the label that groups Nodes; None if the Nodes lack it."""
    # A Node without capacityd has no quantities to compare. Another finding says that it lacks the condition.
    compared = [node for node in nodes if node.has_capacityd]
    quantities = {}
    for name in published_names(compared):
        usual_quantity = _usual([node.capacity.get(name) for node in compared])
        if usual_quantity is not None:
            quantities[name] = usual_quantity
    configurations = [node.configuration for node in compared if node.configuration]
    return Norm(
        nodes_text=f"Nodes of {label_value}" if label_value else "Nodes",
        has_condition=any(node.condition for node in nodes),
        quantities=quantities,
        configuration=_usual(configurations),
    )


def _usual(values: Sequence[object]) -> Usual | None:
    """The usual value; None if no value is usual. values: a value of each Node."""
    for value, nodes in Counter(values).most_common(1):  # no value if there are no Nodes
        if nodes >= len(values) * _USUAL_SHARE:
            return Usual(value, nodes=nodes, total=len(values))
    return None
