"""All limits and pauses of a pass: from what happened, and when, to when something may be done. Pure.

Times are seconds of uptime, unless a docstring says otherwise. No pause follows a number of passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.waits import Wait, WaitReason

MIN_INTERVAL = 60.0
"""Seconds between two writes of a resource that is rate limited, and between two attempts while conflicts go on."""

BURST = 6
"""A resource that is written this often within BURST * MIN_INTERVAL seconds is rate limited. A few writes in a row are
free: a device is plugged, another pulled, one plugged again. Then there is one a minute, also where another writer
changes the same."""

_UNKNOWN_PAUSE, _UNKNOWN_PAUSE_MAX = 60.0, 3600.0
"""Seconds between two reads of a resource that is unknown: at first, and at most."""

_AT_BOOT = 600.0
"""Seconds of uptime during which _UNKNOWN_PAUSE is the longest pause: drivers, routes and mounts still appear."""

_DENIED_PAUSE, _DENIED_PAUSE_FACTOR, _DENIED_PAUSE_MAX = 60.0, 4.0, 3600.0
"""Seconds until a denied change is tried again: at first, its growth, and at most."""

VERIFY_AFTER = 15.0
"""Seconds after a write when the Node is read again: a kubelet reports each 10 s, and one may overwrite allocatable."""

VERIFY_PERIOD = 45.0
"""Seconds between reads of the Node while allocatable is less than what is published, and is not written."""

_SETTLE_PAUSE_MAX, _SETTLE_MAX = 8.0, 300.0
"""Seconds between reads of the Node while a restarted kubelet may still write, at most; and for how long it may."""


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """When a Node was written lately, the last BURST times."""

    resources: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By name."""
    metadata: tuple[float, ...] = ()
    """Writes of the condition or an annotation alone."""

    def after_write(self, names: tuple[str, ...], uptime: float) -> WriteTimes:
        """The same after a write of these names, without outdated times. No names: of the condition or annotations."""
        recent = self.recent(uptime)
        if not names:
            return replace(recent, metadata=(*recent.metadata, uptime)[-BURST:])
        written = {name: (*recent.resources.get(name, ()), uptime)[-BURST:] for name in names}
        return replace(recent, resources={**recent.resources, **written})

    def recent(self, uptime: float) -> WriteTimes:
        """The same without outdated times."""
        resources = {n: recent for n, times in self.resources.items() if (recent := _recent(times, uptime))}
        return WriteTimes(resources, _recent(self.metadata, uptime))

    def wait_for(self, name: str) -> Wait:
        """Until when this name is rate limited; it may be over. "": the condition and the annotations."""
        times = self.resources.get(name, ()) if name else self.metadata
        return Wait(times[-1] + MIN_INTERVAL if len(times) == BURST else 0.0, WaitReason.RATE_LIMIT, name)


@dataclass(frozen=True, slots=True)
class Denial:
    """A change that the API server denies. A change to another quantity is another matter."""

    reason: str
    desired: int | None
    """The quantity that is denied; None: the removal is."""
    retry_at: float
    """When it is tried again."""
    attempts: int = 1

    def holds(self, desired: int | None, uptime: float) -> bool:
        """Whether a change to this quantity (None: a removal) is not tried now."""
        return desired == self.desired and uptime < self.retry_at


@dataclass(frozen=True, slots=True)
class Kubelet:
    """What the last pass that read the Node knew of the kubelet."""

    started_at: float | None = None
    """When it started, in seconds since the epoch; None: it has not."""
    settling_since: float | None = None
    """Since when it may still reset capacity to zero, because it has restarted; None: that is over."""


def after_read(last: Kubelet, started_at: float | None, heartbeat: float | None, uptime: float) -> Kubelet:
    """What is known of the kubelet after the Node was read. heartbeat: that of its condition Ready.

    Both in seconds since the epoch. The kubelet decides whether it resets capacity before its socket appears, but its
    write may come much later. The heartbeat of the Ready condition comes after it, in whole seconds. A heartbeat that
    never comes (a kubelet that hangs, a clock that was set back) is waited for once.
    """
    if started_at is None or heartbeat is None or heartbeat >= int(started_at):
        return Kubelet(started_at)
    since = uptime if started_at != last.started_at else last.settling_since
    return Kubelet(started_at, since if since is not None and 0 <= uptime - since < _SETTLE_MAX else None)


def wait_for_kubelet(kubelet: Kubelet, uptime: float) -> Wait | None:
    """When to read the Node again because of a kubelet that has restarted: after 1, 3, 7, 15 and 23 s, and so on."""
    if kubelet.settling_since is None:
        return None
    pause = min(_SETTLE_PAUSE_MAX, max(0.0, uptime - kubelet.settling_since) + 1.0)
    return Wait(uptime + pause, WaitReason.KUBELET)


def wait_for_unknown(name: str, unknown_since: float, uptime: float) -> Wait:
    """When a resource that has been unknown since that uptime is read again: no event may announce that it can be read.

    The times depend on nothing else, so neither an event of another resource nor a failed pass delays a read: 60, 120,
    240 s and so on after unknown_since, with pauses that double to an hour. Soon after boot it is read each minute.
    """
    at, pause = unknown_since + _UNKNOWN_PAUSE, _UNKNOWN_PAUSE
    while at <= uptime:
        at, pause = at + pause, min(2.0 * pause, _UNKNOWN_PAUSE_MAX)
    return Wait(min(at, uptime + _UNKNOWN_PAUSE) if uptime < _AT_BOOT else at, WaitReason.UNKNOWN, name)


def pause_after_denials(attempts: int) -> float:
    """Seconds until a change that was denied so many times is tried again."""
    return min(_DENIED_PAUSE * _DENIED_PAUSE_FACTOR ** min(attempts - 1, 10), _DENIED_PAUSE_MAX)


def denial(last: Denial | None, desired: int | None, reason: str, uptime: float) -> Denial:
    """What to remember of a change that has just been denied. last: the denial of the name before."""
    attempts = last.attempts + 1 if last and last.desired == desired else 1
    return Denial(reason, desired, uptime + pause_after_denials(attempts), attempts)


def _recent(times: tuple[float, ...], uptime: float) -> tuple[float, ...]:
    """Without those that are over, and those in the future: a snapshot of the machine was restored."""
    return tuple(at for at in times if 0 <= uptime - at < BURST * MIN_INTERVAL)
