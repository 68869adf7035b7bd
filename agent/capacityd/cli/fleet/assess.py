"""Finds the Nodes that need attention, and adds up the resources. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from capacityd.cli.output.terminal import duration_text
from capacityd.model.fleet import Fleet, NodeSummary
from capacityd.model.node import CONDITION, Condition

_MAJORITY = 4, 5
"""Of the Nodes of a group, the share that must have the same for others to be outliers."""


class Reason(Enum):
    """Why a Node needs attention, besides the reasons of a condition that is not True."""

    HEARTBEAT_OVERDUE = "HeartbeatOverdue"
    CONDITION_MISSING = "ConditionMissing"
    CAPACITY_CHANGED = "CapacityChanged"  # it is not what was last applied
    QUANTITY_DIFFERS = "QuantityDiffers"  # from that of the group
    CONFIGURATION_DIFFERS = "ConfigurationDiffers"  # from that of the group
    DEVICE_CLASS = "DeviceClass"  # of the cluster: dynamic resource allocation serves a resource of this name, too


Finding: TypeAlias = tuple[str, str]
"""One thing that needs attention: reason and message."""


@dataclass(frozen=True, slots=True)
class ResourceSummary:
    """A resource, over all Nodes that publish it."""

    name: str
    nodes: int
    capacity: int
    allocatable: int
    usual: int
    """The quantity that most of the Nodes have."""


@dataclass(frozen=True, slots=True)
class Attention:
    """A Node that needs attention."""

    node: str | None
    """None for the cluster as a whole."""
    reasons: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The result."""

    nodes: int
    resources: tuple[ResourceSummary, ...]
    attention: tuple[Attention, ...]


def assess(fleet: Fleet, max_age: float, now: float) -> FleetReport:
    """Compares each Node with what was last applied to it and with the Nodes of its group.

    max_age: seconds after which a heartbeat is overdue. now: seconds since the epoch.
    """
    resources = tuple(_summaries(fleet.nodes))
    groups: dict[str | None, list[NodeSummary]] = {}
    for node in fleet.nodes:
        groups.setdefault(node.label, []).append(node)
    norms = {label: _norm(label, members) for label, members in groups.items()}
    found = [(node.name, [*_findings(node, norms[node.label], max_age, now)]) for node in fleet.nodes]
    of_cluster = [*_device_classes(fleet, [resource.name for resource in resources])]
    attention = [_attention(name, findings) for name, findings in [(None, of_cluster), *found] if findings]
    return FleetReport(len(fleet.nodes), resources, tuple(attention))


class _Usual(NamedTuple):
    """What enough Nodes of a group have in common."""

    value: object
    having: int
    of: int


@dataclass(frozen=True, slots=True)
class _Norm:
    """What is usual in a group."""

    label: str | None
    has_condition: bool
    """Whether a Node of the group has our condition."""
    quantities: Mapping[str, _Usual]
    configuration: _Usual | None

    @property
    def group(self) -> str:
        """The name of the group, as it follows "Nodes"."""
        return f" of {self.label}" if self.label else ""

    def others(self, usual: _Usual) -> str:
        """The Nodes that have what is usual, as the subject of a clause."""
        return f"{usual.having} of {usual.of} Nodes{self.group} have"


def _norm(label: str | None, members: Sequence[NodeSummary]) -> _Norm:
    has_condition = any(node.condition for node in members)
    # A Node without our condition, where others have it, is reported for that; its quantities mean nothing.
    compared = [node for node in members if not _lacks_capacityd(node, has_condition)]
    quantities = {}
    for name in sorted({name for node in compared for name in node.published}):
        if usual := _usual(node.capacity.get(name) for node in compared):
            quantities[name] = usual
    configuration = _usual(node.configuration for node in compared if node.configuration)
    return _Norm(label, has_condition, quantities, configuration)


def _usual(values: Iterable[object]) -> _Usual | None:
    """What at least four fifths have; None if there is no such value."""
    counted = Counter(values)
    value, having = counted.most_common(1)[0] if counted else (None, 0)
    share, whole = _MAJORITY
    of = counted.total()
    return _Usual(value, having, of) if of and having * whole >= of * share else None


def _lacks_capacityd(node: NodeSummary, group_has_condition: bool) -> bool:
    return group_has_condition and node.condition is None and not node.published


def _findings(node: NodeSummary, norm: _Norm, max_age: float, now: float) -> Iterator[Finding]:
    if node.condition:
        yield from _of_condition(node.condition, max_age, now)
    elif norm.has_condition:
        message = f"other Nodes{norm.group} have the condition {CONDITION}: does capacityd run on this one?"
        yield Reason.CONDITION_MISSING.value, message
    if _lacks_capacityd(node, norm.has_condition):
        return
    changed = {name for name, number in node.published.items() if node.capacity.get(name) != number}
    for name in sorted(changed):
        message = f"{name} is {_shown(node.capacity.get(name))}, last applied {node.published[name]}"
        yield Reason.CAPACITY_CHANGED.value, message
    for name, usual in norm.quantities.items():
        quantity = node.capacity.get(name)
        if quantity != usual.value and name not in changed:
            message = f"{name} is {_shown(quantity)}, {norm.others(usual)} {_shown(usual.value)}"
            yield Reason.QUANTITY_DIFFERS.value, message
    same = norm.configuration
    if same and node.configuration and node.configuration != same.value:
        message = f"configuration {node.configuration}, {norm.others(same)} {same.value}"
        yield Reason.CONFIGURATION_DIFFERS.value, message


def _of_condition(condition: Condition, max_age: float, now: float) -> Iterator[Finding]:
    if condition.status != "True":
        yield condition.reason or condition.status, condition.message or f"status {condition.status}"
    if condition.heartbeat is None:
        yield Reason.HEARTBEAT_OVERDUE.value, "the condition has no heartbeat"
    elif (age := now - condition.heartbeat) > max_age:
        yield Reason.HEARTBEAT_OVERDUE.value, f"no heartbeat for {duration_text(age)}"


def _device_classes(fleet: Fleet, ours: Sequence[str]) -> Iterator[Finding]:
    for name in ours:
        for device_class in fleet.device_classes.get(name, ()):
            message = f"the DeviceClass {device_class} serves {name}, too (extendedResourceName)"
            yield Reason.DEVICE_CLASS.value, message


def _attention(node: str | None, findings: Sequence[Finding]) -> Attention:
    reasons = tuple(dict.fromkeys(reason for reason, _ in findings))
    return Attention(node, reasons, "; ".join(message for _, message in findings))


def _summaries(nodes: Sequence[NodeSummary]) -> Iterator[ResourceSummary]:
    publishers: dict[str, list[NodeSummary]] = {}
    for node in nodes:
        for name in node.published:
            publishers.setdefault(name, []).append(node)
    for name, having in sorted(publishers.items()):
        quantities = Counter(node.capacity.get(name, 0) for node in having)
        usual = max(quantities, key=lambda quantity: (quantities[quantity], quantity))
        yield ResourceSummary(
            name,
            nodes=len(having),
            capacity=sum(node.capacity.get(name, 0) for node in having),
            allocatable=sum(node.allocatable.get(name, 0) for node in having),
            usual=usual,
        )


def _shown(quantity: object) -> str:
    return "none" if quantity is None else str(quantity)
