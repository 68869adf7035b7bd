"""What the service remembers between two passes, and how a pass changes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.node import NodeState
from capacityd.model.plan import Action, MachineRecord, Plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.reconcile.attempt import Outcome
from capacityd.reconcile.rate_limit import WriteTimes, record_attempts, record_write

_DENIED_BACKOFF, _DENIED_BACKOFF_FACTOR, _DENIED_BACKOFF_MAX = 60.0, 4.0, 3600.0
"""Seconds until a denied change is tried again: at first, its growth, and at most."""

_VERIFY_AFTER = 15.0
"""Seconds after a write when the Node is read again: a kubelet reports each 10 s, and one may overwrite allocatable."""

_VERIFY_PERIOD = 45.0
"""Seconds between reads of the Node while allocatable is less than what is published, and is not written."""

_MAX_SETTLE_PASSES = 40  # passes for one kubelet restart, about five minutes


@dataclass(frozen=True, slots=True)
class Denial:
    """A change that the API server denies. A change to another quantity is another matter."""

    reason: str
    desired: int | None
    """The quantity that is denied; None: the removal is."""
    retry_at: float
    """Uptime before which it is not tried again."""
    attempts: int = 1

    def holds(self, desired: int | None, uptime: float) -> bool:
        """Whether a change to this quantity (None: a removal) is not tried now."""
        return desired == self.desired and uptime < self.retry_at


@dataclass(frozen=True, slots=True)
class ReconcileState:
    """What the service remembers between two passes, while the machine is up. Times are seconds of uptime."""

    applied_readings: Mapping[str, str] | None = None
    """Readings that the Node is known to match; None: none yet. A resource missing here still has to be reconciled."""
    annotated: Mapping[str, int] = field(default_factory=dict)
    """The annotation after the last pass that read the Node."""
    lower_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when its reading has been lower."""
    write_times: WriteTimes = field(default_factory=WriteTimes)
    """When the Node was written lately."""
    kubelet_started_at: float | None = None
    """When the kubelet started, as of the last pass that read the Node; seconds since the epoch."""
    settle_passes: int = 0
    """Passes since a kubelet restart during which it may still reset capacity to zero; 0 once that window is over."""
    metadata_held_until: float | None = None
    """When a rate-limited update of the condition or the annotations may be written; None: none waits."""
    device_plugins: tuple[str, ...] | None = None
    """Names of device plugins at the last pass that read the Node; None: unknown."""
    conflict: str = ""
    """The message of conflicts that have not ended; empty for none."""
    conflict_at: float = 0.0
    """When the last attempt ended in one."""
    denied: Mapping[str, Denial] = field(default_factory=dict)
    """Name -> the change that the API server denies."""
    less_allocatable: tuple[str, ...] = ()
    """Names whose allocatable was less than what was published when the Node was last read."""
    node_uid: str = ""
    """The uid of the Node that was read last; "" if none was."""
    verify_at: float | None = None
    """When the Node is read again to see whether allocatable is what was published."""
    unknown_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when its reading has been unknown."""

    def __post_init__(self) -> None:
        if self.settle_passes < 0:
            raise ValueError("a number of passes is less than 0")


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


def outcome_text(reading: Reading) -> str:
    """A reading as text, as far as the Node is concerned: a number, "absent" or "unknown"."""
    if isinstance(reading, Quantity):
        return str(reading.value)
    return "absent" if isinstance(reading, Absent) else "unknown"


def is_lower(reading: Reading | None, annotated: int | None) -> bool:
    """Whether the reading is less than what is published. Unknown or unpublished is not."""
    if annotated is None or isinstance(reading, Unknown):
        return False
    return not isinstance(reading, Quantity) or reading.value < annotated


def desired_quantity(reading: Reading | None, annotated: int | None) -> int | None:
    """The quantity that the Node is to have of a name; None: none. annotated: the published one, kept if unknown."""
    if isinstance(reading, Unknown):
        return annotated
    return reading.value if isinstance(reading, Quantity) else None


def with_readings(state: ReconcileState, readings: Mapping[str, Reading], uptime: float) -> ReconcileState:
    """The state with these readings: since when each is lower or unknown, even if this pass fails."""
    unknown = [name for name, reading in readings.items() if isinstance(reading, Unknown)]
    return replace(
        state,
        lower_since=_still_lower(readings, state),
        unknown_since={name: state.unknown_since.get(name, uptime) for name in unknown},
    )


def retry_denied(state: ReconcileState, uptime: float) -> ReconcileState:
    """The state in which each denied change is tried now, and again in the next pass if this one fails."""
    return replace(state, denied={name: replace(denial, retry_at=uptime) for name, denial in state.denied.items()})


def _still_lower(readings: Mapping[str, Reading], state: ReconcileState) -> dict[str, float]:
    """Since when each name is lower. One that came back starts over."""
    return {
        name: since
        for name, since in state.lower_since.items()
        if name not in state.annotated or is_lower(readings.get(name), state.annotated[name])
    }


def remember(
    state: ReconcileState, readings: Mapping[str, Reading], outcome: Outcome, context: PassContext
) -> ReconcileState:
    """The state after a pass that has read the Node."""
    plan, uptime = outcome.plan, context.uptime
    write_times = write_times_of(outcome.node_state, state)
    if outcome.applied:
        write_times = record_write(plan, write_times, uptime)
    return ReconcileState(
        applied_readings=_applied_readings(readings, plan),
        annotated=plan.annotated,
        lower_since=plan.lower_since,
        write_times=record_attempts(outcome.denied, write_times, uptime),
        node_uid=outcome.node_state.uid,
        kubelet_started_at=context.kubelet_started_at,
        settle_passes=_settle_passes(state, outcome.node_state, context),
        unknown_since=state.unknown_since,
        metadata_held_until=plan.metadata_held_until,
        device_plugins=plan.device_plugins,
        denied=_denials(state, outcome, uptime),
        less_allocatable=tuple(sorted(plan.less_allocatable)),
        verify_at=_verify_at(outcome, uptime),
    )


def write_times_of(node_state: NodeState, state: ReconcileState) -> WriteTimes:
    """When this Node was written lately. One that was created anew has not been written yet."""
    return state.write_times if state.node_uid in ("", node_state.uid) else WriteTimes()


def _denials(state: ReconcileState, outcome: Outcome, uptime: float) -> dict[str, Denial]:
    """Those that are still denied, each with the time of its next attempt."""
    denials = {}
    for change in outcome.plan.changes:
        if change.action is not Action.DENY:
            continue
        desired = None if change.new is None else int(change.new)
        last = state.denied.get(change.name)
        if last and last.desired != desired:
            last = None
        if change.name in outcome.denied:
            attempts = last.attempts + 1 if last else 1
            pause = min(_DENIED_BACKOFF * _DENIED_BACKOFF_FACTOR ** min(attempts - 1, 10), _DENIED_BACKOFF_MAX)
            denials[change.name] = Denial(change.reason, desired, uptime + pause, attempts)
        elif last:
            denials[change.name] = last
    return denials


def _verify_at(outcome: Outcome, uptime: float) -> float | None:
    """When to read the Node again to compare allocatable; None if nobody is expected to change it.

    A Node without a heartbeat has no kubelet that could.
    """
    plan = outcome.plan
    if (
        outcome.applied
        and outcome.node_state.heartbeat is not None
        and any(c.action is Action.SET for c in plan.changes)
    ):
        return uptime + _VERIFY_AFTER
    return uptime + _VERIFY_PERIOD if plan.less_allocatable else None


def _applied_readings(readings: Mapping[str, Reading], plan: Plan) -> dict[str, str]:
    """The readings that the Node matches by now."""
    applied_readings = {name: outcome_text(reading) for name, reading in readings.items()}
    for name in (*plan.held, *plan.health.denied):  # the Node does not match the reading yet
        annotated = str(plan.annotated.get(name, "absent"))
        if applied_readings.get(name) == annotated:
            del applied_readings[name]  # another writer's value is on the Node
        else:
            applied_readings[name] = annotated
    return applied_readings


def _settle_passes(state: ReconcileState, node_state: NodeState, context: PassContext) -> int:
    """Passes since a kubelet restart during which it may still reset capacity to zero; 0 once that window is over.

    The kubelet decides to before its socket appears, but its write may come much later. The heartbeat of the Ready
    condition comes after it, in whole seconds. A heartbeat that never comes (a kubelet that hangs, a clock that was
    set back) is waited for once.
    """
    started_at, heartbeat = context.kubelet_started_at, node_state.heartbeat
    if started_at is None or heartbeat is None or heartbeat >= int(started_at):
        return 0
    if started_at != state.kubelet_started_at:
        return 1
    return 0 if state.settle_passes in (0, _MAX_SETTLE_PASSES) else state.settle_passes + 1
