"""A cluster's Nodes and its pods' requests, as far as the commands use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from capacityd.model.node import Condition


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A Node of the cluster. Times are in seconds since the epoch."""

    name: str
    label_value: str | None = None
    """The value of the label by which `fleet` groups Nodes; None if the Node lacks the label."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Name -> quantity of each extended resource, including the resources of other writers."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    """The published quantities according to the annotation: name -> quantity."""
    configuration: str = ""
    """The hash of the configuration; "" if the Node has no such annotation."""
    condition: Condition | None = None
    condition_since: float | None = None
    """lastTransitionTime of the condition CapacityPublished; None if the time is missing or invalid."""
    annotation_error: str = ""
    """Why the annotation can't be read completely; "" if it can be read."""
    ready: bool | None = None
    """Whether the condition Ready is True; None if the Node has no such condition."""
    ready_since: float | None = None
    """lastTransitionTime of the condition Ready; None if the time is missing or invalid."""
    cordoned: bool = False
    labels: Mapping[str, tuple[int, str | None]] = field(default_factory=dict)
    """The published labels according to the annotation: name -> published number, value on the Node."""

    @property
    def has_capacityd(self) -> bool:
        """Whether capacityd writes this Node, or has written it."""
        return bool(self.published or self.configuration or self.condition or self.annotation_error)


def published_names(nodes: Iterable[NodeSummary]) -> list[str]:
    """The names of all resources that these Nodes publish, sorted."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.published)
    return sorted(names)


@dataclass(frozen=True, slots=True)
class PodRequests:
    """The extended resources that the pods of a cluster request. Finished pods do not count."""

    by_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Node -> resource -> the sum of the requests of the Node's pods."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Resource -> number of pods that request it and are not bound to a Node."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The Nodes of a cluster, its DeviceClasses and the requests of its pods."""

    nodes: tuple[NodeSummary, ...]
    device_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Extended resource -> names of the DeviceClasses that define it; empty if DeviceClasses can't be listed."""
    requests: PodRequests | None = None
    """What the pods request; None if the pods are unknown."""
    read_at: float | None = None
    """When a saved list was read from the cluster, in seconds since the epoch; None for a list from the API server."""
