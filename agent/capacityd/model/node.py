"""The Node: its state, and the interface that reads and writes it. Nothing here decides."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from capacityd.model.label import is_label, resource_of
from capacityd.model.quantity import LARGEST_QUANTITY, name_problem, whole_quantity

ANNOTATION = "capacityd/published"
"""The annotation on the Node that lists the published quantities: JSON, name of a resource or a label -> quantity."""

CONFIGURATION_ANNOTATION = "capacityd/configuration"
"""The annotation on the Node with a short hash of the effective configuration. It shows whether a rollout is done."""

CONDITION = "CapacityPublished"
"""The type of capacityd's Node condition."""


class ConditionReason(Enum):
    """The reasons of capacityd's Node condition, most urgent first. All but the last set its status to False."""

    OTHER_AGENT = "OtherWriter"  # another capacityd writes the same Node, and recognizes this one by this reason
    CONFIGURATION_REJECTED = "ConfigurationRejected"  # a file or a resource has an error
    STATE_NOT_WRITABLE = "StateNotWritable"  # this machine can't save its state, so nothing is lowered or removed
    REJECTED = "Rejected"  # the API server rejects the whole patch
    UNKNOWN = "Unknown"  # a resource could not be read
    REFUSED = "Refused"  # capacityd does not own a key of this name
    DENIED = "Denied"  # the API server, an admission policy or a webhook denies a resource
    NOT_CONFIGURED = "NotConfigured"  # no resource is configured, so published keys are kept
    BELOW_EXPECTED = "BelowExpected"  # a resource is less than `expect`
    NOT_ALLOCATABLE = "NotAllocatable"  # another writer keeps allocatable below what is published
    PUBLISHED = "Published"


@dataclass(frozen=True, slots=True)
class Condition:
    """capacityd's Node condition, as stored."""

    status: str
    reason: str
    message: str
    index: int
    """The condition's index in the Node's list of conditions."""
    document: Mapping[str, Any]
    """The condition as the API server has sent it."""
    heartbeat: float | None = None
    """lastHeartbeatTime, in seconds since the epoch; None if it is missing or damaged."""
    transition: str = ""
    """lastTransitionTime as stored; "" if it is missing."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The Node, as last read or written."""

    name: str
    uid: str
    capacity: Mapping[str, str] | None
    """Name -> quantity as stored. None: the Node's status has no capacity."""
    allocatable: Mapping[str, str] | None
    """Name -> quantity as stored, by which the scheduler places pods. None: the Node's status has no allocatable."""
    has_annotations: bool
    annotation: str | None
    """The annotation ANNOTATION as stored; None if absent."""
    condition_count: int | None
    """The number of conditions; None: the Node's status has no list of conditions."""
    condition: Condition | None
    """The first condition with capacityd's type."""
    machine_id: str = ""
    duplicate_conditions: tuple[Condition, ...] = ()
    """Further conditions with capacityd's type. Two concurrent writers can create them, because no test can guard an
    append."""
    configuration: str | None = None
    """The annotation CONFIGURATION_ANNOTATION as stored; None if absent."""
    resource_version: str = ""
    """Changes with each write to the Node, by any writer; "" if unknown."""
    system_uuid: str = ""
    """The UUID that the kubelet has read from the machine's firmware; "" if unknown."""
    labels: Mapping[str, str] | None = None
    """Key -> value. None: the Node has no labels."""
    fingerprint: str = ""
    """The hash by which the service recognizes the Node as a pass has left it (model/fingerprint.py)."""

    def stored(self, name: str) -> str | None:
        """The quantity in capacity, or the value of a label, as stored; None if absent.

        name: of a resource or of a label (model/label.py).
        """
        if is_label(name):
            return (self.labels or {}).get(resource_of(name))
        return (self.capacity or {}).get(name)

    def with_labels_of(self, names: Collection[str]) -> NodeState:
        """The state with only the labels of these resources, because a pass uses no others.

        names: of resources and of labels (model/label.py).
        """
        if self.labels is None:
            return self
        keys = {resource_of(name) for name in names}
        return replace(self, labels={key: value for key, value in self.labels.items() if key in keys})

    def number(self, name: str) -> int | None:
        """The whole number that is stored; None if it is absent or not a whole number. name: as in stored()."""
        return stored_number(name, self.stored(name))


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event about the Node."""

    type: str
    """Normal or Warning"""
    reason: str
    message: str
    action: str = ""
    """What was done."""


class Node(Protocol):
    """A Node. Its name and every method may send a request to the API server and raise NodeError."""

    @property
    def name(self) -> str:
        """The Node's name."""

    def read(self) -> NodeState:
        """Reads the Node."""

    def check(self, state: NodeState) -> None:
        """Checks that a state that does not come from read() or write() is of this machine's Node.

        Raises NodeError, in particular NodeUnauthorized.
        """

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """Applies a JSON Patch to the Node and its status atomically, and returns the patched Node.

        Raises NodeConflict if a test in the patch fails.
        """

    def report(self, event: Event, state: NodeState) -> None:
        """Creates a Kubernetes Event about the Node. state: the Node as last read or written."""


def annotation_content(annotation: str | None) -> Mapping[str, object]:
    """The content of the annotation ANNOTATION, with whatever a writer may have put there; empty if the annotation is
    lost (is_annotation_lost())."""
    return _parsed(annotation) or {}


def is_annotation_lost(annotation: str | None) -> bool:
    """Whether the annotation ANNOTATION is missing, or is not a JSON object."""
    return _parsed(annotation) is None


def _parsed(annotation: str | None) -> dict[str, object] | None:
    """The annotation's JSON object; None if the annotation is missing, or is not a JSON object."""
    try:
        content = json.loads(annotation or "")
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def annotated_quantities(annotation: str | None) -> dict[str, int]:
    """Name of a resource or of its label -> quantity, from the annotation ANNOTATION, sorted by name.

    Skips entries that capacityd can't have written.
    """
    quantities: dict[str, int] = {}
    for name, value in sorted(annotation_content(annotation).items()):
        if type(value) is not int:  # in Python, isinstance(True, int) holds
            continue
        if not 0 <= value <= LARGEST_QUANTITY:
            continue
        if not name_problem(resource_of(name)):
            quantities[name] = value
    return quantities


def published_resources(node_state: NodeState | None) -> dict[str, int]:
    """Name -> quantity of the annotated resources, without their labels; empty if there is no Node."""
    annotated = annotated_quantities(node_state.annotation) if node_state else {}
    return {name: quantity for name, quantity in annotated.items() if not is_label(name)}


def stored_number(name: str, text: str | None) -> int | None:
    """The number in a stored quantity or in a label's value; None for any other text.

    name: of the resource or of the label (model/label.py). 1k is a quantity of 1000. But a label 1k does not match a
    selector for 1000.
    """
    if text is None:
        return None
    number = whole_quantity(text)
    if is_label(name) and text != str(number):
        return None
    return number
