"""Whether a pass may leave the Node unread, because everything that differs from it has to wait. Pure."""

from __future__ import annotations

from dataclasses import replace

from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.reconcile.health import long_unknown
from capacityd.reconcile.plan_input import PlanInput
from capacityd.reconcile.rate_limit import metadata_not_before, not_before
from capacityd.reconcile.result import ReconcileResult, requeue_after
from capacityd.reconcile.state import desired_quantity, is_lower, outcome_text


def changes_held_back(inputs: PlanInput) -> ReconcileResult | None:
    """The result of a pass that need not read the Node; None if it must, because it may have to write it."""
    state, uptime, machine_record = inputs.state, inputs.context.uptime, inputs.context.machine_record
    if state.applied_readings is None or state.settle_passes:
        return None
    if machine_record is not None and long_unknown(inputs) - machine_record.reported.unknown:
        return None
    delay = max(0.0, metadata_not_before(state.write_times) - uptime)
    if state.metadata_held_until is not None and not delay:
        return None
    lower_since = dict(state.lower_since)  # in observe mode, too, where it stays lower
    changes: dict[str, float] = {}
    metadata_differs = state.metadata_held_until is not None
    for name in state.applied_readings.keys() | inputs.readings.keys():
        reading, annotated = inputs.readings.get(name), state.annotated.get(name)
        matches = reading is not None and state.applied_readings.get(name) == outcome_text(reading)
        if matches and not _denial_has_ended(name, inputs):
            continue
        if delay and name in state.applied_readings and (matches or _needs_metadata_only(reading, annotated)):
            metadata_differs = True
            continue
        until = 0.0 if matches else not_before(state.write_times, name)
        if name in state.denied and not _denial_has_ended(name, inputs):
            until = max(until, state.denied[name].retry_at)
        if is_lower(reading, annotated):
            lower_since.setdefault(name, uptime)
            until = max(until, lower_since[name] + inputs.policy.lower_after)
        if until <= uptime:
            return None
        changes[name] = until - uptime
    state = replace(state, lower_since=lower_since)
    metadata_in = delay if metadata_differs else None
    return ReconcileResult(state, None, requeue_after(state, uptime, [*changes.values(), metadata_in]), changes)


def _denial_has_ended(name: str, inputs: PlanInput) -> bool:
    """Whether the change that was denied is no longer wanted. The condition still reports it."""
    denial = inputs.state.denied.get(name)
    desired = desired_quantity(inputs.readings.get(name), inputs.state.annotated.get(name))
    return denial is not None and denial.desired != desired


def _needs_metadata_only(reading: Reading | None, annotated: int | None) -> bool:
    """Whether the quantity stays, so that at most the condition changes."""
    return isinstance(reading, Unknown) or (isinstance(reading, Quantity) and reading.value == annotated)
