"""The Nodes of a cluster and what its pods request, as far as `fleet` needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.model.node import Condition


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A Node of the cluster. Times are in seconds since the epoch."""

    name: str
    label: str | None = None
    """The value of the label that groups Nodes; None if the Node does not have it."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Extended resources only, including those of other writers."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    annotated: Mapping[str, int] = field(default_factory=dict)
    """What is published, according to the annotation."""
    configuration: str = ""
    """The hash of the configuration, "" if the Node has none."""
    condition: Condition | None = None
    condition_since: float | None = None
    """lastTransitionTime of our condition; None if it is missing or damaged."""
    annotation_error: str = ""
    """Why the annotation can't be read, or can't be read completely; "" if it can."""
    ready: bool | None = None
    """Whether the condition Ready is True; None if the Node has none."""
    ready_since: float | None = None
    """lastTransitionTime of the condition Ready."""
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class Requests:
    """What the pods of a cluster request of extended resources. Pods that have finished do not count."""

    by_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Node -> resource -> the sum of the requests of the pods that are bound to the Node."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Resource -> number of pods that request it and are not bound to a Node."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The Nodes of a cluster, its DeviceClasses and the requests of its pods."""

    nodes: tuple[NodeSummary, ...]
    device_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Extended resource name -> names of the DeviceClasses that have it; empty if they cannot be listed."""
    requests: Requests | None = None
    """None: the pods are not known."""
    read_at: float | None = None
    """When a saved list was read from the cluster, in seconds since the epoch; None for a list from the API server."""
