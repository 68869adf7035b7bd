"""Whether a pass must read the Node at all. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.reconcile.plan import long_unknown
from capacityd.reconcile.plan_input import METADATA_ONLY, PlanInput
from capacityd.reconcile.state import PassContext, ReconcileState, is_lower, outcome_text

LOCAL = frozenset({"hardware", "file", "requeue", "plugins"})
"""Reasons that say nothing about the Node: if the readings are what was last applied, it need not be read.

plugins: the kubelet rewrites its checkpoint for each pod with devices; only the set of names in it counts.
"""


@dataclass(frozen=True, slots=True)
class Hold:
    """The Node need not be read now: everything that differs from it is held back."""

    lower_since: Mapping[str, float]
    """Name -> uptime since when its reading has been lower."""
    held: Mapping[str, float]
    """Name -> seconds for which its change is held back."""
    metadata_in: float | None
    """Seconds until an update of the condition or an annotation may be written; None: there is none."""


def must_ask(reasons: Collection[str], memory: ReconcileState, here: PassContext, same_plugins: bool) -> bool:
    """Whether the reasons for this pass concern the Node itself."""
    verifies = memory.verify_at is not None and here.uptime >= memory.verify_at
    return verifies or not LOCAL.issuperset(reasons) or ("plugins" in reasons and not same_plugins)


def hold(readings: Mapping[str, Reading], memory: ReconcileState, inputs: PlanInput) -> Hold | None:
    """What is held back, and for how long. None: the Node must be read now, because it may have to be written."""
    if memory.applied_readings is None or memory.settle_passes:
        return None
    if inputs.machine is not None and long_unknown(inputs) - inputs.machine.reported.unknown:
        return None
    lower_since = dict(inputs.lower_since)  # in observe mode, too, where it stays lower
    held: dict[str, float] = {}
    delay = max(0.0, inputs.not_before.get(METADATA_ONLY, 0.0) - inputs.uptime)
    if memory.delayed and not delay:
        return None
    metadata = memory.delayed
    for name in memory.applied_readings.keys() | readings.keys():
        reading = readings.get(name)
        if reading is not None and memory.applied_readings.get(name) == outcome_text(reading):
            continue
        if delay and name in memory.applied_readings and _needs_metadata_only(reading, memory.published.get(name)):
            metadata = True
            continue
        until = inputs.not_before.get(name, 0.0)
        if denial := memory.denied.get(name):
            until = max(until, denial.retry_at)
        if is_lower(reading, memory.published.get(name)):
            lower_since[name] = inputs.lower_since.get(name, inputs.uptime)
            until = max(until, lower_since[name] + inputs.lower_after)
        if until <= inputs.uptime:
            return None
        held[name] = until - inputs.uptime
    return Hold(lower_since, held, delay if metadata else None)


def _needs_metadata_only(reading: Reading | None, published: int | None) -> bool:
    """Whether the quantity stays, so that at most the condition changes."""
    return isinstance(reading, Unknown) or (isinstance(reading, Quantity) and reading.value == published)
