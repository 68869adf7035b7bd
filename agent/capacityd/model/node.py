"""The Node: its state, a patch, and the interface that reads and writes the Node.

A number in capacity and allocatable, or in a label, is *stored*. A number in the annotation is *published*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from capacityd.model.key import Key
from capacityd.model.quantity import number_in

ANNOTATION = "capacityd/published"
"""The annotation on the Node with the published numbers, as a flat JSON object: key -> number."""

CONFIGURATION_ANNOTATION = "capacityd/configuration"
"""The annotation on the Node with a short hash of the configuration. The hash shows whether a rollout is finished."""

CONDITION = "CapacityPublished"
"""The type of capacityd's Node condition."""


class ConditionReason(str, Enum):
    """The reasons of capacityd's Node condition, most urgent first. The condition is True only for PUBLISHED."""

    CONFIGURATION_REJECTED = "ConfigurationRejected"  # the configuration has an error, or configures nothing
    OVERWRITTEN = "Overwritten"  # another writer keeps changing what is published
    UNKNOWN = "Unknown"  # a resource could not be read
    REFUSED = "Refused"  # a configured key belongs to a device plugin or another writer
    DENIED = "Denied"  # the API server or a policy rejects a number, or stores something else
    BELOW_EXPECTED = "BelowExpected"  # a resource is less than `expect`
    PUBLISHED = "Published"


@dataclass(frozen=True, slots=True)
class Condition:
    """A Node condition of capacityd's type."""

    status: str
    reason: str
    message: str
    heartbeat: float | None = None
    """lastHeartbeatTime, in seconds since the epoch; None if it is missing or damaged."""
    transition: str = ""
    """lastTransitionTime as text; "" if it is missing, or equals the heartbeat."""

    def equals_apart_from_times(self, other: Condition) -> bool:
        """Whether both conditions have the same status, reason and message."""
        return self.status == other.status and self.reason == other.reason and self.message == other.message


@dataclass(frozen=True, slots=True)
class Stored:
    """What the Node stores under a key, as text; None if nothing is stored. Whole numbers are in plain digits.

    The value of a label is in both fields.
    """

    capacity: str | None
    allocatable: str | None

    def equals(self, number: int | None) -> bool:
        """Whether both fields are this number. None: whether both fields are empty."""
        text = None if number is None else str(number)
        return self.capacity == text and self.allocatable == text

    @property
    def text(self) -> str:
        """What is stored, for people."""
        capacity = self.capacity or "none"
        allocatable = self.allocatable or "none"
        if capacity == allocatable:
            return capacity
        return f"{capacity} (allocatable {allocatable})"

    @property
    def number(self) -> int | None:
        """The number in capacity or in the label; None if it is missing, or is not a whole number."""
        return number_in(self.capacity or "")

    @property
    def largest(self) -> int:
        """The larger of capacity and allocatable. A value that is missing, or is not a whole number, counts as 0."""
        capacity = number_in(self.capacity or "") or 0
        allocatable = number_in(self.allocatable or "") or 0
        return max(capacity, allocatable)


@dataclass(frozen=True, slots=True)
class NodeState:
    """The Node, as last read or written."""

    name: str
    uid: str = ""
    resource_version: str = ""
    """The Node's version, which changes with each write by any writer; "" if unknown."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Name -> quantity. Whole numbers are in plain digits, although the API server stores 1000 as 1k."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Name -> quantity, as the scheduler uses it. Whole numbers are in plain digits."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotation: str | None = None
    """The annotation ANNOTATION; None if absent."""
    configuration: str | None = None
    """The annotation CONFIGURATION_ANNOTATION; None if absent."""
    conditions: tuple[Condition, ...] = ()
    """The conditions of capacityd's type. There are several only if another writer has added a condition."""
    machine_id: str = ""
    system_uuid: str = ""
    """The UUID that the kubelet has read from the machine's firmware; "" if unknown."""
    fingerprint: str = ""
    """A hash of the parts of the Node that a plan depends on."""

    def stored(self, key: Key) -> Stored:
        """What is stored under a key."""
        if key.is_label:
            value = self.labels.get(key.name)
            return Stored(value, value)
        return Stored(self.capacity.get(key.name), self.allocatable.get(key.name))

    @property
    def condition(self) -> Condition | None:
        """The first condition of capacityd's type."""
        return self.conditions[0] if self.conditions else None

    def has_only(self, condition: Condition) -> bool:
        """Whether this condition, apart from its times, is the Node's only condition of capacityd's type."""
        return len(self.conditions) == 1 and self.conditions[0].equals_apart_from_times(condition)

    def after(self, patch: Patch) -> NodeState:
        """The Node after this patch. Its resource version is unknown."""
        annotations = {ANNOTATION: self.annotation, CONFIGURATION_ANNOTATION: self.configuration, **patch.annotations}
        conditions = () if patch.removes_conditions else self.conditions
        if patch.condition is not None:
            conditions = (patch.condition, *conditions[1:])  # replaces the first one
        return replace(
            self,
            resource_version="",
            capacity=_merged(self.capacity, patch.capacity),
            allocatable=_merged(self.allocatable, patch.allocatable),
            labels=_merged(self.labels, patch.labels),
            annotation=annotations[ANNOTATION],
            configuration=annotations[CONFIGURATION_ANNOTATION],
            conditions=conditions,
        )


def _merged(stored: Mapping[str, str], numbers: Mapping[str, int | None]) -> dict[str, str]:
    """Replaces stored values by these numbers. The number None removes a name."""
    merged = dict(stored)
    for name, number in numbers.items():
        if number is None:
            merged.pop(name, None)
        else:
            merged[name] = str(number)
    return merged


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of the Node and its status. The value None removes a name.

    The API server stores the whole patch or nothing. It rejects the patch if the Node has changed since it was read.
    """

    uid: str
    resource_version: str
    """The resource version of the Node when it was read."""
    capacity: Mapping[str, int | None] = field(default_factory=dict)
    allocatable: Mapping[str, int | None] = field(default_factory=dict)
    labels: Mapping[str, int | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    removes_conditions: bool = False
    """Whether all conditions of capacityd's type are removed before `condition` is set."""
    condition: Condition | None = None
    """The condition to set; None to set no condition."""

    @property
    def is_empty(self) -> bool:
        """Whether the patch changes nothing."""
        sets_values = self.capacity or self.allocatable or self.labels or self.annotations
        changes_conditions = self.removes_conditions or self.condition is not None
        return not sets_values and not changes_conditions


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event about the Node."""

    type: str
    """Normal or Warning"""
    reason: str
    message: str
    action: str = ""
    """What capacityd did, such as Publish."""


class Node(Protocol):
    """A Node. Every method may send requests to the API server, and raise NodeError."""

    def identify(self) -> str | None:
        """Returns the name of the Node that read() and write() use.

        None if the name is only a guess. Then read() checks that the Node is this machine's.
        """

    def read(self) -> NodeState:
        """Reads the Node."""

    def write(self, patch: Patch) -> NodeState:
        """Patches the Node, and returns the patched Node.

        Raises NodeConflict if the Node has changed since it was read, NodeRejected if the API server denies the content
        of the patch, and NodeUnreachable if it is not known whether the patch was stored.
        """

    def report(self, event: Event, state: NodeState) -> None:
        """Creates a Kubernetes Event about the Node. state: the Node as last read or written."""
