"""The rules that decide whether a Node needs attention. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from capacityd.model.fleet import NodeSummary, Requests
from capacityd.model.node import CONDITION, Condition, ConditionReason
from capacityd.model.text import duration_text

_USUAL_SHARE = Fraction(4, 5)
"""If this share of a group's Nodes has the same value, the value is usual, and the other Nodes are outliers."""
_MAX_CLOCK_SKEW = 300.0
"""Seconds by which a heartbeat may be ahead of this machine's clock."""


class Reason(Enum):
    """Why a Node needs attention, in addition to the reasons of a condition that is not True. The most severe is first.

    The first two concern the cluster as a whole.
    """

    DEVICE_CLASS = "DeviceClass"  # dynamic resource allocation serves a resource of the same name
    OVERLAY_DIFFERS = "OverlayDiffers"  # a NodeOverlay has another quantity than its Nodes
    NOT_READY = "NotReady"  # the Node is not ready, and capacityd's heartbeat is overdue
    HEARTBEAT_OVERDUE = "HeartbeatOverdue"
    CONDITION_MISSING = "ConditionMissing"
    OVERCOMMITTED = "Overcommitted"  # pods request more than the capacity
    CAPACITY_CHANGED = "CapacityChanged"  # capacity or allocatable differs from what was last applied
    ANNOTATION_UNREADABLE = "AnnotationUnreadable"
    HEARTBEAT_AHEAD = "HeartbeatAhead"  # the heartbeat is in the future
    QUANTITY_DIFFERS = "QuantityDiffers"  # it is not the group's usual quantity
    CONFIGURATION_DIFFERS = "ConfigurationDiffers"  # it is not the group's usual configuration


OUTLIERS = (Reason.HEARTBEAT_AHEAD, Reason.QUANTITY_DIFFERS, Reason.CONFIGURATION_DIFFERS)
"""Reasons that are only suspicions: the other Nodes of the group may be wrong instead of this Node."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason why a Node, or the cluster, needs attention."""

    reason: str
    """The value of a Reason, or the reason of the Node's condition."""
    message: str
    shared_message: str
    """The message without the parts that differ between Nodes. Nodes with the same shared message form a group."""
    since: float | None = None
    """Since when, in seconds since the epoch; None if the Node does not show it."""


class Usual(NamedTuple):
    """A value that enough Nodes of a group have in common."""

    value: object
    nodes: int  # number of Nodes with this value
    total: int  # number of Nodes that were compared


@dataclass(frozen=True, slots=True)
class Norm:
    """The usual values in a group."""

    nodes_text: str
    """What messages call the group's Nodes."""
    has_condition: bool
    """Whether any Node of the group has capacityd's condition."""
    quantities: Mapping[str, Usual]
    configuration: Usual | None

    def others_have(self, usual: Usual) -> str:
        """The beginning of a clause about the Nodes with the usual value: "9 of 10 Nodes have"."""
        return f"{usual.nodes} of {usual.total} {self.nodes_text} have"

    def usual_quantities(self, names: Iterable[str]) -> str:
        """The usual quantities of these resources, for a message; "" for no names."""
        usual_by_name = {name: self.quantities[name] for name in names}
        return "; ".join(f"{self.others_have(usual)} {usual.value} {name}" for name, usual in usual_by_name.items())


def norm_of(label_value: str | None, members: Sequence[NodeSummary]) -> Norm:
    """The usual values of a group's Nodes. label_value: that of the label that groups Nodes."""
    has_condition = any(node.condition for node in members)
    # A Node that lacks the others' condition is reported for that reason; its quantities mean nothing.
    compared = [node for node in members if not _lacks_capacityd(node, group_has_condition=has_condition)]
    quantities = {}
    for name in sorted({name for node in compared for name in node.annotated}):
        if usual := _usual(node.capacity.get(name) for node in compared):
            quantities[name] = usual
    configuration = _usual(node.configuration for node in compared if node.configuration)
    nodes_text = f"Nodes of {label_value}" if label_value else "Nodes"
    return Norm(nodes_text, has_condition=has_condition, quantities=quantities, configuration=configuration)


