"""Decides when the next reconcile pass starts, and why. Times are in seconds.

Events are debounced: a pass starts after 0.7 s without an event, but at most ten seconds after the first event.
event_rate.py says which events wait longer. A failed pass is retried after the pause that model/pace.py defines.

Pauses are random, because all machines of a cluster may lose the API server at the same moment
(https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from capacityd.model.messages import PassResult
from capacityd.model.pace import LONGEST_RETRY_AFTER, MIN_JITTER_FACTOR, SHORTEST_PAUSE, pause_seconds
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.event_rate import EventRate

DEBOUNCE = 0.7
DEBOUNCE_MAX = 10.0
"""A pass starts after DEBOUNCE without an event, and at the latest DEBOUNCE_MAX after the first event. These times also
delay a pod that needs a new device."""

PROMPT_DEBOUNCE = 0.1
"""A pass starts this time after the first change of the Node. A Node, unlike a device, needs no time to settle."""

RESYNC_PERIOD = 3600.0  # between two passes without an event; the configuration's `resync` replaces it

FIRST_POLL = 60.0
POLL_PERIOD = 300.0
"""While the Node is not watched, passes read the Node. The first one starts within FIRST_POLL, because the Node may
just have changed. Then a pass starts in each POLL_PERIOD."""

_RETRY_AT_ONCE = frozenset({PassReason.CONFIG, PassReason.RESUME})
"""These events may end any error, so the retry starts at once. After other events, the retry still waits for the
shortest pause that the error's cause requires."""


