"""The rules that decide whether a Node needs attention. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from capacityd.model.fleet import NodeSummary, Requests
from capacityd.model.node import CONDITION, Condition, ConditionReason
from capacityd.model.text import duration_text

_MAJORITY = (4, 5)
"""Numerator and denominator: if this share of a group's Nodes has the same value, the other Nodes are outliers."""
_MAX_CLOCK_SKEW = 300.0
"""Seconds by which a heartbeat may be ahead of this machine's clock."""


class Reason(Enum):
    """Why a Node needs attention, in addition to the reasons of a condition that is not True. The worst comes first."""

    DEVICE_CLASS = "DeviceClass"  # of the cluster: dynamic resource allocation serves a resource of the same name
    OVERLAY_DIFFERS = "OverlayDiffers"  # of the cluster: a NodeOverlay has another quantity than its Nodes
    NOT_READY = "NotReady"  # and capacityd's heartbeat is overdue
    HEARTBEAT_OVERDUE = "HeartbeatOverdue"
    CONDITION_MISSING = "ConditionMissing"
    OVERCOMMITTED = "Overcommitted"  # pods request more than the capacity
    CAPACITY_CHANGED = "CapacityChanged"  # capacity or allocatable differs from what was last applied
    ANNOTATION_UNREADABLE = "AnnotationUnreadable"
    HEARTBEAT_AHEAD = "HeartbeatAhead"  # the heartbeat is in the future
    QUANTITY_DIFFERS = "QuantityDiffers"  # from the group's usual quantity
    CONFIGURATION_DIFFERS = "ConfigurationDiffers"  # from the group's usual configuration


OUTLIERS = (Reason.HEARTBEAT_AHEAD, Reason.QUANTITY_DIFFERS, Reason.CONFIGURATION_DIFFERS)
"""Reasons that are only suspicions: the other Nodes of the group may be wrong instead of this Node."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason why a Node needs attention."""

    reason: str
    """The value of a Reason, or a condition's reason."""
    message: str
    shared_message: str
    """The message without the parts that differ between Nodes. Nodes with the same shared message form a group."""
    since: float | None = None
    """Since when, in seconds since the epoch; None if the Node does not show it."""


class Usual(NamedTuple):
    """A value that enough Nodes of a group have in common."""

    value: object
    number: int  # of Nodes with this value
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
        return f"{usual.number} of {usual.total} {self.nodes_text} have"


def norm_of(label: str | None, members: Sequence[NodeSummary]) -> Norm:
    """The usual values of a group's Nodes."""
    has_condition = any(node.condition for node in members)
    # A Node that lacks the others' condition is reported for that reason; its quantities mean nothing.
    compared = [node for node in members if not _lacks_capacityd(node, group_has_condition=has_condition)]
    quantities = {}
    for name in sorted({name for node in compared for name in node.annotated}):
        if usual := _usual(node.capacity.get(name) for node in compared):
            quantities[name] = usual
    configuration = _usual(node.configuration for node in compared if node.configuration)
    nodes_text = f"Nodes of {label}" if label else "Nodes"
    return Norm(nodes_text, has_condition=has_condition, quantities=quantities, configuration=configuration)


def findings_of_node(node: NodeSummary, norm: Norm, now: float, max_age: float) -> Iterator[Finding]:
    """Yields what is wrong on a Node, or unusual in its group.

    now: in seconds since the epoch. max_age: seconds after which a heartbeat is overdue.
    """
    lacks_capacityd = _lacks_capacityd(node, group_has_condition=norm.has_condition)
    differing = [] if lacks_capacityd else [*_differing(node, norm)]
    if node.condition:
        expectation = _below_expected(node, norm, differing)
        yield from _of_condition(node.condition, node, expectation)
        yield from _of_heartbeat(node.condition.heartbeat, node, now=now, max_age=max_age)
        if expectation:  # the finding for the condition already names the lower quantities
            differing = [name for name in differing if not _is_lower(node, norm, name)]
    elif norm.has_condition:
        message = f"other {norm.nodes_text} have the condition {CONDITION}: does capacityd run on this one?"
        yield same_for_all(Reason.CONDITION_MISSING, message)
    if node.annotation_error:
        yield same_for_all(Reason.ANNOTATION_UNREADABLE, f"capacityd/published: {node.annotation_error}")
    if lacks_capacityd:
        return
    yield from _changes(node)
    for name in differing:
        usual = norm.quantities[name]
        message = f"{name} is {shown(node.capacity.get(name))}, {norm.others_have(usual)} {shown(usual.value)}"
        yield same_for_all(Reason.QUANTITY_DIFFERS, message)
    usual_configuration = norm.configuration
    if usual_configuration and node.configuration and node.configuration != usual_configuration.value:
        others = f"{norm.others_have(usual_configuration)} {usual_configuration.value}"
        message = f"configuration {node.configuration}, {others}"
        yield same_for_all(Reason.CONFIGURATION_DIFFERS, message)