def findings_of_node(node: NodeSummary, norm: Norm, now: float, max_age: float) -> Iterator[Finding]:
    """Yields what is wrong on a Node, or unusual in its group.

    now: in seconds since the epoch. max_age: seconds after which a heartbeat is overdue.
    """
    lacks_capacityd = _lacks_capacityd(node, group_has_condition=norm.has_condition)
    differing = [] if lacks_capacityd else [*_differing(node, norm)]
    if node.condition:
        lower: list[str] = []
        # Lower quantities show which resource may be less than expected: no field of the Node does.
        if _is_below_expected(node.condition):
            lower = [name for name in differing if _is_lower(node, norm, name)]
        yield from _of_condition(
            node.condition, since=node.condition_since, usual_quantities=norm.usual_quantities(lower)
        )
        yield from _of_heartbeat(node.condition.heartbeat, node, now=now, max_age=max_age)
        # The finding for the condition has reported the lower quantities.
        differing = [name for name in differing if name not in lower]
    elif norm.has_condition:
        message = f"other {norm.nodes_text} have the condition {CONDITION}: does capacityd run on this one?"
        yield finding_for(Reason.CONDITION_MISSING, message)
    if node.annotation_error:
        yield finding_for(Reason.ANNOTATION_UNREADABLE, f"capacityd/published: {node.annotation_error}")
    if lacks_capacityd:
        return
    yield from _of_other_writers(node)
    for name in differing:
        usual = norm.quantities[name]
        quantity = value_text(node.capacity.get(name))
        message = f"{name} is {quantity}, {norm.others_have(usual)} {value_text(usual.value)}"
        yield finding_for(Reason.QUANTITY_DIFFERS, message)
    usual_configuration = norm.configuration
    if usual_configuration and node.configuration and node.configuration != usual_configuration.value:
        others = f"{norm.others_have(usual_configuration)} {usual_configuration.value}"
        message = f"configuration {node.configuration}, {others}"
        yield finding_for(Reason.CONFIGURATION_DIFFERS, message)


def _of_other_writers(node: NodeSummary) -> Iterator[Finding]:
    """Yields what another writer has changed since capacityd wrote it."""
    for name in sorted(_changed(node)):
        message = f"{name} is {value_text(node.capacity.get(name))}, last applied {node.annotated[name]}"
        yield finding_for(Reason.CAPACITY_CHANGED, message)
    for name in sorted(_less_allocatable(node)):
        allocatable = value_text(node.allocatable.get(name))
        message = f"allocatable {name} is {allocatable}, last applied {node.annotated[name]}"
        yield finding_for(Reason.CAPACITY_CHANGED, message)
    for name, (quantity, stored) in sorted(node.labels.items()):
        if stored != str(quantity):
            yield finding_for(Reason.CAPACITY_CHANGED, f"{name} is {value_text(stored)}, last applied {quantity}")


def overcommitments(node: NodeSummary, requests: Requests, resource_names: Iterable[str]) -> Iterator[Finding]:
    """Yields resources whose requests by a Node's pods exceed its capacity. resource_names: the resources to check."""
    requested = requests.by_node.get(node.name, {})
    for name in resource_names:
        capacity = node.capacity.get(name, 0)
        if requested.get(name, 0) > capacity:
            yield finding_for(Reason.OVERCOMMITTED, f"pods request {requested[name]} {name}, capacity is {capacity}")


def finding_for(reason: Reason, message: str) -> Finding:
    """A finding that forms a group with those of the same message."""
    return Finding(reason.value, message=message, shared_message=message)


