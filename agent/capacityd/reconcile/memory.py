"""What the service remembers between two passes, while the machine is up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeWriteFailed
from capacityd.model.node import NodeState
from capacityd.model.plan import Action, Outcome
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Reading, Unknown
from capacityd.reconcile import timing
from capacityd.reconcile.timing import Denial, Kubelet, WriteTimes


@dataclass(frozen=True, slots=True)
class Conflict:
    """Conflicts with other writers that continue."""

    message: str
    """The message of the first conflicts. A single attempt can't determine the cause."""
    at: float
    """When the last attempt ended in a conflict."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The state that a pass leaves for the next pass. Times are seconds of uptime."""

    node: NodeState | None = None
    """The parts of the Node that a plan uses, as the API server last returned them. They only decide whether the pass
    must read the Node; no write is derived from them. None: the pass must read the Node."""
    lower_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when a reduction of its quantity has been due."""
    unknown_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when its reading has been unknown."""
    write_times: WriteTimes = field(default_factory=WriteTimes)
    """Recent writes to the Node."""
    denied: Mapping[str, Denial] = field(default_factory=dict)
    """Name -> its denied change."""
    conflict: Conflict | None = None
    kubelet: Kubelet = field(default_factory=Kubelet)
    less_allocatable: frozenset[str] = frozenset()
    """Names whose allocatable was less than the published quantity when the Node was last read."""
    writes_fail_since: float | None = None
    """Since when the API server answers writes with a server error although reads succeed; None: writes do not fail."""
    verify_at: float | None = None
    """When the pass reads the Node again, to compare allocatable with the published quantities."""

    def without_future(self, uptime: float) -> Memory:
        """The memory as of this uptime. Files from a restored snapshot of the machine may contain later times.

        Periods that began in the future begin now. Waits that are longer than the longest possible wait end now.
        """
        latest = uptime + timing.VERIFY_PERIOD
        future_denials = {
            name: replace(denial, retry_at=uptime)
            for name, denial in self.denied.items()
            if denial.retry_at > uptime + timing.pause_after_denials(denial.attempts)
        }
        return replace(
            self,
            lower_since=_past(self.lower_since, uptime),
            unknown_since=_past(self.unknown_since, uptime),
            write_times=self.write_times.recent(uptime),
            denied={**self.denied, **future_denials},
            writes_fail_since=_past_or_now(self.writes_fail_since, uptime),
            conflict=self.conflict and replace(self.conflict, at=min(self.conflict.at, uptime)),
            kubelet=replace(self.kubelet, settling_since=_past_or_now(self.kubelet.settling_since, uptime)),
            verify_at=uptime if self.verify_at is not None and self.verify_at > latest else self.verify_at,
        )

    def with_readings(self, readings: Mapping[str, Reading], uptime: float) -> Memory:
        """The memory with these readings. It records since when each reading has been unknown, even if this pass
        fails."""
        unknown = [name for name, reading in readings.items() if isinstance(reading, Unknown)]
        return replace(self, unknown_since={name: self.unknown_since.get(name, uptime) for name in unknown})

    def with_denials_due(self, uptime: float) -> Memory:
        """The memory in which every denied change is due now, and due again in the next pass if this pass fails."""
        return replace(self, denied={name: replace(denial, retry_at=uptime) for name, denial in self.denied.items()})

    def write_times_of(self, node_state: NodeState) -> WriteTimes:
        """Recent writes to this Node. A Node that was deleted and created again has none."""
        return self.write_times if self.node is None or self.node.uid == node_state.uid else WriteTimes()

    def after_outcome(self, outcome: Outcome, kubelet_started_at: float | None, uptime: float) -> Memory:
        """The memory after a pass that has read the Node. kubelet_started_at: as in PassContext."""
        plan, node_state = outcome.plan, outcome.node_state
        changed = plan.changed_names if outcome.applied else ()
        return Memory(
            node=remembered(node_state),
            lower_since={name: since for name, since in plan.lower_since.items() if name not in changed},
            unknown_since=self.unknown_since,
            write_times=_write_times(self, outcome, changed, uptime),
            denied=_denied(self, outcome, uptime),
            conflict=None,
            kubelet=timing.after_read(self.kubelet, kubelet_started_at, node_state.heartbeat, uptime),
            less_allocatable=plan.less_allocatable,
            writes_fail_since=self.writes_fail_since if plan.health.denied else None,
            verify_at=_verify_at(outcome, uptime),
        )

    def after_error(self, error: NodeError, uptime: float) -> Memory:
        """The memory after a pass that this error has ended."""
        conflict, since = self.conflict, self.writes_fail_since
        if isinstance(error, NodeConflict):
            conflict = Conflict(conflict.message if conflict else str(error), uptime)
        if isinstance(error, NodeWriteFailed):
            since = uptime if since is None else since
        elif not isinstance(error, NodeRejected):
            since = None
        return replace(self, conflict=conflict, writes_fail_since=since)


def remembered(node_state: NodeState) -> NodeState:
    """The parts of the Node that a plan uses: without the conditions' JSON, which only a patch tests."""
    condition = node_state.condition
    stripped = None if condition is None else replace(condition, stored={})
    return replace(node_state, condition=stripped, duplicate_conditions=())


def _past(times: Mapping[str, float], uptime: float) -> dict[str, float]:
    return {name: at for name, at in times.items() if at <= uptime}


def _past_or_now(at: float | None, uptime: float) -> float | None:
    return None if at is None else min(at, uptime)


def _write_times(last: Memory, outcome: Outcome, changed: tuple[str, ...], uptime: float) -> WriteTimes:
    """The write times. A denied write counts as a write, because its next attempt costs as many requests."""
    times = last.write_times_of(outcome.node_state).recent(uptime)
    if attempted := (*changed, *outcome.denied):
        return times.after_write(attempted, uptime)
    return times.after_write((), uptime) if outcome.applied else times


def _denied(last: Memory, outcome: Outcome, uptime: float) -> dict[str, Denial]:
    """The changes that the API server denies or has recently denied, by name."""
    denied = {
        name: denial
        for name, denial in last.denied.items()
        if name in outcome.plan.health.denied or uptime < denial.retry_at
    }
    for change in outcome.plan.changes:  # a removed key that a webhook has put back is another writer's: no change
        if reason := outcome.denied.get(change.name):
            desired = whole_quantity(change.new or "")
            denied[change.name] = timing.denial(last.denied.get(change.name), desired, reason, uptime)
    return denied


def _verify_at(outcome: Outcome, uptime: float) -> float | None:
    """When to read the Node again to compare allocatable; None if no other writer is expected to change it.

    A Node without a heartbeat has no kubelet that could change allocatable.
    """
    plan, has_kubelet = outcome.plan, outcome.node_state.heartbeat is not None
    if outcome.applied and has_kubelet and any(change.action is Action.SET for change in plan.changes):
        return uptime + timing.VERIFY_AFTER
    return uptime + timing.VERIFY_PERIOD if plan.less_allocatable else None
