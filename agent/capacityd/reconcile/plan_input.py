"""What decisions are made from, and what a decision is: values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from capacityd.model.node import Action, MachineRecord
from capacityd.model.quantity import whole_quantity


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Everything else that a plan depends on, beside the readings and the Node."""

    adopt: Collection[str] = ()
    """Names that may be taken over."""
    plugins: Collection[str] | None = ()
    """Names of device plugins. None: unknown, so nothing is adopted, and what another writer wrote is left."""
    complete: bool = True
    """Whether the whole configuration could be read."""
    now: float = 0.0
    """Seconds since the epoch."""
    condition: bool = True
    """Whether to keep a Node condition."""
    uptime: float = 0.0
    """Seconds since the machine booted; no change of the clock moves them. So are all times below."""
    lower_after: float = 0.0
    """Seconds for which a lower quantity must hold."""
    lower_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when its reading has been lower."""
    not_before: Mapping[str, float] = field(default_factory=dict)
    """Name that is rate limited -> when it may be written again."""
    metadata_not_before: float = 0.0
    """The same for the condition and the annotations alone; 0: they are not rate limited."""
    kubelet_may_zero: bool = True
    """Whether a 0 may come from a kubelet that has restarted, or registered the Node, since the service last read it.
    True if it is unknown when the kubelet started."""
    machine: MachineRecord | None = None
    """What this machine has published. None: its record is missing (a new image for an old Node), so for configured
    resources the annotation counts alone."""
    record_unreadable: bool = False
    """Whether there is such a record that can't be read. For what has been published the annotation counts alone."""
    unwritable: str = ""
    """Why this machine can't save a record or its state: then nothing is lowered or removed. Empty if it can."""
    configuration: str = ""
    """The hash of the effective configuration."""
    configuration_errors: tuple[str, ...] = ()
    """Each with its file and line. The effective configuration may be an older one without them."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """Name -> the quantity below which the condition is False."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Name -> why the API server rejects its write, which is not repeated now."""
    unknown_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> uptime since when its reading has been unknown. Without it, no Event reports that."""
    behind: Collection[str] = ()
    """Names whose allocatable was less than what is published when the Node was last read."""
    heartbeat_after: float | None = None
    """Seconds after which the condition's heartbeat is refreshed. None: it is written only with a change."""


@dataclass(frozen=True, slots=True)
class CapacityEntry:
    """A name on the Node: its value there and in both records."""

    name: str
    current: str | None
    """The quantity in the Node's capacity; None if the key is absent."""
    allocatable: str | None
    """The same in the Node's allocatable."""
    last_applied: int | None
    """The quantity in the Node's annotation, or the current one if the machine's record confirms it; None if neither
    names it."""
    own: int | None
    """The quantity in the machine's record, which is last_applied if both agree. None unless both records name it."""

    @property
    def named(self) -> bool:
        """Whether both records name it."""
        return self.own is not None

    @property
    def confirmed(self) -> bool:
        """Whether both records have the same quantity of it."""
        return self.own is not None and self.own == self.last_applied

    def equals(self, number: int) -> bool:
        """Whether the Node's capacity has this quantity."""
        return self.current is not None and whole_quantity(self.current) == number


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done to a name: action, value and reason as in Change."""

    action: Action
    value: int | None
    reason: str
    record: int | None
    """The quantity in the annotation afterwards; None if the annotation does not name it."""
