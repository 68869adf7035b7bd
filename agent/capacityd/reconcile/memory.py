"""What the service remembers between two passes, while the machine is up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.errors import NodeConflict, NodeError, NodeMissing, NodeRejected, NodeWriteFailed
from capacityd.model.node import NodeState
from capacityd.model.other_agent import OtherAgent
from capacityd.model.pace import pause
from capacityd.model.plan import Outcome
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Reading, Unknown
from capacityd.model.reasons import RetryCause
from capacityd.reconcile import timing
from capacityd.reconcile.less_allocatable import LessAllocatable, less_allocatable_after
from capacityd.reconcile.timing import Denial, WriteTimes


@dataclass(frozen=True, slots=True)
class Conflict:
    """Conflicts with other writers, since a pass last succeeded."""

    message: str
    """The message of the first pass with conflicts. Each later pass makes a single attempt, which can't determine the
    cause."""
    since: float
    """When the first attempt ended in a conflict, in seconds of uptime."""
    at: float
    """When the last attempt ended in a conflict, in seconds of uptime."""

    @property
    def retry_at(self) -> float:
        """When the next attempt may begin, in seconds of uptime."""
        return self.at + pause(RetryCause.CONFLICT, self.at - self.since)


@dataclass(frozen=True, slots=True)
class Memory:
    """The state that a pass leaves for the next pass. Times are seconds of uptime."""

    node: NodeState | None = None
    """The Node as the API server last returned it to a pass, or as it was watched; None: not known."""
    node_at: float = 0.0
    """When the Node was last known to be in this state."""
    lower_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when a reduction of its quantity has been due."""
    unknown_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when its reading has been unknown."""
    device_plugins_unknown_since: float | None = None
    """Since when something has been wrong because the device plugins are unknown; None: nothing is wrong."""
    write_times: WriteTimes = field(default_factory=WriteTimes)
    """Recent writes to the Node."""
    denied: Mapping[str, Denial] = field(default_factory=dict)
    """Name -> its change that the API server has denied."""
    conflict: Conflict | None = None
    """None: no pass has ended in a conflict since a pass last succeeded."""
    other_agent: OtherAgent | None = None
    """Another capacityd, as last seen; None: there is none."""
    contradicted_at: float | None = None
    """When a pass last found a condition that said something else than its own findings; None: no pass has."""
    has_failed: bool = False
    """Whether the last pass failed, so that it may not know what it wrote."""
    less_allocatable: Mapping[str, LessAllocatable] = field(default_factory=dict)
    """Name -> how another writer has recently reduced its allocatable."""
    writes_fail_since: float | None = None
    """Since when the API server answers writes with a server error although the Node can be read; None: writes do not
    fail."""
    condition_not_stored_since: float | None = None
    """Since when the API server has not stored the condition that it accepted; None: it stores the condition."""

    def without_future(self, uptime: float) -> Memory:
        """The memory without times after this uptime. A restored snapshot of the machine may contain a file with such
        times.

        What began in the future begins now, and a denied change with times from the future is due now. Write times and
        repairs of allocatable in the future are dropped.
        """
        conflict = self.conflict
        if conflict is not None:
            conflict = replace(conflict, since=min(conflict.since, uptime), at=min(conflict.at, uptime))
        other = self.other_agent
        if other is not None:
            other = replace(other, wrote_at=min(other.wrote_at, uptime), own_write_at=min(other.own_write_at, uptime))
        return replace(
            self,
            node_at=min(self.node_at, uptime),
            # For a name without a time, these two begin now.
            lower_since=_without_later(self.lower_since, uptime),
            unknown_since=_without_later(self.unknown_since, uptime),
            write_times=self.write_times.recent(uptime),
            denied={name: denial.without_future(uptime) for name, denial in self.denied.items()},
            device_plugins_unknown_since=_at_latest(uptime, self.device_plugins_unknown_since),
            contradicted_at=_at_latest(uptime, self.contradicted_at),
            writes_fail_since=_at_latest(uptime, self.writes_fail_since),
            condition_not_stored_since=_at_latest(uptime, self.condition_not_stored_since),
            conflict=conflict,
            other_agent=other,
            less_allocatable={
                name: less
                for name, less in self.less_allocatable.items()
                if less.repaired_at is None or less.repaired_at <= uptime
            },
        )

    def with_readings(self, readings: Mapping[str, Reading], uptime: float) -> Memory:
        """The memory with these readings. It records since when each reading has been unknown, even if this pass
        fails."""
        unknown = [name for name, reading in readings.items() if isinstance(reading, Unknown)]
        return replace(self, unknown_since={name: self.unknown_since.get(name, uptime) for name in unknown})

    def with_denials_due(self, uptime: float) -> Memory:
        """The memory in which every denied change is due now, and due again in the next pass if this pass fails."""
        return replace(self, denied={name: replace(denial, retry_at=uptime) for name, denial in self.denied.items()})

    def rejects_server_errors(self, uptime: float) -> bool:
        """Whether writes have failed with server errors for so long that the API server must reject their content."""
        since = self.writes_fail_since
        return since is not None and uptime - since >= timing.WRITES_REJECTED_AFTER

    def of_node(self, node_state: NodeState) -> Memory:
        """The memory for a plan for this Node: without write times if the Node was deleted and created again since, so
        that no limit delays the first write."""
        is_other_node = self.node is not None and self.node.uid != node_state.uid
        return replace(self, write_times=WriteTimes()) if is_other_node else self

    def after_outcome(self, outcome: Outcome, uptime: float) -> Memory:
        """The memory after a pass that ended without a NodeError, whether or not it wrote the Node."""
        plan = outcome.plan
        changed = plan.changed_names if outcome.applied else ()
        # Once writes have failed for long, a server error counts as a denial (apply.py). So the denials of this pass
        # may be server errors. To count them as denials again, the next pass needs the time since when writes fail.
        may_still_fail = bool(plan.health.denied) and self.rejects_server_errors(uptime)
        return Memory(
            node=outcome.node_state,
            node_at=uptime,
            lower_since={name: since for name, since in plan.lower_since.items() if name not in changed},
            unknown_since=self.unknown_since,
            device_plugins_unknown_since=_since(
                self.device_plugins_unknown_since, uptime, lasts=plan.awaits_device_plugins
            ),
            write_times=_write_times(self, outcome, changed, uptime),
            denied=_denied(self, outcome, uptime),
            conflict=None,
            other_agent=_other_agent(outcome, uptime),
            contradicted_at=uptime if plan.is_contradicted else self.contradicted_at,
            less_allocatable=less_allocatable_after(
                last=self.less_allocatable, quantities=plan.less_allocatable, changed=changed, uptime=uptime
            ),
            writes_fail_since=self.writes_fail_since if may_still_fail else None,
            condition_not_stored_since=_since(
                self.condition_not_stored_since, uptime, lasts=outcome.condition_not_stored
            ),
        )

    def after_error(self, error: NodeError, uptime: float) -> Memory:
        """The memory after a pass that this error has ended."""
        memory = replace(self, has_failed=True)
        if error.node_state is not None:
            memory = replace(memory, node=error.node_state, node_at=uptime)
        if isinstance(error, NodeConflict):
            first = self.conflict or Conflict(str(error), since=uptime, at=uptime)
            memory = replace(memory, conflict=replace(first, at=uptime))
        if isinstance(error, NodeWriteFailed):
            memory = replace(memory, writes_fail_since=_since(self.writes_fail_since, uptime, lasts=True))
        elif not isinstance(error, NodeRejected):  # a rejection may stand for a server error (apply.py)
            memory = replace(memory, writes_fail_since=None)
        if isinstance(error, NodeMissing):  # another Node may follow, which has not been written yet
            memory = replace(memory, node=None, write_times=WriteTimes())
        return memory


def _without_later(times: Mapping[str, float], uptime: float) -> dict[str, float]:
    """Name -> time, without the times after this uptime."""
    return {name: at for name, at in times.items() if at <= uptime}


def _at_latest(uptime: float, at: float | None) -> float | None:
    """The earlier of both times; None if `at` is None."""
    return None if at is None else min(at, uptime)


def _since(before: float | None, uptime: float, *, lasts: bool) -> float | None:
    """Since when a problem has lasted; None: there is none. before: this time as of the last pass. lasts: whether there
    is a problem."""
    if not lasts:
        return None
    return uptime if before is None else before


def _write_times(last: Memory, outcome: Outcome, changed: tuple[str, ...], uptime: float) -> WriteTimes:
    """The write times after a pass. changed: the names that the pass has written.

    A denied write counts as a write, because its next attempt costs as many requests. So outcome.attempted counts, also
    a label that was denied together with its resource and that the last plan does not change.
    """
    times = last.of_node(outcome.node_state).write_times.recent(uptime)
    attempted = tuple(sorted({*changed, *outcome.attempted}))
    if attempted or outcome.applied:  # applied without names: only the condition or annotations were written
        return times.after_write(attempted, uptime)
    return times


def _denied(last: Memory, outcome: Outcome, uptime: float) -> dict[str, Denial]:
    """The changes that the API server denies or has recently denied, by name."""
    denied = {
        name: denial
        for name, denial in last.denied.items()
        if name in outcome.plan.health.denied or uptime < denial.retry_at
    }
    # outcome.denied may also list a name without a change in the plan. For that name there is nothing to try again.
    for change in outcome.plan.changes:
        reason = outcome.denied.get(change.name)
        if reason:
            desired = whole_quantity(change.new or "")
            denied[change.name] = timing.next_denial(
                last.denied.get(change.name), desired=desired, reason=reason, uptime=uptime
            )
    return denied


def _other_agent(outcome: Outcome, uptime: float) -> OtherAgent | None:
    """What to remember of another agent, and of this pass's write; None if there is no other agent."""
    other = outcome.plan.health.other_agent
    if other is None or not outcome.applied:
        return other
    return replace(other, own_write_at=uptime)
