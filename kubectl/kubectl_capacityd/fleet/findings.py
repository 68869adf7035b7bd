"""The rules that decide whether a Node needs attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from capacityd.model.node import CONDITION, Condition
from capacityd.model.text import duration_text
from kubectl_capacityd.fleet.norm import Norm
from kubectl_capacityd.model import Fleet, NodeSummary, PodRequests

_MAX_CLOCK_SKEW = 300.0
"""Seconds by which a heartbeat may be ahead of this machine's clock."""


class Reason(Enum):
    """Why a Node needs attention, most severe first. A finding about a condition has the condition's reason instead.

    DEVICE_CLASS concerns the cluster as a whole.
    """

    DEVICE_CLASS = "DeviceClass"  # dynamic resource allocation serves a resource of the same name
    NOT_READY = "NotReady"  # the Node is not ready, and capacityd's heartbeat is overdue
    HEARTBEAT_OVERDUE = "HeartbeatOverdue"
    CONDITION_MISSING = "ConditionMissing"
    OVERCOMMITTED = "Overcommitted"  # pods request more than the capacity
    NOT_AS_PUBLISHED = "NotAsPublished"  # a stored number is not the published one, or the annotation is unreadable
    HEARTBEAT_AHEAD = "HeartbeatAhead"  # the heartbeat is in the future
    QUANTITY_DIFFERS = "QuantityDiffers"  # a quantity is not the group's usual one
    CONFIGURATION_DIFFERS = "ConfigurationDiffers"  # the configuration is not the group's usual one


SUSPICIONS = (Reason.HEARTBEAT_AHEAD.value, Reason.QUANTITY_DIFFERS.value, Reason.CONFIGURATION_DIFFERS.value)
"""Reasons that are only suspicions, because this machine's clock or the group's other Nodes may be wrong instead."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason why a Node, or the cluster, needs attention."""

    reason: str
    """The value of a Reason, or the reason of the Node's condition."""
    message: str
    shared_message: str
    """The message without the parts that differ between Nodes. Nodes with the same shared message form a group."""
    since: float | None = None
    """When the problem began, in seconds since the epoch; None if unknown."""
    node: str | None = None
    """The Node's name; None for the cluster as a whole."""
    ready: bool | None = None
    """Whether the Node's condition Ready is True; None if there is no such condition."""
    cordoned: bool = False


def findings_of_node(node: NodeSummary, norm: Norm, now: float, max_age: float) -> Iterator[Finding]:
    """Yields what is wrong on a Node, or unusual in its group.

    now: in seconds since the epoch. max_age: seconds after which a heartbeat is overdue.
    """
    if node.condition:
        yield from _condition_findings(node.condition, since=node.condition_since)
        yield from _heartbeat_findings(node.condition.heartbeat, node, now=now, max_age=max_age)
    elif norm.has_condition:  # another Node of the group has the condition
        message = f"other {norm.nodes_text} have the condition {CONDITION}: does capacityd run on this one?"
        yield _finding(Reason.CONDITION_MISSING, message)
    if node.annotation_error:
        yield _finding(Reason.NOT_AS_PUBLISHED, f"capacityd/published: {node.annotation_error}")
    if node.has_capacityd:
        yield from _changed_by_others_findings(node)
        yield from _outlier_findings(node, norm)


def _changed_by_others_findings(node: NodeSummary) -> Iterator[Finding]:
    """Yields a finding for each published number that another writer has changed on the Node."""
    for name, published in sorted(node.published.items()):
        capacity = node.capacity.get(name)
        allocatable = node.allocatable.get(name)
        if capacity != published:
            yield _finding(Reason.NOT_AS_PUBLISHED, f"{name} is {value_text(capacity)}, published {published}")
        elif allocatable is None or allocatable < published:
            message = f"allocatable {name} is {value_text(allocatable)}, published {published}"
            yield _finding(Reason.NOT_AS_PUBLISHED, message)
    for name, (published, stored) in sorted(node.labels.items()):
        if stored != str(published):
            yield _finding(Reason.NOT_AS_PUBLISHED, f"label {name} is {value_text(stored)}, published {published}")


