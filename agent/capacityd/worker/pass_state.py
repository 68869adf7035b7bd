"""state.json: what a pass shows in `status`. No pass reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from capacityd.model.node import NodeState
from capacityd.model.plan import Change, Health
from capacityd.model.quantity import name_problem
from capacityd.model.reading import Reading
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait
from capacityd.node import Review


class OtherWriter(str, Enum):
    """The writer of an extended resource that capacityd does not publish."""

    DEVICE_PLUGIN = "device_plugin"  # the kubelet writes it for a device plugin
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PassStatus:
    """A reconcile pass, for `status`, the journal and the metrics. Times are in seconds since the epoch."""

    at: float
    """When the pass ended, before it saved its state."""
    reasons: tuple[PassReason, ...] = ()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Readings by name, without their details."""
    observe: bool = False
    error: str = ""
    """Why the Node could not be reconciled; empty if it could."""
    configuration: str = ""
    """The hash of the configuration."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """Name -> expected quantity."""
    waits: tuple[Wait, ...] = ()
    """Reasons for later passes."""
    changes: tuple[Change, ...] = ()
    """The last plan's change for each name."""
    health: Health = field(default_factory=Health)
    """What is wrong with the Node after the last plan."""
    others: Mapping[str, OtherWriter] = field(default_factory=dict)
    """Name -> writer, as from other_writers()."""
    condition_not_stored: bool = False
    """Whether the Node lacks the condition, or its condition differs from the written one."""
    read_at: float | None = None
    """When a pass last knew the Node, by a request or from the watch; None: not yet."""
    written_at: float | None = None
    """When the Node was last written; None: not yet."""


NO_PASS = PassStatus(at=0.0)
"""The status before the first pass has ended."""


def other_writers(
    node_state: NodeState, published: Collection[str], device_plugins: Collection[str] | None
) -> dict[str, OtherWriter]:
    """Name -> writer, for this Node's extended resources that capacityd does not publish.

    published: the names that capacityd publishes. device_plugins: the names that device plugins have registered; None
    if they are unknown.
    """
    others = [name for name in sorted(node_state.capacity or {}) if name not in published and not name_problem(name)]
    of_plugins = device_plugins or ()
    return {name: OtherWriter.DEVICE_PLUGIN if name in of_plugins else OtherWriter.UNKNOWN for name in others}


@dataclass(frozen=True, slots=True)
class PassState:
    """The content of state.json: the last pass, for `status`."""

    node: NodeState | None = None
    """The Node as a pass last knew it; None: no pass has known it."""
    status: PassStatus | None = None
    """None: no pass has ended yet."""
    review: Review | None = None
    """Who the service is for the API server."""
