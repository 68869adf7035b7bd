"""The Nodes of a cluster, as far as `fleet` judges them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.model.node import Condition


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A Node of the cluster."""

    name: str
    label: str | None = None
    """The value of the label that groups Nodes; None if the Node does not have it."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Extended resources only; those of other writers, too."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    """Last applied, according to the annotation."""
    configuration: str = ""
    """The hash of the configuration, "" if the Node has none."""
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The Nodes of a cluster, and its DeviceClasses."""

    nodes: tuple[NodeSummary, ...]
    device_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Extended resource name -> names of the DeviceClasses that have it; empty if they cannot be listed."""