def _outlier_findings(node: NodeSummary, norm: Norm) -> Iterator[Finding]:
    """Yields a finding for each unusual quantity that no other writer has changed, and for an unusual configuration."""
    for name, usual in norm.quantities.items():
        quantity = node.capacity.get(name)
        is_changed_by_others = name in node.published and node.published[name] != quantity
        if quantity != usual.value and not is_changed_by_others:
            others = f"{norm.others_have(usual)} {value_text(usual.value)}"
            yield _finding(Reason.QUANTITY_DIFFERS, f"{name} is {value_text(quantity)}, {others}")
    usual_configuration = norm.configuration
    if usual_configuration is None or not node.configuration:
        return
    if node.configuration != usual_configuration.value:
        others = f"{norm.others_have(usual_configuration)} {usual_configuration.value}"
        yield _finding(Reason.CONFIGURATION_DIFFERS, f"configuration {node.configuration}, {others}")


def device_class_findings(fleet: Fleet, names: Iterable[str]) -> Iterator[Finding]:
    """Yields a finding for each of these published resources that a DeviceClass also serves."""
    for name in names:
        for device_class in fleet.device_classes.get(name, ()):
            message = f"the DeviceClass {device_class} also serves {name} (extendedResourceName)"
            yield _finding(Reason.DEVICE_CLASS, message)


def overcommitment_findings(node: NodeSummary, requests: PodRequests, names: Iterable[str]) -> Iterator[Finding]:
    """Yields a finding for each resource whose capacity is less than the Node's pods request."""
    requested = requests.by_node.get(node.name, {})
    for name in names:
        capacity = node.capacity.get(name, 0)
        if requested.get(name, 0) > capacity:
            yield _finding(Reason.OVERCOMMITTED, f"pods request {requested[name]} {name}, capacity is {capacity}")


def _finding(reason: Reason, message: str) -> Finding:
    """A finding that is grouped with others by its whole message."""
    return Finding(reason.value, message=message, shared_message=message)


def count_by_reason(findings: Iterable[Finding]) -> dict[str, int]:
    """Reason -> number of Nodes with this reason. The cluster as a whole counts as one Node."""
    nodes_by_reason: dict[str, set[str | None]] = {}
    for finding in findings:
        nodes_by_reason.setdefault(finding.reason, set()).add(finding.node)
    return {reason: len(nodes) for reason, nodes in nodes_by_reason.items()}


def _condition_findings(condition: Condition, since: float | None) -> Iterator[Finding]:
    """Yields a finding if the condition is not True. since: in seconds since the epoch."""
    if condition.status == "True":
        return
    message = condition.message or f"status {condition.status}"
    yield Finding(condition.reason or condition.status, message=message, shared_message=message, since=since)


def _heartbeat_findings(heartbeat: float | None, node: NodeSummary, now: float, max_age: float) -> Iterator[Finding]:
    """Yields a finding if the heartbeat is missing, overdue or in the future. now, max_age: in seconds."""
    if heartbeat is None:
        yield _finding(Reason.HEARTBEAT_OVERDUE, "the condition has no heartbeat")
        return
    age = now - heartbeat
    ahead = heartbeat - now
    if age > max_age and node.ready is False:  # the machine may be down, and capacityd with it
        beginning = "the Node is not ready, and capacityd has no heartbeat for"
        yield Finding(
            Reason.NOT_READY.value,
            message=f"{beginning} {duration_text(age)}",
            shared_message=f"{beginning} more than {duration_text(max_age)}",
            since=node.ready_since,
        )
    elif age > max_age:
        yield Finding(
            Reason.HEARTBEAT_OVERDUE.value,
            message=f"no heartbeat for {duration_text(age)}",
            shared_message=f"no heartbeat for more than {duration_text(max_age)}",
            since=heartbeat,
        )
    elif ahead > _MAX_CLOCK_SKEW:
        end = "in the future: is the machine's clock right?"
        yield Finding(
            Reason.HEARTBEAT_AHEAD.value,
            message=f"the heartbeat is {duration_text(ahead)} {end}",
            shared_message=f"the heartbeat is {end}",
        )


def value_text(value: object) -> str:
    """A quantity or the value of a label, for messages. None: the Node has no such value."""
    return "none" if value is None else str(value)
