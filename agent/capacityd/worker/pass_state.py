"""state.json: what a reconcile pass leaves for the next pass, for `status` and for the metrics.

A pass reads it once, at its start, and replaces it once, at its end.
"""

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
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.writing import Outcome


class OtherWriter(str, Enum):
    """Who writes an extended resource that capacityd does not publish."""

    DEVICE_PLUGIN = "device_plugin"  # the kubelet writes it for a device plugin
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PassStatus:
    """A reconcile pass, for `status`, the journal and the metrics. Times are in seconds since the epoch."""

    at: float
    reasons: tuple[PassReason, ...] = ()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Without their details."""
    observe: bool = False
    error: str = ""
    """Why the Node could not be reconciled; empty if it could."""
    configuration: str = ""
    """The hash of the configuration."""
    expect: Mapping[str, int] = field(default_factory=dict)
    waits: tuple[Wait, ...] = ()
    """All that later passes are for."""
    changes: tuple[Change, ...] = ()
    """What the last plan does to each name."""
    health: Health = field(default_factory=Health)
    """What is wrong with the Node after the last plan."""
    others: Mapping[str, OtherWriter] = field(default_factory=dict)
    """The extended resources of the Node that capacityd does not publish."""
    condition_not_stored: bool = False
    """Whether the Node lacks the condition, or has another one than was written."""
    read_at: float | None = None
    """When the Node was last read; None: not yet."""
    written_at: float | None = None
    """When the Node was last written; None: not yet."""


def other_writers(
    node_state: NodeState, published: Collection[str], device_plugins: Collection[str] | None
) -> dict[str, OtherWriter]:
    """Who writes the extended resources of this Node that capacityd does not publish, by name."""
    return {
        name: OtherWriter.DEVICE_PLUGIN if name in (device_plugins or ()) else OtherWriter.UNKNOWN
        for name in sorted(node_state.capacity or {})
        if name not in published and not name_problem(name)
    }


def is_condition_not_stored(outcome: Outcome) -> bool:
    """Whether the API server accepted the Node condition without storing it, as if a policy or webhook changes it."""
    plan, stored = outcome.plan, outcome.node_state.condition
    if outcome.applied and plan.write.condition is not None:
        return stored is None or (stored.reason, stored.status) != plan.write.condition
    # It was written before, and the next attempt is held back.
    return plan.has_condition and bool(plan.changes) and stored is None


@dataclass(frozen=True, slots=True)
class Counters:
    """What is counted while the service runs, over all its workers, and the state of the file of metrics."""

    reconciles: int = 0
    """Passes that were started."""
    succeeded: int = 0
    """Passes that ended without an error."""
    writes: int = 0
    """Writes of the Node's capacity."""
    last_success: float = 0.0
    """When the Node last was as desired, in seconds since the epoch; 0: not yet."""
    path: str = ""
    """The file that was written last."""
    error: str = ""
    """Why it could not be written, as it was logged."""
    advice: str = ""
    """What to do about that."""


@dataclass(frozen=True, slots=True)
class Logged:
    """The journal entries about a resource that is unknown."""

    reason: str
    """The one that was logged last."""
    at: tuple[float, ...]
    """Seconds of uptime of the last ones."""


@dataclass(frozen=True, slots=True)
class PassState:
    """The content of state.json."""

    memory: Memory = field(default_factory=Memory)
    status: PassStatus | None = None
    """None: no pass has ended yet."""
    reviews: Mapping[str, Review] = field(default_factory=dict)
    """Whom the API server takes the holder of the credentials for (node/identity.py)."""
    logged: Mapping[str, Logged] = field(default_factory=dict)
    """Resource that is unknown -> what the journal has of it."""
    counters: Counters = Counters()