def _changes(node: NodeSummary) -> Iterator[Finding]:
    """Yields what another writer has changed since capacityd wrote it."""
    for name in sorted(_changed(node)):
        message = f"{name} is {shown(node.capacity.get(name))}, last applied {node.annotated[name]}"
        yield same_for_all(Reason.CAPACITY_CHANGED, message)
    for name in sorted(_less_allocatable(node)):
        message = f"allocatable {name} is {shown(node.allocatable.get(name))}, last applied {node.annotated[name]}"
        yield same_for_all(Reason.CAPACITY_CHANGED, message)
    for name, (quantity, stored) in sorted(node.labels.items()):
        if stored != str(quantity):
            yield same_for_all(Reason.CAPACITY_CHANGED, f"{name} is {shown(stored)}, last applied {quantity}")


def overcommitments(node: NodeSummary, requests: Requests, names: Iterable[str]) -> Iterator[Finding]:
    """Yields resources whose requests by a Node's pods exceed its capacity. names: the resources to check."""
    requested = requests.by_node.get(node.name, {})
    for name in names:
        capacity = node.capacity.get(name, 0)
        if requested.get(name, 0) > capacity:
            yield same_for_all(Reason.OVERCOMMITTED, f"pods request {requested[name]} {name}, capacity is {capacity}")


def same_for_all(reason: Reason, message: str) -> Finding:
    """A finding whose message does not depend on the Node."""
    return Finding(reason.value, message=message, shared_message=message)


def _usual(values: Iterable[object]) -> Usual | None:
    """The value that a majority of the Nodes has; None if there is none. values: one of each Node."""
    counts = Counter(values)
    if not counts:
        return None
    value, number = counts.most_common(1)[0]
    total = counts.total()
    return Usual(value, number=number, total=total) if is_majority(number, total=total) else None


def is_majority(number: int, total: int) -> bool:
    """Whether this number of Nodes is so large a share of all that the others are outliers."""
    numerator, denominator = _MAJORITY
    return number * denominator >= total * numerator


def _lacks_capacityd(node: NodeSummary, *, group_has_condition: bool) -> bool:
    """Whether nothing on the Node comes from capacityd, although other Nodes of the group have its condition."""
    return group_has_condition and node.condition is None and not node.annotated and not node.annotation_error


def _less_allocatable(node: NodeSummary) -> set[str]:
    """Resources with the last applied capacity but a lower allocatable, unless the condition already reports this."""
    if node.condition and node.condition.reason == ConditionReason.NOT_ALLOCATABLE.value:
        return set()
    unchanged = node.annotated.keys() - _changed(node)
    # Without allocatable, a resource has less than the 0 that may have been applied.
    return {name for name in unchanged if node.allocatable.get(name, -1) < node.annotated[name]}


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


def _below_expected(node: NodeSummary, norm: Norm, differing: Sequence[str]) -> str:
    """The usual quantities of resources that are lower here, for a message, if the condition is BelowExpected; else "".

    They show which resource may be less than expected: no field of the Node does.
    """
    condition = node.condition
    if condition is None or condition.status == "True" or condition.reason != ConditionReason.BELOW_EXPECTED.value:
        return ""
    lower = {name: norm.quantities[name] for name in differing if _is_lower(node, norm, name)}
    return "; ".join(f"{norm.others_have(usual)} {usual.value} {name}" for name, usual in lower.items())


def _of_condition(condition: Condition, node: NodeSummary, expectation: str) -> Iterator[Finding]:
    """The finding for a condition that is not True. expectation: the usual quantities, "" if they are not known."""
    if condition.status == "True":
        return
    message = condition.message or f"status {condition.status}"
    if expectation:
        message += f" ({expectation})"
    reason = condition.reason or condition.status
    yield Finding(reason, message=message, shared_message=message, since=node.condition_since)


def _of_heartbeat(heartbeat: float | None, node: NodeSummary, now: float, max_age: float) -> Iterator[Finding]:
    if heartbeat is None:
        yield same_for_all(Reason.HEARTBEAT_OVERDUE, "the condition has no heartbeat")
        return
    age = now - heartbeat  # in seconds; negative if it is in the future
    if age > max_age:
        reason = Reason.HEARTBEAT_OVERDUE
        since: float | None = heartbeat
        begin = ""
        if node.ready is False:
            reason = Reason.NOT_READY
            since = node.ready_since
            begin = "the Node is not ready, and capacityd has "
        message = f"{begin}no heartbeat for {duration_text(age)}"
        shared = f"{begin}no heartbeat for more than {duration_text(max_age)}"
        yield Finding(reason.value, message=message, shared_message=shared, since=since)
    elif -age > _MAX_CLOCK_SKEW:
        shared = "the heartbeat is in the future: is the machine's clock right?"
        message = f"the heartbeat is {duration_text(-age)} in the future: is the machine's clock right?"
        yield Finding(Reason.HEARTBEAT_AHEAD.value, message=message, shared_message=shared)


def shown(quantity: object) -> str:
    """The quantity or the value of a label, for messages; None: the Node has none."""
    return "none" if quantity is None else str(quantity)
