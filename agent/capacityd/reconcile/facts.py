"""What a plan is made from, beside the Node: values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from capacityd.model.config import Config
from capacityd.model.plan import MachineRecord
from capacityd.model.reading import Reading
from capacityd.model.reasons import PassReason
from capacityd.reconcile.memory import Memory

_LOCAL = frozenset({PassReason.HARDWARE, PassReason.FILE, PassReason.REQUEUE, PassReason.PLUGINS})
"""Reasons for a pass that say nothing about the Node."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the configuration says about the Node, beside its resources' readings."""

    adopt: Collection[str] = ()
    """Names that may be taken over."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """Name -> the quantity below which the condition is False."""
    condition: bool = True
    """Whether to keep a Node condition."""
    configuration: str = ""
    """The hash of the effective configuration."""
    complete: bool = True
    """Whether the whole configuration could be read."""
    configuration_errors: tuple[str, ...] = ()
    """Each with its file and line. The effective configuration may be an older one without them."""
    lower_after: float = 0.0
    """Seconds for which a lower quantity must hold."""
    reports_unknown: bool = True
    """Whether an Event reports what has been unknown for long. If that can't be recorded, it would be repeated."""
    heartbeat_after: float | None = None
    """Seconds after which the condition's heartbeat is refreshed. None: it is written only with a change."""
    observe: bool = False
    """Whether nothing is written."""

    @classmethod
    def of(cls, config: Config) -> Policy:
        """The policy of a plan that is carried out at once."""
        return cls(
            adopt=frozenset(r.name for r in config.resources if r.adopt),
            expect=config.expectations(),
            condition=config.settings.condition,
            configuration=config.digest,
            complete=config.complete,
        )


@dataclass(frozen=True, slots=True)
class PassContext:
    """When, where and why a pass runs."""

    now: float = 0.0
    """Seconds since the epoch."""
    uptime: float = 0.0
    """Seconds since the machine booted; no change of the clock moves them."""
    reasons: frozenset[PassReason] = frozenset()
    """Why the pass is made; none if it is a command by hand."""
    kubelet_started_at: float | None = None
    """When the kubelet made its socket, in seconds since the epoch; None: it has none."""
    machine_record: MachineRecord | None = None
    """What this machine has published; None: its record is missing."""
    machine_record_error: str = ""
    """Why the record can't be read; empty if it could be read, or is missing."""
    configuration_errors: tuple[str, ...] = ()
    """The errors of the last check of the configuration, each with its file and line."""
    unwritable: str = ""
    """Why nothing can be saved here; empty if it can."""

    @property
    def unrecordable(self) -> str:
        """Why this pass can't keep a record of what it publishes; empty if it can."""
        return "; ".join(filter(None, (self.machine_record_error, self.unwritable)))


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a plan depends on, beside the Node."""

    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Those of the configured resources."""
    policy: Policy = field(default_factory=Policy)
    context: PassContext = field(default_factory=PassContext)
    """Without a machine's record in it (a new image for an old Node), the annotation counts alone for configured
    resources; if that can't be read, for all that has been published."""
    memory: Memory = field(default_factory=Memory)
    """What the pass before left, with the readings of this one."""
    device_plugins: Collection[str] | None = ()
    """Their names. None: unknown, so nothing is adopted, and what another writer wrote is left."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Name -> why the API server has denied its change just now."""

    @property
    def about_the_node(self) -> bool:
        """Whether the Node must be read whatever the readings are."""
        memory = self.memory
        verification_due = memory.verify_at is not None and memory.verify_at <= self.context.uptime
        settling = memory.kubelet.settling_since is not None
        return settling or verification_due or not _LOCAL.issuperset(self.context.reasons)

    @property
    def keeps_record(self) -> bool:
        """Whether it is known what is ours, so that it can be recorded."""
        if self.context.machine_record_error:
            return False
        return self.context.machine_record is not None or (self.policy.complete and bool(self.readings))

    @property
    def kubelet_may_zero(self) -> bool:
        """Whether a 0 may come from a kubelet that has restarted, or registered the Node, since the last read of it.

        True if it is unknown when the kubelet started.
        """
        started_at, last = self.context.kubelet_started_at, self.memory.kubelet
        return last.settling_since is not None or started_at is None or started_at != last.started_at
