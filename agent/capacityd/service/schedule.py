"""Decides when the next worker starts, and why. Pure: a function of the events and the last result. Times are in
seconds.

Events are debounced: a pass starts after 0.7 s without an event, but at most ten seconds after the first event. Events
wait longer if their source has only started passes that changed nothing (event_rate.py). A failed pass is retried after
the pause that model/pace.py defines, with jitter
(https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection

from capacityd.model.pace import SHORTEST_PAUSE, pause
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.event_rate import BurstLimit, EventRate

DEBOUNCE = 0.7
DEBOUNCE_MAX = 10.0
"""A pass starts after this time without an event, and at the latest after this maximum. Pods that wait for a device are
bound that much later."""

PROMPT_DEBOUNCE = 0.1
"""The value of DEBOUNCE if no hardware has to settle: only the Node or the credentials have changed."""

POLL_PERIOD = 60.0
POLL_PERIOD_HEALTHY = 300.0
"""The period of the passes that look at a Node that can't be watched. The longer one applies if the last pass wrote
nothing and nothing is wrong. Once the watch is lost, the first look follows within POLL_PERIOD seconds: what has ended
the watch may hide a change of the Node. It has jitter: an API server that restarts ends all watches."""

RESYNC_PERIOD = 3600.0
"""The default of the setting resync: the period of the passes without an event."""

_PROMPT = frozenset({PassReason.CREDENTIALS, PassReason.NODE})
"""Events to which PROMPT_DEBOUNCE applies."""

_END_WAIT = frozenset({PassReason.CREDENTIALS, PassReason.CONFIG, PassReason.RESUME, PassReason.CLOCK})
"""Events that may end any error: the next pass does not wait. Other events wait for the cause's shortest pause."""

_NODE_ENDS_NO_WAIT = frozenset({RetryCause.REJECTED, RetryCause.CONFLICT})
"""Errors that stay although the Node changes: another writer may change it all the time. Any other error may have ended
if the Node has changed or is watched again: it was missing, or the API server was unreachable."""

_REFRESH = frozenset({PassReason.BOOT, PassReason.START, PassReason.RESYNC})
"""Passes that refresh the condition's heartbeat."""

_JITTER = 2 / 3
"""A pause is random: at least this share of the longest one, which model/pace.py or POLL_PERIOD defines."""


