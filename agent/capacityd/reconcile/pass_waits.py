"""Why and until when a pass waits after its plan: each cause that may end without an event has a time. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.model.plan import Plan
from capacityd.model.reading import Reading
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile import timing
from capacityd.reconcile.memory import Memory


def waits_after(plan: Plan | None, memory: Memory, readings: Mapping[str, Reading], uptime: float) -> list[Wait]:
    """Returns all waits. plan: the last plan; None: no plan was made. memory: for the next pass."""
    waits = list(plan.waits) if plan else []
    # memory.denied also contains denied changes that this plan does not make, for example to another quantity.
    denied_names = plan.health.denied if plan else ()
    waits += [
        Wait(denial.retry_at, WaitReason.DENIED, name) for name, denial in memory.denied.items() if name in denied_names
    ]
    waits += timing.waits_for_readings(readings, memory.unknown_since, uptime)
    # While allocatable is still reduced, over_at is infinite.
    waits += [
        Wait(less.over_at, WaitReason.ALLOCATABLE)
        for less in memory.less_allocatable.values()
        if less.repeated and not less.is_reduced
    ]
    if memory.device_plugins_unknown_since is not None:
        waits.append(timing.wait_for_device_plugins(memory.device_plugins_unknown_since, uptime))
    if memory.condition_not_stored_since is not None:
        waits.append(timing.wait_for_condition(memory.condition_not_stored_since, uptime))
    if memory.other_agent:
        waits.append(Wait(memory.other_agent.gone_at, WaitReason.OTHER_AGENT))
    if memory.conflict:
        waits.append(Wait(memory.conflict.retry_at, WaitReason.CONFLICT))
    return waits
