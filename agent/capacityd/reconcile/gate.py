"""Whether a pass may leave the Node unread, because everything that differs from it has to wait. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.reconcile.plan import long_unknown
from capacityd.reconcile.plan_input import PlanInput
from capacityd.reconcile.state import ReconcileState, is_lower, outcome_text


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The Node need not be read now: everything that differs from it is held back."""

    lower_since: Mapping[str, float]
    """Name -> uptime since when its reading has been lower."""
    held: Mapping[str, float]
    """Name -> seconds for which its change is held back."""
    metadata_in: float | None
    """Seconds until an update of the condition or an annotation may be written; None: there is none."""


def changes_held_back(readings: Mapping[str, Reading], state: ReconcileState, inputs: PlanInput) -> HeldBack | None:
    """What is held back, and for how long. None: the Node must be read now, because it may have to be written."""
    if state.applied_readings is None or state.settle_passes:
        return None
    if inputs.machine is not None and long_unknown(inputs) - inputs.machine.reported.unknown:
        return None
    lower_since = dict(inputs.lower_since)  # in observe mode, too, where it stays lower
    held: dict[str, float] = {}
    delay = max(0.0, inputs.metadata_not_before - inputs.uptime)
    if state.delayed and not delay:
        return None
    metadata_differs = state.delayed
    for name in state.applied_readings.keys() | readings.keys():
        reading = readings.get(name)
        if reading is not None and state.applied_readings.get(name) == outcome_text(reading):
            continue
        if delay and name in state.applied_readings and _needs_metadata_only(reading, state.published.get(name)):
            metadata_differs = True
            continue
        until = inputs.not_before.get(name, 0.0)
        if denial := state.denied.get(name):
            until = max(until, denial.retry_at)
        if is_lower(reading, state.published.get(name)):
            lower_since[name] = inputs.lower_since.get(name, inputs.uptime)
            until = max(until, lower_since[name] + inputs.lower_after)
        if until <= inputs.uptime:
            return None
        held[name] = until - inputs.uptime
    return HeldBack(lower_since, held, delay if metadata_differs else None)


def _needs_metadata_only(reading: Reading | None, published: int | None) -> bool:
    """Whether the quantity stays, so that at most the condition changes."""
    return isinstance(reading, Unknown) or (isinstance(reading, Quantity) and reading.value == published)
