"""Decides when the next worker starts, and why. Times are in seconds.

Events are debounced: a pass starts after 0.7 s without an event, but at most ten seconds after the first event.
event_rate.py says which events wait longer. A failed pass is retried after the pause that model/pace.py defines.

Pauses are random, because all machines of a cluster may lose the API server at the same moment
(https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from capacityd.model.pace import LONGEST_RETRY_AFTER, SHORTEST_PAUSE, pause
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.event_rate import EventRate
from capacityd.service.node_polls import NodePolls

DEBOUNCE = 0.7
DEBOUNCE_MAX = 10.0
"""A pass starts after DEBOUNCE without an event, and at the latest DEBOUNCE_MAX after the first event. These times also
delay a pod that needs a new device."""

PROMPT_DEBOUNCE = 0.1
"""A pass starts this time after the first change of the Node. A Node, unlike a device, needs no time to settle."""

RESYNC_PERIOD = 3600.0  # between two passes without an event, unless the configuration sets another period (resync)

_END_WAIT = frozenset({PassReason.CONFIG, PassReason.RESUME})
"""Events that may end any error, so that the retry starts at once. After other events, the retry still waits for the
shortest pause of the error's cause."""

_REFRESH = frozenset({PassReason.START, PassReason.TIMER})
"""Reasons of the passes that always read the Node, and refresh the condition's heartbeat if it is due."""

_LEAST_SHARE = 2 / 3  # the shortest random pause, as a share of the longest one