def _usual(values: Iterable[object]) -> Usual | None:
    """The usual value; None if there is none. values: one of each Node."""
    counts = Counter(values)
    if not counts:
        return None
    value, nodes = counts.most_common(1)[0]
    total = counts.total()
    return Usual(value, nodes=nodes, total=total) if is_usual(nodes, total=total) else None


def is_usual(nodes: int, total: int) -> bool:
    """Whether a value that this number of Nodes has is usual. total: the number of all Nodes that were compared."""
    return nodes >= total * _USUAL_SHARE


def _lacks_capacityd(node: NodeSummary, *, group_has_condition: bool) -> bool:
    """Whether nothing on the Node comes from capacityd, although other Nodes of the group have its condition."""
    if not group_has_condition:
        return False
    return node.condition is None and not node.annotated and not node.annotation_error


def _less_allocatable(node: NodeSummary) -> set[str]:
    """Resources with the last applied capacity but a lower allocatable, unless the condition already reports this."""
    if node.condition and node.condition.reason == ConditionReason.NOT_ALLOCATABLE.value:
        return set()
    less = set()
    for name in node.annotated.keys() - _changed(node):
        allocatable = node.allocatable.get(name)
        if allocatable is None or allocatable < node.annotated[name]:
            less.add(name)
    return less


def _changed(node: NodeSummary) -> set[str]:
    """Resources whose capacity is not what was last applied."""
    return {name for name, number in node.annotated.items() if node.capacity.get(name) != number}


def _differing(node: NodeSummary, norm: Norm) -> Iterator[str]:
    """Resources with an unusual quantity, unless another writer has changed them."""
    changed = _changed(node)
    for name, usual in norm.quantities.items():
        if node.capacity.get(name) != usual.value and name not in changed:
            yield name


def _is_lower(node: NodeSummary, norm: Norm, name: str) -> bool:
    usual = norm.quantities[name].value
    return isinstance(usual, int) and node.capacity.get(name, 0) < usual


def _is_below_expected(condition: Condition) -> bool:
    return condition.status != "True" and condition.reason == ConditionReason.BELOW_EXPECTED.value


def _of_condition(condition: Condition, since: float | None, usual_quantities: str) -> Iterator[Finding]:
    """Yields a finding if the condition is not True.

    since: in seconds since the epoch. usual_quantities: what to add to the message; "" for nothing.
    """
    if condition.status == "True":
        return
    message = condition.message or f"status {condition.status}"
    if usual_quantities:
        message += f" ({usual_quantities})"
    yield Finding(condition.reason or condition.status, message=message, shared_message=message, since=since)


def _of_heartbeat(heartbeat: float | None, node: NodeSummary, now: float, max_age: float) -> Iterator[Finding]:
    """Yields a finding if the heartbeat is missing, overdue or in the future. Times are as in findings_of_node()."""
    if heartbeat is None:
        yield finding_for(Reason.HEARTBEAT_OVERDUE, "the condition has no heartbeat")
        return
    age = now - heartbeat
    ahead = heartbeat - now
    if age > max_age:
        not_ready = node.ready is False
        begin = "the Node is not ready, and capacityd has " if not_ready else ""
        yield Finding(
            Reason.NOT_READY.value if not_ready else Reason.HEARTBEAT_OVERDUE.value,
            message=f"{begin}no heartbeat for {duration_text(age)}",
            shared_message=f"{begin}no heartbeat for more than {duration_text(max_age)}",
            since=node.ready_since if not_ready else heartbeat,
        )
    elif ahead > _MAX_CLOCK_SKEW:
        question = "in the future: is the machine's clock right?"
        yield Finding(
            Reason.HEARTBEAT_AHEAD.value,
            message=f"the heartbeat is {duration_text(ahead)} {question}",
            shared_message=f"the heartbeat is {question}",
        )


def value_text(value: object) -> str:
    """A quantity or the value of a label, for messages; None: the Node has none."""
    return "none" if value is None else str(value)
