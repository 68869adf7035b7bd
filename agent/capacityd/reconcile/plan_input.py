"""What a plan is made from, beside the Node: values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from capacityd.model.config import Config
from capacityd.model.reading import Reading
from capacityd.reconcile.state import PassContext, ReconcileState


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
class PlanInput:
    """All that a plan depends on, beside the Node."""

    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Those of the configured resources."""
    policy: Policy = field(default_factory=Policy)
    context: PassContext = field(default_factory=PassContext)
    """Without a machine's record in it (a new image for an old Node), the annotation counts alone for configured
    resources; if that can't be read, for all that has been published."""
    state: ReconcileState = field(default_factory=ReconcileState)
    device_plugins: Collection[str] | None = ()
    """Their names. None: unknown, so nothing is adopted, and what another writer wrote is left."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Name -> why the API server has just denied its write. Earlier denials are in the state."""

    @property
    def kubelet_may_zero(self) -> bool:
        """Whether a 0 may come from a kubelet that has restarted, or registered the Node, since the last read of it.

        True if it is unknown when the kubelet started.
        """
        started_at = self.context.kubelet_started_at
        return self.state.settle_passes > 0 or started_at is None or started_at != self.state.kubelet_started_at
