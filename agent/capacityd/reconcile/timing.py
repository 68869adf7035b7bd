"""All limits and pauses of a pass: from events and their times to the time of the next action. Pure.

Times are seconds of uptime, unless a docstring says otherwise. No pause depends on the number of passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.waits import Wait, WaitReason

MIN_INTERVAL = 60.0
"""Seconds between two writes of a rate-limited resource, and between two attempts while conflicts continue."""

BURST = 6
"""A resource with this many writes within BURST * MIN_INTERVAL seconds is rate limited. This leaves room for a few
writes in a row: a user plugs in a device, pulls another, and plugs it in again. After them, there is one write a
minute, even if another writer keeps changing the value."""

_UNKNOWN_PAUSE, _UNKNOWN_PAUSE_MAX = 60.0, 3600.0
"""Seconds between two reads of an unknown resource: the first pause, and the longest."""

_AT_BOOT = 600.0
"""Seconds of uptime during which no pause is longer than _UNKNOWN_PAUSE: drivers, routes and mounts still appear."""

_DENIED_PAUSE, _DENIED_PAUSE_FACTOR, _DENIED_PAUSE_MAX = 60.0, 4.0, 3600.0
"""Seconds until a denied change is tried again: the first pause, the growth factor, and the longest pause."""

VERIFY_AFTER = 15.0
"""Seconds after a write until the Node is read again: a kubelet reports every 10 s and may overwrite allocatable."""

VERIFY_PERIOD = 45.0
"""Seconds between reads of the Node while allocatable is less than what is published and the pass does not write it."""

WRITES_REJECTED_AFTER = 60.0
"""Seconds after which writes that fail with a server error, while reads succeed, count as rejected.

While the API server starts, such errors end within seconds. If they last longer, the API server rejects the content,
for example because the Node is too large for etcd."""

_SETTLE_PAUSE_MAX, _SETTLE_MAX = 8.0, 300.0
"""After a kubelet's restart: the longest pause between reads of the Node, and for how long they continue, in
seconds."""


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """Times of the last BURST writes to a Node."""

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
        """The times without outdated ones."""
        resources = {n: recent for n, times in self.resources.items() if (recent := _recent(times, uptime))}
        return WriteTimes(resources, _recent(self.metadata, uptime))

    def wait_for(self, name: str) -> Wait:
        """The time until which this name is rate limited; it may be over. "": the condition and the annotations."""
        times = self.resources.get(name, ()) if name else self.metadata
        return Wait(times[-1] + MIN_INTERVAL if len(times) == BURST else 0.0, WaitReason.RATE_LIMIT, name)


@dataclass(frozen=True, slots=True)
class Denial:
    """A change that the API server denies. A change to another quantity is not affected."""

    reason: str
    desired: int | None
    """The denied quantity; None: the API server denies the removal."""
    retry_at: float
    """When the change is tried again."""
    attempts: int = 1

    def holds(self, desired: int | None, uptime: float) -> bool:
        """Whether a change to this quantity (None: a removal) must wait."""
        return desired == self.desired and uptime < self.retry_at


@dataclass(frozen=True, slots=True)
class Kubelet:
    """The state of the kubelet, as of the last pass that read the Node."""

    started_at: float | None = None
    """When the kubelet started, in seconds since the epoch; None: it has not started."""
    settling_since: float | None = None
    """Since when the kubelet may reset capacity to zero, because it has restarted; None: it no longer does."""


def after_read(last: Kubelet, started_at: float | None, heartbeat: float | None, uptime: float) -> Kubelet:
    """The state of the kubelet after the Node was read.

    started_at: when the kubelet started. heartbeat: the heartbeat of the Node's Ready condition. Both are in seconds
    since the epoch. The kubelet decides whether to reset capacity before its socket appears, but may write much later.
    Its first heartbeat follows this write, in whole seconds. If no heartbeat comes (a kubelet that hangs, a clock that
    was set back), the wait ends after _SETTLE_MAX and does not start again.
    """
    if started_at is None or heartbeat is None or heartbeat >= int(started_at):
        return Kubelet(started_at)
    since = uptime if started_at != last.started_at else last.settling_since
    return Kubelet(started_at, since if since is not None and 0 <= uptime - since < _SETTLE_MAX else None)


def wait_for_kubelet(kubelet: Kubelet, uptime: float) -> Wait | None:
    """When to read the Node again after a kubelet's restart: after 1, 3, 7, 15 and 23 s, and so on."""
    if kubelet.settling_since is None:
        return None
    pause = min(_SETTLE_PAUSE_MAX, max(0.0, uptime - kubelet.settling_since) + 1.0)
    return Wait(uptime + pause, WaitReason.KUBELET)


def wait_for_unknown(name: str, unknown_since: float, uptime: float) -> Wait:
    """When to read an unknown resource again, because there may be no event when it becomes readable.

    The times depend only on unknown_since, so neither another resource's event nor a failed pass delays a read: 60,
    120, 240 s and so on after unknown_since, with pauses that double up to an hour. Soon after boot, there is a read a
    minute.
    """
    at, pause = unknown_since + _UNKNOWN_PAUSE, _UNKNOWN_PAUSE
    while at <= uptime:
        at, pause = at + pause, min(2.0 * pause, _UNKNOWN_PAUSE_MAX)
    return Wait(min(at, uptime + _UNKNOWN_PAUSE) if uptime < _AT_BOOT else at, WaitReason.UNKNOWN, name)


def pause_after_denials(attempts: int) -> float:
    """Seconds until the next try of a change that was denied this many times."""
    return min(_DENIED_PAUSE * _DENIED_PAUSE_FACTOR ** min(attempts - 1, 10), _DENIED_PAUSE_MAX)


def denial(last: Denial | None, desired: int | None, reason: str, uptime: float) -> Denial:
    """What to remember of a change that was just denied. last: the name's previous denial."""
    attempts = last.attempts + 1 if last and last.desired == desired else 1
    return Denial(reason, desired, uptime + pause_after_denials(attempts), attempts)


def _recent(times: tuple[float, ...], uptime: float) -> tuple[float, ...]:
    """Drops outdated times, and times in the future: they come from a restored snapshot of the machine."""
    return tuple(at for at in times if 0 <= uptime - at < BURST * MIN_INTERVAL)