class Schedule:
    """The time of the next pass, and its reasons. now is always a time of time.monotonic().

    uniform: returns a random number from its first argument to its second one, for the jitter. debounce_first: whether
    the first pass is also debounced, because the machine is still booting.
    """

    def __init__(self, now: float, uniform: Callable[[float, float], float], *, debounce_first: bool = False) -> None:
        self._uniform = uniform
        booted_at = now if debounce_first else now - DEBOUNCE_MAX
        # The events since the last pass: reason -> the times of the first and of the last one.
        self._events: dict[PassReason, tuple[float, float]] = {PassReason.BOOT: (booted_at, booted_at)}
        self._unchanged_rate = EventRate()
        self._bursts = BurstLimit()
        # Passes that start at a time, without an event: reason -> this time.
        self._timed: dict[PassReason, float] = {PassReason.RESYNC: now + RESYNC_PERIOD}
        self._start_at: float | None = None  # no pass before this time (start_jitter)
        self._not_before = -math.inf  # no pass before this time, unless an event ends the wait
        self._retry_after_until = -math.inf  # when the API server's last Retry-After ends
        self._failure_cause: RetryCause | None = None  # of the last pass; None: it has succeeded
        self._failure_since = 0.0  # when passes began to fail for this cause
        self._pass_reasons: frozenset[PassReason] = frozenset()  # of the last pass
        self._pass_began = now  # when the last pass began
        self._resync_period = RESYNC_PERIOD
        self._is_watched = True  # whether the Node is watched, or need not be
        self._first_look_at: float | None = None  # of a pass, after the watch was lost; None: one has looked
        self._knew_node_at = now  # when a pass last ended
        self._was_healthy = False  # whether that pass wrote nothing, and nothing was wrong
        self._check_at: float | None = now  # when the next check of the configuration is due; None: not requested
        self._pass_follows_check = False  # whether a check has ended, and its pass has not started yet

    @property
    def failing(self) -> bool:
        """Whether the last pass has failed."""
        return self._failure_cause is not None

    def request_check(self, at: float) -> None:
        """Requests a check of the configuration at this time."""
        self._check_at = at

    def check_at(self) -> float | None:
        """The time of the next check; None if none is requested, or if the last check's pass comes first.

        So reloads never delay a pass, however many there are. A pass that waits for start_jitter delays no check.
        """
        pass_comes_first = self._pass_follows_check and self._start_at is None
        return None if pass_comes_first else self._check_at

    def pop_check(self, now: float) -> bool:
        """Whether a check is due; it starts now. Later requests count for the following check."""
        at = self.check_at()
        if at is None or now < at:
            return False
        self._check_at = None
        return True

    def checked(self, now: float) -> None:
        """A check has ended: a pass with the new configuration comes before the next check."""
        self.notify({PassReason.CONFIG}, now)
        self._pass_follows_check = True

    def set_resync_period(self, seconds: float, now: float) -> None:
        """Sets the period of the passes without an event."""
        self._resync_period = seconds
        self._plan_resync(now)

    def _plan_resync(self, now: float) -> None:
        self._timed[PassReason.RESYNC] = now + self._resync_period * self._uniform(0.8, 1.2)

    def set_watched(self, now: float, *, watched: bool) -> None:
        """Sets whether the Node is watched. If not, passes look at it from time to time."""
        if self._is_watched and not watched:
            self._first_look_at = now + self._uniform(POLL_PERIOD * _JITTER, POLL_PERIOD)
        self._is_watched = watched
        self._timed.pop(PassReason.POLL, None)
        if not watched and self._failure_cause in (None, RetryCause.STATE):  # else the retry looks at the Node
            period = POLL_PERIOD_HEALTHY if self._was_healthy else POLL_PERIOD
            self._timed[PassReason.POLL] = self._first_look_at or self._knew_node_at + period

    def notify(self, reasons: set[PassReason], now: float) -> None:
        """Adds events that came now: each is a reason for a pass."""
        for reason in reasons:
            first, _ = self._events.get(reason, (now, now))
            self._events[reason] = first, now
        if reasons & _END_WAIT:
            self._not_before = -math.inf
        elif PassReason.NODE in reasons and self._failure_cause not in _NODE_ENDS_NO_WAIT:
            self._not_before = min(self._not_before, self._retry_after_until)

    def start_in(self, seconds: float, now: float) -> None:
        """Delays the pass that first needs the Node by start_jitter, regardless of earlier events."""
        self._start_at = now + seconds

    def wakes_at(self) -> float:
        """The time of the next pass, unless an event comes first."""
        if self._start_at is not None:
            return self._start_at
        # While the last pass has failed, its retry does what a resync would do.
        timed = [at for reason, at in self._timed.items() if not (self.failing and reason is PassReason.RESYNC)]
        return max(min([self._events_due_at(), *timed]), self._not_before)

    def _events_due_at(self) -> float:
        """When the events start a pass; infinity without events."""
        # Events wait if their source has only started passes that changed nothing (event_rate.py).
        held = {reason for reason, (_, last) in self._events.items() if last < self._unchanged_rate.held_until(reason)}
        times = [max(self._unchanged_rate.held_until(reason), self._debounced({reason})) for reason in held]
        if prompt := self._events.keys() - held:
            times.append(self._debounced(prompt))
        return min(times, default=math.inf)

    def _debounced(self, reasons: Collection[PassReason]) -> float:
        """When the events of these reasons have been debounced."""
        first = min(self._events[reason][0] for reason in reasons)
        last = max(self._events[reason][1] for reason in reasons)
        debounce = PROMPT_DEBOUNCE if _PROMPT.issuperset(reasons) else DEBOUNCE
        at = min(last + debounce, first + DEBOUNCE_MAX)
        if reasons == {PassReason.NODE}:
            at = first + PROMPT_DEBOUNCE  # later changes of the Node do not delay the pass
        unlimited_from = min(self._bursts.held_until(reason, at) for reason in reasons)  # one reason suffices
        return max(at, unlimited_from)

    def pop_due(self, now: float) -> frozenset[PassReason]:
        """The reasons for a pass, if one is due; otherwise none. Later events count for the following pass."""
        if now < self.wakes_at():
            return frozenset()
        reasons = self._events.keys() | {reason for reason, at in self._timed.items() if at <= now}
        if self._start_at is not None:
            reasons.add(PassReason.START)
        if self.failing:
            reasons.add(PassReason.RETRY)
        self._pass_reasons = frozenset(reasons)
        self._pass_began = now
        self._bursts.count(reasons, now)
        self._events = {}
        self._timed = {PassReason.RESYNC: self._timed[PassReason.RESYNC]}
        self._start_at = None
        self._not_before = -math.inf
        self._pass_follows_check = False
        return self._pass_reasons

    def has_read(self, *, changed: bool) -> None:
        """A pass has read the machine. changed: whether a reading differs from that of the pass before."""
        self._unchanged_rate.count(self._pass_reasons, self._pass_began, changed=changed)

    def succeeded(
        self, now: float, requeue_after: float | None, *, written: bool = False, healthy: bool = False
    ) -> None:
        """A pass has succeeded.

        requeue_after: seconds until the next pass that it requests; None: no request. written: whether it wrote the
        Node. healthy: whether nothing is wrong.
        """
        self._failure_cause = None
        self._requeue(now, requeue_after)
        self._knew_node_at = now
        self._was_healthy = healthy and not written
        self._first_look_at = None
        self.set_watched(now, watched=self._is_watched)  # plans the next look at the Node
        if written or self._pass_reasons & _REFRESH:
            self._plan_resync(now)

    def failed(
        self,
        now: float,
        retry_after: float | None,
        cause: RetryCause = RetryCause.OTHER,
        requeue_after: float | None = None,
    ) -> None:
        """A pass has failed.

        retry_after: the API server's Retry-After, in seconds. requeue_after: as in succeeded().
        """
        if cause is not self._failure_cause:
            self._failure_cause = cause
            self._failure_since = now
        self._requeue(now, requeue_after)
        self._knew_node_at, self._was_healthy, self._first_look_at = now, False, None
        self.set_watched(now, watched=self._is_watched)  # while a disk is full, passes still look at the Node
        self._retry_after_until = now + (retry_after or 0.0)
        longest = pause(cause, wrong_for=now - self._failure_since)
        # The pause is added to Retry-After: an overloaded API server answers "1" each time.
        self._timed[PassReason.RETRY] = self._retry_after_until + self._uniform(longest * _JITTER, longest)
        if self._events.keys() & _END_WAIT:  # such an event came during the pass
            self._not_before = -math.inf
            return
        self._not_before = self._retry_after_until + SHORTEST_PAUSE[cause] * _JITTER
        if cause is RetryCause.CONFLICT and requeue_after is not None:  # the pass itself limits its requests
            self._not_before = min(self._not_before, now + requeue_after)

    def _requeue(self, now: float, requeue_after: float | None) -> None:
        if requeue_after is not None:
            self._timed[PassReason.REQUEUE] = now + requeue_after


def uniform(low: float, high: float) -> float:
    """A random number from low to high, for the jitter. The module random would take 4 MiB."""
    return low + (high - low) * int.from_bytes(os.urandom(4), "little") / 2**32
