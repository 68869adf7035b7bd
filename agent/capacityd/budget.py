"""How often what keeps changing is written: pure, from when it was written to when it may be. Times: seconds of uptime.

A few writes in a row are free: a device is plugged, another pulled, one plugged again. After those there is one a
minute. What another writer did is undone no more often than that from the first time on, or two that disagree would
write as fast as they can.
"""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.capacity import Plan
from capacityd.decision import REST

OFTEN = 60.0
"""Seconds of uptime between two writes of a resource that keeps changing."""

BURST = 6
"""Writes of a resource, none of them as long as that times OFTEN ago, that make it one that keeps changing."""

Moments = Mapping[str, tuple[float, ...]]


def not_before(written: Moments) -> dict[str, float]:
    """When each name that keeps changing may be written again. written: when each was, as spent() leaves it."""
    return {name: at[-1] + OFTEN for name, at in written.items() if len(at) == BURST}


def undo_not_before(undone: Mapping[str, float]) -> dict[str, float]:
    """When another writer's change of each name may be undone again. undone: when that last happened."""
    return {name: at + OFTEN for name, at in undone.items()}


def spent(
    plan: Plan, applied: bool, uptime: float, written: Moments, undone: Mapping[str, float]
) -> tuple[dict[str, tuple[float, ...]], dict[str, float]]:
    """written and undone after this plan, without what no longer matters. applied: whether its patch was sent."""
    after = {name: at for name, moments in written.items() if (at := _recent(moments, uptime))}
    undone = {name: at for name, at in undone.items() if uptime - at < OFTEN}
    names = [change.name for change in plan.changes if change.action in ("set", "remove")]
    if applied:
        for name in names or [REST]:
            after[name] = (*after.get(name, ()), uptime)[-BURST:]
        undone |= {name: uptime for name in names if name in plan.undone}
    return after, undone


def _recent(moments: tuple[float, ...], uptime: float) -> tuple[float, ...]:
    return tuple(at for at in moments if uptime - at < BURST * OFTEN)
