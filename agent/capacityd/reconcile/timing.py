"""All limits and pauses of a pass: from events and their times to the time of the next action. Pure.

Times are seconds of uptime, unless a docstring says otherwise. A pause is a tenth of the time for which something has
been wrong, within bounds (model/pace.py). It does not depend on the number of passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.other_agent import WRITE_INTERVAL
from capacityd.model.pace import LONGEST_PAUSE, pause
from capacityd.model.reading import Quantity, Reading
from capacityd.model.reasons import RetryCause
from capacityd.model.waits import Wait, WaitReason

MIN_INTERVAL = 60.0
"""Seconds between two writes of a rate-limited resource."""

BURST = 6
"""A resource with this many writes within BURST * MIN_INTERVAL seconds is rate limited. This leaves room for a few
writes in a row: a user plugs in a device, pulls another, and plugs it in again. After them, there is one write a
minute, even if another writer keeps changing the value."""

_EXPIRY_MARGIN = 1.0
"""Seconds from the end of a source's validity to the next reading, which then certainly finds the source too old."""

REPAIR_LASTS_AFTER = 30.0
"""Seconds after which a repair of allocatable counts as lasting: a kubelet reports every 10 s, and may overwrite it."""

WRITES_REJECTED_AFTER = 60.0
"""Seconds after which writes that fail with a server error, while reads succeed, count as rejected.

While the API server starts, such errors end within seconds. If they last longer, the API server rejects the content,
for example because the Node is too large for etcd."""


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """Times of writes to a Node: of the last BURST writes to each resource, and of the last BURST to metadata alone."""

    resources: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Name -> times of writes to the resource."""
    metadata: tuple[float, ...] = ()
    """Times of writes that changed only the condition or an annotation."""

    def after_write(self, names: tuple[str, ...], uptime: float) -> WriteTimes:
        """The times after a write of these names, without outdated times. No names: only metadata was written."""
        recent = self.recent(uptime)
        if not names:
            return replace(recent, metadata=(*recent.metadata, uptime)[-BURST:])
        written = {name: (*recent.resources.get(name, ()), uptime)[-BURST:] for name in names}
        return replace(recent, resources={**recent.resources, **written})

    def recent(self, uptime: float) -> WriteTimes:
        """Returns the times that still count at this uptime, in seconds."""
        resources = {name: _recent(times, uptime) for name, times in self.resources.items()}
        return WriteTimes({name: times for name, times in resources.items() if times}, _recent(self.metadata, uptime))

    def resource_limit(self, name: str) -> Wait:
        """The rate limit of this resource; its end may have passed."""
        return Wait(_limited_until(self.resources.get(name, ())), WaitReason.RATE_LIMIT, name)

    def metadata_limit(self) -> Wait:
        """The rate limit of the condition and the annotations; its end may have passed."""
        return Wait(_limited_until(self.metadata), WaitReason.RATE_LIMIT)

    def other_agent_limit(self, name: str = "") -> Wait:
        """The limit while another capacityd writes the Node: one write a minute, of quantities or metadata. Its end
        may have passed. name: the resource that waits; "": the condition and the annotations."""
        last_writes = [times[-1] for times in (self.metadata, *self.resources.values()) if times]
        until = max(last_writes) + WRITE_INTERVAL if last_writes else 0.0
        return Wait(until, WaitReason.OTHER_AGENT, name)


@dataclass(frozen=True, slots=True)
class Denial:
    """A change that the API server denies. A change to another quantity is not affected."""

    reason: str
    desired: int | None
    """The denied quantity; None: the API server denies the removal."""
    since: float
    """When the change was first denied."""
    retry_at: float
    """When the change is tried again."""

    def must_wait(self, desired: int | None, uptime: float) -> bool:
        """Whether a change to this quantity (None: a removal) must wait."""
        return desired == self.desired and uptime < self.retry_at

    def without_future(self, uptime: float) -> Denial:
        """This denial at this uptime; due now if its times are from the future: no pause is longer than
        LONGEST_PAUSE."""
        if self.since <= uptime and self.retry_at <= uptime + LONGEST_PAUSE:
            return self
        return replace(self, since=min(self.since, uptime), retry_at=uptime)


def wait_for_unknown(name: str, unknown_since: float, uptime: float) -> Wait:
    """When to read an unknown resource again, because there may be no event when it becomes readable."""
    seconds = pause(RetryCause.UNKNOWN, uptime - unknown_since)
    return Wait(uptime + seconds, WaitReason.UNKNOWN, name)


def wait_for_device_plugins(unknown_since: float, uptime: float) -> Wait:
    """When to read the kubelet's list of device plugins again: there may be no event when it becomes readable."""
    seconds = pause(RetryCause.UNKNOWN, uptime - unknown_since)
    return Wait(uptime + seconds, WaitReason.DEVICE_PLUGINS)


def wait_for_condition(not_stored_since: float, uptime: float) -> Wait:
    """When to write a condition again that the API server did not store: no event says when it would be stored."""
    seconds = pause(RetryCause.REJECTED, uptime - not_stored_since)
    return Wait(uptime + seconds, WaitReason.NOT_STORED)


def waits_for_readings(
    readings: Mapping[str, Reading], unknown_since: Mapping[str, float], uptime: float
) -> Iterator[Wait]:
    """When to read resources again: the unknown ones, and those whose source may be too old by then."""
    for name, reading in readings.items():
        if name in unknown_since:
            yield wait_for_unknown(name, unknown_since[name], uptime)
        elif isinstance(reading, Quantity) and reading.valid_for is not None:
            yield Wait(uptime + reading.valid_for + _EXPIRY_MARGIN, WaitReason.EXPIRY, name)


def next_denial(last: Denial | None, *, desired: int | None, reason: str, uptime: float) -> Denial:
    """What to remember of a change that was just denied. last: the name's previous denial. desired: as in Denial."""
    since = last.since if last and last.desired == desired else uptime
    seconds = pause(RetryCause.REJECTED, uptime - since)
    return Denial(reason, desired, since=since, retry_at=uptime + seconds)


def _limited_until(times: tuple[float, ...]) -> float:
    """The time before which no write may follow; 0.0 if the next write need not wait.

    times: of at most the last BURST writes, without outdated ones.
    """
    return times[-1] + MIN_INTERVAL if len(times) == BURST else 0.0


def _recent(times: tuple[float, ...], uptime: float) -> tuple[float, ...]:
    """Drops outdated times, and times in the future: they come from a restored snapshot of the machine."""
    return tuple(at for at in times if 0 <= uptime - at < BURST * MIN_INTERVAL)
