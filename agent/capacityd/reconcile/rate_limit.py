"""Rate limit for writes. Pure: from past write times to the earliest next write. Times are seconds of uptime.

A few writes in a row are free: a device is plugged, another pulled, one plugged again. Then there is one a minute, also
where another writer changes the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.model.node import Plan
from capacityd.reconcile.plan_input import METADATA_ONLY

MIN_INTERVAL = 60.0
"""Seconds between two writes of a resource that is rate limited."""

BURST = 6
"""A resource that is written this often within BURST * MIN_INTERVAL seconds is rate limited."""

WriteTimes = Mapping[str, tuple[float, ...]]


def not_before(written: WriteTimes) -> dict[str, float]:
    """When each rate-limited name may be written again. written: as record_write() returns it."""
    return {name: at[-1] + MIN_INTERVAL for name, at in written.items() if len(at) == BURST}


def record_write(plan: Plan, applied: bool, uptime: float, written: WriteTimes) -> dict[str, tuple[float, ...]]:
    """written after this plan, without outdated times. applied: whether its patch was sent."""
    after = {name: at for name, moments in written.items() if (at := _recent(moments, uptime))}
    if applied:
        for name in [c.name for c in plan.changes if c.action.writes] or [METADATA_ONLY]:
            after[name] = (*after.get(name, ()), uptime)[-BURST:]
    return after


def _recent(moments: tuple[float, ...], uptime: float) -> tuple[float, ...]:
    return tuple(at for at in moments if uptime - at < BURST * MIN_INTERVAL)
