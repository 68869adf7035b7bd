"""Rate limit for writes. Pure: from past write times to the earliest next write. Times are seconds of uptime.

A few writes in a row are free: a device is plugged, another pulled, one plugged again. Then there is one a minute, also
where another writer changes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.plan import Plan

MIN_INTERVAL = 60.0
"""Seconds between two writes of a resource that is rate limited."""

BURST = 6
"""A resource that is written this often within BURST * MIN_INTERVAL seconds is rate limited."""


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """When a Node was written lately, the last BURST times."""

    resources: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By name."""
    metadata: tuple[float, ...] = ()
    """Writes of the condition or an annotation alone."""


def not_before(write_times: WriteTimes, name: str) -> float:
    """When this name may be written again; 0 if it is not rate limited."""
    return _next_write(write_times.resources.get(name, ()))


def metadata_not_before(write_times: WriteTimes) -> float:
    """When the condition or an annotation may be written again without a resource; 0 if that is not rate limited."""
    return _next_write(write_times.metadata)


def _next_write(times: tuple[float, ...]) -> float:
    return times[-1] + MIN_INTERVAL if len(times) == BURST else 0.0


def recent_writes(write_times: WriteTimes, uptime: float) -> WriteTimes:
    """The same without outdated times."""
    resources = {name: recent for name, times in write_times.resources.items() if (recent := _recent(times, uptime))}
    return WriteTimes(resources, _recent(write_times.metadata, uptime))


def record_write(plan: Plan, write_times: WriteTimes, uptime: float) -> WriteTimes:
    """The write times once the patch of this plan has been sent, without outdated ones."""
    recent = record_attempts(plan.changed_names, write_times, uptime)
    return recent if plan.changed_names else replace(recent, metadata=(*recent.metadata, uptime)[-BURST:])


def record_attempts(names: Iterable[str], write_times: WriteTimes, uptime: float) -> WriteTimes:
    """The write times once a write of these names has been sent, without outdated ones. A denied one counts, too."""
    recent = recent_writes(write_times, uptime)
    added = {name: (*recent.resources.get(name, ()), uptime)[-BURST:] for name in names}
    return replace(recent, resources={**recent.resources, **added})


def _recent(times: tuple[float, ...], uptime: float) -> tuple[float, ...]:
    return tuple(at for at in times if uptime - at < BURST * MIN_INTERVAL)
