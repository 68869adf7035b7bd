"""The usual values in a group of Nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from kubectl_capacityd.model import NodeSummary

_USUAL_SHARE = Fraction(4, 5)
"""If this share of a group's Nodes has the same value, the value is usual, and the other Nodes are outliers."""


class Usual(NamedTuple):
    """A value that enough Nodes of a group have in common."""

    value: object  # a quantity (None: the Nodes lack the resource), or the hash of a configuration
    nodes: int  # number of Nodes with this value
    total: int  # number of Nodes that were compared


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


def norm_of(label_value: str | None, members: Sequence[NodeSummary]) -> Norm:
    """The usual values of a group's Nodes. label_value: the value of the label that groups Nodes, or None if the
    Nodes lack the label."""
    has_condition = any(node.condition for node in members)
    # The quantities of a Node without capacityd mean nothing. findings.py reports that such a Node lacks the condition.
    compared = [node for node in members if not lacks_capacityd(node, group_has_condition=has_condition)]
    quantities = {}
    for name in sorted({name for node in compared for name in node.annotated}):
        if usual := _usual(node.capacity.get(name) for node in compared):
            quantities[name] = usual
    configuration = _usual(node.configuration for node in compared if node.configuration)
    nodes_text = f"Nodes of {label_value}" if label_value else "Nodes"
    return Norm(nodes_text, has_condition=has_condition, quantities=quantities, configuration=configuration)


def _usual(values: Iterable[object]) -> Usual | None:
    """The usual value; None if no value is usual. values: a value of each Node."""
    counts = Counter(values)
    if not counts:
        return None
    value, nodes = counts.most_common(1)[0]
    total = counts.total()
    return Usual(value, nodes=nodes, total=total) if is_usual(nodes, total=total) else None


def is_usual(nodes: int, total: int) -> bool:
    """Whether a value is usual if this number of Nodes has it. total: the number of all compared Nodes."""
    return nodes >= total * _USUAL_SHARE


def lacks_capacityd(node: NodeSummary, *, group_has_condition: bool) -> bool:
    """Whether nothing on the Node is from capacityd, although another Node of the group has capacityd's condition."""
    if not group_has_condition:
        return False
    return node.condition is None and not node.annotated and not node.annotation_error
