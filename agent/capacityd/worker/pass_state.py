"""state.json: what a reconcile pass leaves for the next pass, for `status` and for the metrics.

A pass reads it once, at its start, and replaces it once, at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from capacityd.model.errors import Cause
from capacityd.model.plan import Change
from capacityd.model.quantity import name_problem
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.node import Review
from capacityd.reconcile.attempt import Outcome as ReconcileOutcome
from capacityd.reconcile.state import ReconcileState


class Outcome(str, Enum):
    """The kind of a reading."""

    QUANTITY = "quantity"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ReadingStatus:
    """A reading without its details."""

    outcome: Outcome
    quantity: int | None = None
    """None unless the outcome is a quantity."""
    cause: Cause | None = None
    """None unless the outcome is unknown."""
    reason: str = ""
    """Why it is absent or unknown; of a quantity, a warning, if there is one."""

    @classmethod
    def of(cls, reading: Reading) -> ReadingStatus:
        """The status of a reading."""
        if isinstance(reading, Quantity):
            return cls(Outcome.QUANTITY, reading.value, reason=reading.warning)
        if isinstance(reading, Unknown):
            return cls(Outcome.UNKNOWN, cause=reading.cause, reason=reading.reason)
        return cls(Outcome.ABSENT, reason=reading.reason)


class OtherWriter(str, Enum):
    """Who writes an extended resource that capacityd does not publish."""

    DEVICE_PLUGIN = "device_plugin"  # the kubelet writes it for a device plugin
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What the Node says about our resources, after the last pass that read it."""

    name: str
    read_at: float
    """In seconds since the epoch, as are all times here."""
    changes: tuple[Change, ...] = ()
    condition: tuple[str, str] | None = None
    """Reason and status."""
    denied: Mapping[str, str] = field(default_factory=dict)
    below_expected: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    not_allocatable: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """As in Health; so are denied and below_expected."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, OtherWriter] = field(default_factory=dict)
    """The extended resources of the Node that capacityd does not publish."""
    condition_not_stored: bool = False
    """Whether the Node lacks the condition, or has another one than was written."""

    @classmethod
    def of(cls, outcome: ReconcileOutcome, read_at: float) -> NodeStatus:
        """The status after a pass with this outcome."""
        state, plan = outcome.node_state, outcome.plan
        names = {change.name for change in plan.changes}
        return cls(
            name=state.name,
            read_at=read_at,
            changes=plan.changes,
            condition=(state.condition.reason, state.condition.status) if state.condition else None,
            denied=plan.health.denied,
            below_expected=plan.health.below_expected,
            not_allocatable=plan.health.not_allocatable,
            capacity={name: quantity for name, quantity in (state.capacity or {}).items() if name in names},
            allocatable={name: quantity for name, quantity in (state.allocatable or {}).items() if name in names},
            others={
                name: OtherWriter.DEVICE_PLUGIN if name in (plan.device_plugins or ()) else OtherWriter.UNKNOWN
                for name in sorted(state.capacity or {})
                if name not in plan.annotated and not name_problem(name)
            },
            condition_not_stored=_is_condition_not_stored(outcome),
        )


def _is_condition_not_stored(outcome: ReconcileOutcome) -> bool:
    """Whether the API server accepted the Node condition without storing it, as if a policy or webhook changes it."""
    plan, stored = outcome.plan, outcome.node_state.condition
    if outcome.applied and plan.condition is not None:
        return stored is None or (stored.reason, stored.status) != plan.condition
    # It was written before, and the next attempt is held back.
    return plan.has_condition and bool(plan.changes) and stored is None


@dataclass(frozen=True, slots=True)
class PassStatus:
    """A reconcile pass, for `status`, the journal and the metrics."""

    at: float
    reasons: tuple[PassReason, ...]
    readings: Mapping[str, ReadingStatus] = field(default_factory=dict)
    observe: bool = False
    error: str = ""
    published: Mapping[str, int] = field(default_factory=dict)
    """The annotation on the Node."""
    configuration: str = ""
    """The hash of the configuration."""
    expect: Mapping[str, int] = field(default_factory=dict)
    requeue_after: float | None = None
    held_until: Mapping[str, float] = field(default_factory=dict)
    """Name -> until when its change is held back."""
    node: NodeStatus | None = None
    """None until a pass has read the Node."""
    written_at: float | None = None
    """When the Node was last written; None: not yet."""


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

    reconcile: ReconcileState = field(default_factory=ReconcileState)
    status: PassStatus | None = None
    """None: no pass has ended yet."""
    reviews: Mapping[str, Review] = field(default_factory=dict)
    """Whom the API server takes the holder of the credentials for (node/identity.py)."""
    logged: Mapping[str, Logged] = field(default_factory=dict)
    """Resource that is unknown -> what the journal has of it."""
    counters: Counters = Counters()
