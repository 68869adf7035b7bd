"""Computes the memory that a pass leaves for the next pass, after it has read the Node. Pure."""

from __future__ import annotations

from capacityd.model.plan import Action
from capacityd.model.quantity import whole_quantity
from capacityd.reconcile import timing
from capacityd.reconcile.facts import PassContext
from capacityd.reconcile.memory import Memory, remembered
from capacityd.reconcile.writing import Outcome


def remember(last: Memory, outcome: Outcome, context: PassContext) -> Memory:
    """The memory after a pass. last: the memory before it, with the readings of this pass."""
    plan, uptime, node_state = outcome.plan, context.uptime, outcome.node_state
    changed = plan.changed_names if outcome.applied else ()
    return Memory(
        node=remembered(node_state),
        lower_since={name: since for name, since in plan.lower_since.items() if name not in changed},
        unknown_since=last.unknown_since,
        write_times=_write_times(last, outcome, changed, uptime),
        denied=_denied(last, outcome, uptime),
        conflict=None,
        kubelet=timing.after_read(last.kubelet, context.kubelet_started_at, node_state.heartbeat, uptime),
        less_allocatable=plan.less_allocatable,
        writes_fail_since=last.writes_fail_since if plan.health.denied else None,
        verify_at=_verify_at(outcome, uptime),
    )


def _write_times(last: Memory, outcome: Outcome, changed: tuple[str, ...], uptime: float) -> timing.WriteTimes:
    """The write times. A denied write counts as a write, because its next attempt costs as many requests."""
    times = last.write_times_of(outcome.node_state).recent(uptime)
    if attempted := (*changed, *outcome.denied):
        return times.after_write(attempted, uptime)
    return times.after_write((), uptime) if outcome.applied else times


def _denied(last: Memory, outcome: Outcome, uptime: float) -> dict[str, timing.Denial]:
    """The changes that the API server denies or has recently denied, by name."""
    changes = {change.name: change for change in outcome.plan.changes}
    denied = {
        name: denial
        for name, denial in last.denied.items()
        if name in outcome.plan.health.denied or uptime < denial.retry_at
    }
    for name, reason in outcome.denied.items():
        desired = whole_quantity(changes[name].new or "")
        denied[name] = timing.denial(last.denied.get(name), desired, reason, uptime)
    return denied


def _verify_at(outcome: Outcome, uptime: float) -> float | None:
    """When to read the Node again to compare allocatable; None if no other writer is expected to change it.

    A Node without a heartbeat has no kubelet that could change allocatable.
    """
    plan, has_kubelet = outcome.plan, outcome.node_state.heartbeat is not None
    if outcome.applied and has_kubelet and any(change.action is Action.SET for change in plan.changes):
        return uptime + timing.VERIFY_AFTER
    return uptime + timing.VERIFY_PERIOD if plan.less_allocatable else None