class Schedule:
    """The time of the next pass, and its reasons. All points in time are values of time.monotonic().

    uniform: returns a random number from its first to its second argument.
    """

    def __init__(self, now: float, uniform: Callable[[float, float], float]) -> None:
        self.resync_period = RESYNC_PERIOD
        """The period of the passes without an event. A new value counts after the next pass that reads the Node."""
        self._uniform = uniform
        # The events since the last pass: reason -> the time of the first event, and of the last event.
        self._first_event_at: dict[PassReason, float] = {}
        self._last_event_at: dict[PassReason, float] = {}
        self._rate = EventRate()
        self._start_at: float | None = now  # the time of the pass at the start; None after this pass
        self._resync_at = now + RESYNC_PERIOD
        self._poll_at = math.inf  # when a pass must read the Node; infinity while the Node is watched
        self._follow_up_at = math.inf  # when the last pass is retried, or when a pass starts that it has requested
        self._not_before = -math.inf  # no pass before this time, unless an event ends the wait
        self._retry_after_until = -math.inf  # when the API server's last Retry-After ends
        self._failure_cause: RetryCause | None = None  # why the last pass failed; None: it succeeded
        self._failure_since = 0.0  # when passes began to fail for this cause
        self._pass_reasons: frozenset[PassReason] = frozenset()  # the reasons for the last pass
        self._pass_began = now  # when the last pass began

    @property
    def retries_at_report(self) -> bool:
        """Whether any report of the watcher is a reason to try the failed pass again at once.

        False if the last pass has succeeded. Also False after a conflict, because another writer may change the Node
        all the time.
        """
        return self._failure_cause not in (None, RetryCause.CONFLICT)

    def watch_begins(self) -> None:
        """Plans no poll, because the Node is watched now."""
        self._poll_at = math.inf

    def watch_fails(self, now: float, *, look_now: bool) -> None:
        """Plans a poll, because the Node is not watched. look_now: whether a pass must read the Node at once."""
        self._poll_at = min(self._poll_at, now + self._jittered(FIRST_POLL))
        if look_now and self._failure_cause is None:  # the retry of a failed pass reads the Node, too
            self.notify({PassReason.NODE}, now)

    def notify(self, reasons: set[PassReason], now: float) -> None:
        """Adds events that have come now. reasons: why these events start a pass."""
        for reason in reasons:
            self._first_event_at.setdefault(reason, now)
            self._last_event_at[reason] = now
        if reasons & _RETRY_AT_ONCE:
            self._not_before = -math.inf
        elif PassReason.NODE in reasons and self.retries_at_report:
            self._not_before = min(self._not_before, self._retry_after_until)  # Retry-After still applies

    def wakes_at(self) -> float:
        """The time of the next pass, unless an event comes first."""
        if self._start_at is not None:  # no event starts a pass before start_jitter has ended
            return self._start_at
        due_at = min(self._events_due_at(), self._timer_at())
        return max(due_at, self._not_before)

    def _timer_at(self) -> float:
        """When a pass starts without an event."""
        if self._failure_cause:  # the retry does what a resync or a poll would do
            return self._follow_up_at
        return min(self._follow_up_at, self._resync_at, self._poll_at)

    def _events_due_at(self) -> float:
        """When the events start a pass; infinity without events."""
        due_times: list[float] = []
        first_times: list[float] = []  # of events of hardware and files, which need time to settle
        last_times: list[float] = []
        for reason, first in self._first_event_at.items():
            last = self._last_event_at[reason]
            held_until = self._rate.held_until(reason)
            if last < held_until:  # these events must not delay events of other kinds
                due_times.append(held_until)
            elif reason is PassReason.NODE:
                due_times.append(first + PROMPT_DEBOUNCE)
            else:
                first_times.append(first)
                last_times.append(last)
        if first_times:
            debounced_at = max(last_times) + DEBOUNCE
            latest = min(first_times) + DEBOUNCE_MAX
            due_times.append(min(debounced_at, latest))
        return min(due_times, default=math.inf)

    def pop_due(self, now: float) -> frozenset[PassReason]:
        """Returns the reasons for a pass, and clears them; an empty set if no pass is due."""
        if now < self.wakes_at():
            return frozenset()
        reasons = set(self._first_event_at)
        if self._start_at is not None:
            reasons.add(PassReason.START)
        if self._timer_at() <= now:
            reasons.add(PassReason.TIMER)
        self._pass_reasons = frozenset(reasons)
        self._pass_began = now
        self._rate.count_pass(reasons, now)
        self._first_event_at = {}
        self._last_event_at = {}
        self._start_at = None
        self._follow_up_at = math.inf  # end_pass() sets it again
        self._not_before = -math.inf
        return self._pass_reasons

    def end_pass(self, result: PassResult, now: float) -> None:
        """Plans the next passes after a pass that has ended now."""
        if not result.changed:
            self._rate.count_unchanged_pass(self._pass_reasons, self._pass_began)
        is_polling = self._poll_at < math.inf
        if is_polling:
            self._poll_at = now + POLL_PERIOD
        if result.error:
            self._plan_retry(result, now)
            return
        self._failure_cause = None
        if result.node_fingerprint is not None:  # the pass has read the Node, and refreshed a heartbeat that was due
            random_share = self._uniform(0.8, 1.0)
            self._resync_at = now + random_share * self.resync_period
        if result.requeue_after is not None:
            self._follow_up_at = now + result.requeue_after
        if result.start_in is not None:
            self._start_at = now + result.start_in

    def _plan_retry(self, result: PassResult, now: float) -> None:
        """Plans the retry of a failed pass."""
        if result.cause is not self._failure_cause:
            self._failure_cause = result.cause
            self._failure_since = now
        self._retry_after_until = now + min(result.retry_after, LONGEST_RETRY_AFTER)
        # The pause is added to Retry-After, because an overloaded API server always sends "1".
        longest_pause = pause_seconds(result.cause, problem_age=now - self._failure_since)
        self._follow_up_at = self._retry_after_until + self._jittered(longest_pause)
        event_ended_wait = self._first_event_at.keys() & _RETRY_AT_ONCE  # an event that came during the pass
        if not event_ended_wait:
            shortest_pause = SHORTEST_PAUSE[result.cause] * MIN_JITTER_FACTOR
            self._not_before = self._retry_after_until + shortest_pause

    def _jittered(self, longest: float) -> float:
        """A random pause that is at most this long."""
        return self._uniform(longest * MIN_JITTER_FACTOR, longest)


def uniform(low: float, high: float) -> float:
    """A random number from low to high. The module random would take 4 MiB of memory."""
    random_share = int.from_bytes(os.urandom(4), "little") / 2**32  # from 0 to 1
    return low + (high - low) * random_share