class Schedule:
    """The time of the next pass, and its reasons. All points in time are values of time.monotonic().

    uniform: returns a random number from its first to its second argument. debounce_first: whether the first pass is
    also debounced, because the machine is still booting.
    """

    def __init__(self, now: float, uniform: Callable[[float, float], float], *, debounce_first: bool = False) -> None:
        self._uniform = uniform
        started_at = now if debounce_first else now - DEBOUNCE_MAX  # so long ago that the first pass starts at once
        # The events since the last pass: reason -> the times of the first and of the last event.
        self._events: dict[PassReason, tuple[float, float]] = {PassReason.START: (started_at, started_at)}
        self._rate = EventRate()
        self._start_at: float | None = None  # when start_jitter ends; no pass starts earlier
        self._resync_at = now + RESYNC_PERIOD
        self._retry_at = math.inf  # when to retry after an error, or when the pass starts that the last one requested
        self._not_before = -math.inf  # no pass before this time, unless an event ends the wait
        self._retry_after_until = -math.inf  # when the API server's last Retry-After ends
        self._failure_cause: RetryCause | None = None  # why the last pass failed; None: it succeeded
        self._failure_since = 0.0  # when passes began to fail for this cause
        self._pass_reasons: frozenset[PassReason] = frozenset()  # the reasons for the last pass
        self._pass_began = now  # when the last pass began
        self._resync_period = RESYNC_PERIOD
        self._polls = NodePolls(self._jittered)
        self._check_requested_for = now  # the time of the next check of the configuration; infinity: no request

    @property
    def retries_at_report(self) -> bool:
        """Whether any report of the watcher is a reason to try the failed pass again at once.

        False if no pass has failed, and after a conflict, because another writer may change the Node all the time.
        """
        return self._failure_cause not in (None, RetryCause.CONFLICT)

    def request_check(self, at: float) -> None:
        """Requests a check of the configuration at this time."""
        self._check_requested_for = at

    def check_at(self) -> float:
        """The time of the next check; infinity if no check is requested, or if a pass must come first.

        The pass after a check comes before the next check, so that many reloads do not delay the pass. But a check does
        not wait for a pass that waits for start_jitter.
        """
        last_check_awaits_pass = PassReason.CONFIG in self._events
        pass_comes_first = last_check_awaits_pass and self._start_at is None
        return math.inf if pass_comes_first else self._check_requested_for

    def pop_check(self, now: float) -> bool:
        """Returns whether a check is due. If so, clears the request."""
        if now < self.check_at():
            return False
        self._check_requested_for = math.inf
        return True

    def set_resync_period(self, seconds: float, now: float) -> None:
        """Sets the period of the passes without an event."""
        self._resync_period = seconds
        self._plan_resync(now)

    def _plan_resync(self, now: float) -> None:
        self._resync_at = now + self._resync_period * self._uniform(0.8, 1.2)

    def watch_begins(self, now: float) -> None:
        """Plans no poll, because the Node is watched now."""
        self._polls.watch_begins(now)

    def watch_fails(self, now: float, *, look_now: bool) -> None:
        """Plans a poll, because the Node is not watched. look_now: whether the watcher asks for a pass at once."""
        self._polls.watch_fails(now, look_now=look_now)

    def notify(self, reasons: set[PassReason], now: float) -> None:
        """Adds events that have come now. reasons: why these events start a pass."""
        for reason in reasons:
            first, _ = self._events.get(reason, (now, now))
            self._events[reason] = first, now
        if reasons & _END_WAIT:
            self._not_before = -math.inf
        elif PassReason.NODE in reasons and self.retries_at_report:
            self._not_before = min(self._not_before, self._retry_after_until)  # Retry-After still applies

    def delay_start(self, seconds: float, now: float) -> None:
        """Delays the next pass, as start_jitter demands. It is the first pass that needs the Node."""
        self._start_at = now + seconds

    def wakes_at(self) -> float:
        """The time of the next pass, unless an event comes first."""
        if self._start_at is not None:
            return self._start_at
        return max(min(self._events_due_at(), self._timer_at()), self._not_before)

    def _timer_at(self) -> float:
        """When a pass starts without an event."""
        if self._failure_cause:  # the retry does what a resync or a poll would do
            return self._retry_at
        return min(self._retry_at, self._resync_at, self._polls.at)

    def _events_due_at(self) -> float:
        """When the events start a pass; infinity without events."""
        times: list[float] = []
        settling: list[tuple[float, float]] = []  # the times of the first and of the last event of hardware or files
        for reason, (first, last) in self._events.items():
            held_until = self._rate.held_until(reason)
            if last < held_until:  # these events must not delay events of other kinds
                times.append(held_until)
            elif reason is PassReason.NODE:
                times.append(first + PROMPT_DEBOUNCE)
            else:
                settling.append((first, last))
        if settling:
            first, last = min(first for first, _ in settling), max(last for _, last in settling)
            times.append(min(last + DEBOUNCE, first + DEBOUNCE_MAX))
        return min(times, default=math.inf)

    def pop_due(self, now: float) -> frozenset[PassReason]:
        """Returns the reasons for a pass, and clears them; an empty set if no pass is due."""
        if now < self.wakes_at():
            return frozenset()
        reasons = set(self._events)
        if self._start_at is not None:
            reasons.add(PassReason.START)
        if self._timer_at() <= now:
            reasons.add(PassReason.TIMER)
        self._pass_reasons = frozenset(reasons)
        self._pass_began = now
        self._rate.count(reasons, now)
        self._events = {}
        self._start_at = None
        self._retry_at = math.inf  # succeeded() or failed() sets it again
        self._not_before = -math.inf
        return self._pass_reasons

    def count_reading(self, *, changed: bool) -> None:
        """Counts a pass that has read the machine. changed: whether a reading differs from the previous pass."""
        if not changed:
            self._rate.count_unchanged(self._pass_reasons, self._pass_began)

    def succeeded(self, now: float, requeue_after: float | None, *, written: bool = False) -> None:
        """Plans the next passes after a successful one.

        requeue_after: seconds until the pass that the last pass requests; None: no request. written: whether the last
        pass wrote the Node.
        """
        self._failure_cause = None
        if requeue_after is not None:
            self._retry_at = now + requeue_after
        self._polls.looked(now)
        if written or self._pass_reasons & _REFRESH:
            self._plan_resync(now)

    def failed(self, now: float, retry_after: float = 0.0, cause: RetryCause = RetryCause.OTHER) -> None:
        """Plans the retry of a failed pass. retry_after: the API server's Retry-After in seconds."""
        if cause is not self._failure_cause:
            self._failure_cause = cause
            self._failure_since = now
        self._polls.looked(now)
        self._retry_after_until = now + min(retry_after, LONGEST_RETRY_AFTER)
        # The pause is added to Retry-After, because an overloaded API server always sends "1".
        longest = pause(cause, wrong_for=now - self._failure_since)
        self._retry_at = self._retry_after_until + self._jittered(longest)
        if self._events.keys() & _END_WAIT:  # an event that ends the wait came during the pass
            self._not_before = -math.inf
            return
        self._not_before = self._retry_after_until + SHORTEST_PAUSE[cause] * _LEAST_SHARE

    def _jittered(self, longest: float) -> float:
        return self._uniform(longest * _LEAST_SHARE, longest)


def uniform(low: float, high: float) -> float:
    """A random number from low to high. The module random would take 4 MiB of memory."""
    return low + (high - low) * int.from_bytes(os.urandom(4), "little") / 2**32
