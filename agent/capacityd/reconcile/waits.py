"""When later passes must look again at what may change without an event."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.model.key import Key
from capacityd.model.pace import pause_seconds
from capacityd.model.plan import Plan
from capacityd.model.reading import Quantity
from capacityd.model.reasons import RetryCause
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.denial import THE_ANNOTATION, THE_CONDITION
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory

_EXPIRY_MARGIN = 1.0
"""Seconds to wait after a source has become too old, so that the next reading is not too early."""


def waits_after(plan: Plan | None, memory: Memory, inputs: Inputs) -> tuple[Wait, ...]:
    """All waits after a pass, except those that have ended: any next pass does what capacityd waited to do.

    plan: the plan of the pass; None if the pass made no plan. memory: the memory for the next pass.
    """
    waits = [*_waits_for_readings(memory, inputs), *_waits_for_node(memory, inputs)]
    if plan is not None:
        waits += plan.waits
        # Only for keys in trouble: the memory may also contain denials of changes that are no longer wanted.
        for trouble in plan.troubles:
            denial = memory.denied.get(str(trouble.key)) if trouble.key else None
            if denial is not None:
                waits.append(Wait(denial.retry_at, WaitReason.DENIED, trouble.key))
    return tuple(wait for wait in waits if wait.until > inputs.uptime)


def _waits_for_readings(memory: Memory, inputs: Inputs) -> Iterator[Wait]:
    """When to read unknown resources again, and resources whose source becomes too old."""
    uptime = inputs.uptime
    for name, reading in inputs.readings.items():
        if name in memory.unknown_since:
            seconds = pause_seconds(RetryCause.OTHER, problem_age=uptime - memory.unknown_since[name])
            yield Wait(uptime + seconds, WaitReason.READ, Key(name))
        elif isinstance(reading, Quantity) and reading.valid_for is not None:
            yield Wait(uptime + reading.valid_for + _EXPIRY_MARGIN, WaitReason.READ, Key(name))


def _waits_for_node(memory: Memory, inputs: Inputs) -> Iterator[Wait]:
    """When to read the Node again."""
    uptime = inputs.uptime
    for name in (THE_ANNOTATION, THE_CONDITION):
        if name in memory.denied:
            yield Wait(memory.denied[name].retry_at, WaitReason.DENIED)
    until = memory.overwritten_until(uptime)
    if until is not None:
        yield Wait(until, WaitReason.READ)
