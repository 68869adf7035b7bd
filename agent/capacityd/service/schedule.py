"""Decides when the next worker starts, and why. Pure: a function of the events and the last result. Times are in
seconds.

Events are debounced: a pass starts after 0.7 s without an event, but at most ten seconds after the first event. Events
whose source only starts passes that change nothing wait longer (event_rate.py). A failed pass is retried after the
pause that model/pace.py defines, with jitter
(https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection

from capacityd.model.pace import SHORTEST_PAUSE, pause
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.event_rate import UNCHANGED_BURST, EventRate

DEBOUNCE, DEBOUNCE_MAX = 0.7, 10.0
"""A pass starts after this time without an event, and at the latest after this maximum. Pods that wait for a device are
bound that much later."""

PROMPT_DEBOUNCE = 0.1
"""The value of DEBOUNCE if no hardware has to settle: only the Node or the credentials have changed."""

BURST, BURST_PERIOD, BURST_INTERVAL = 6, 60.0, 10.0
"""After BURST passes within BURST_PERIOD seconds that events of one kind have started, the next one starts at least
BURST_INTERVAL seconds after the last one. Another writer may change the Node all the time, and a device with a bad
cable may come and go all the time."""

POLL_PERIOD, POLL_PERIOD_HEALTHY = 60.0, 300.0
"""The period of the passes that look at a Node that can't be watched: while something is wrong or newly written, and
otherwise. The first look follows within POLL_PERIOD seconds after the watch was lost: whatever has ended the watch may
also hide a change of the Node. An API server that restarts ends all watches, so this look has jitter."""

RESYNC_PERIOD = 3600.0
"""The default of the setting resync: the period of the passes without an event."""

_LIMITED = frozenset({*UNCHANGED_BURST, PassReason.FILE, PassReason.NODE})
"""Events to which BURST applies. The other ones are rare, or may end an error."""

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
"""A pause is random: at least this share of the longest pause, which the rule defines."""


class Schedule:
    """The time of the next pass, and its reasons. now is always a monotonic time; uniform(low, high) returns the
    jitter.

    debounce_first: whether the first pass is also debounced, because the machine is still booting.
    """

    def __init__(self, now: float, uniform: Callable[[float, float], float], *, debounce_first: bool = False) -> None:
        self._uniform = uniform
        booted_at = now if debounce_first else now - DEBOUNCE_MAX
        # The events since the last pass: reason -> the times of the first and of the last one.
        self._events: dict[PassReason, tuple[float, float]] = {PassReason.BOOT: (booted_at, booted_at)}
        self._rate = EventRate()
        self._due: dict[PassReason, float] = {PassReason.RESYNC: now + RESYNC_PERIOD}  # passes that need no event
        self._start_at: float | None = None  # no pass before this time (start_jitter)
        self._not_before = -math.inf  # no pass before this time, unless an event ends the wait
        self._asked_until = -math.inf  # when the API server's last Retry-After ends
        self._cause: RetryCause | None = None  # of the last pass; None: it has succeeded
        self._cause_since = 0.0  # when this cause began
        self._passes: dict[PassReason, tuple[float, ...]] = {}  # when events of a kind started the last BURST passes
        self._popped: frozenset[PassReason] = frozenset()  # the reasons for the last pass
        self._popped_at = now  # when it began
        self._period = RESYNC_PERIOD
        self._watched = True  # whether the Node is watched, or need not be
        self._look_at: float | None = None  # when a pass first looks at the Node after the watch was lost
        self._passed_at, self._healthy = now, False  # when a pass last knew the Node, and whether nothing was wrong
        self._check_at: float | None = now  # when the next check of the configuration is due
        self._checked = False  # whether the last check has not been followed by a pass yet

    @property
    def failing(self) -> bool:
        """Whether the last pass has failed."""
        return self._cause is not None

    def request_check(self, at: float) -> None:
        """Requests a check of the configuration at this time."""
        self._check_at = at

    def check_at(self) -> float | None:
        """The time of the next check; None if none is requested, or if the last check's pass comes first.

        So reloads never delay a pass, however many there are.
        """
        pass_pending = self._checked and self._start_at is None
        return None if pass_pending else self._check_at

    def pop_check(self, now: float) -> bool:
        """Whether a check is due. Later requests count for the following check."""
        at = self.check_at()
        if at is None or now < at:
            return False
        self._check_at = None
        return True

    def checked(self, now: float) -> None:
        """A check has ended: a pass with the new configuration comes before the next check."""
        self.notify({PassReason.CONFIG}, now)
        self._checked = True

    def set_resync_period(self, seconds: float, now: float) -> None:
        """Sets the period of the passes without an event."""
        self._period = seconds
        self._due[PassReason.RESYNC] = now + seconds * self._uniform(0.8, 1.2)

    def set_watched(self, now: float, *, watched: bool) -> None:
        """Sets whether the Node is watched. If not, passes look at it."""
        if self._watched and not watched:
            self._look_at = now + self._uniform(POLL_PERIOD * _JITTER, POLL_PERIOD)
        self._watched = watched
        self._due.pop(PassReason.POLL, None)
        if not watched and not self.failing:  # otherwise the retry looks at the Node
            next_at = self._passed_at + (POLL_PERIOD_HEALTHY if self._healthy else POLL_PERIOD)
            self._due[PassReason.POLL] = next_at if self._look_at is None else self._look_at

    def notify(self, reasons: set[PassReason], now: float) -> None:
        """Adds events, each of them a reason for a pass."""
        for reason in reasons:
            first, _ = self._events.get(reason, (now, now))
            self._events[reason] = first, now
        if reasons & _END_WAIT:
            self._not_before = -math.inf
        elif PassReason.NODE in reasons and self._cause not in _NODE_ENDS_NO_WAIT:
            self._not_before = min(self._not_before, self._asked_until)

    def start_in(self, seconds: float, now: float) -> None:
        """Delays the pass that first needs the Node by start_jitter, regardless of earlier events."""
        self._start_at = now + seconds

    def wakes_at(self) -> float:
        """The time of the next pass, unless an event comes first."""
        if self._start_at is not None:
            return self._start_at
        # While the last pass has failed, its retry does what a resync would do.
        due = [at for reason, at in self._due.items() if not (self.failing and reason is PassReason.RESYNC)]
        return max(min([self._events_due_at(), *due]), self._not_before)

    def _events_due_at(self) -> float:
        """When the events start a pass; infinity without events."""
        held = {reason for reason, (_, last) in self._events.items() if last < self._rate.held_until(reason)}
        times = [max(self._rate.held_until(reason), self._debounced({reason})) for reason in held]
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
            at = first + PROMPT_DEBOUNCE
        return max(at, min(self._limited_until(reason, at) for reason in reasons))

    def _limited_until(self, reason: PassReason, at: float) -> float:
        """When events of this kind may start a pass, which would start at this time; minus infinity if they always
        may."""
        times = self._passes.get(reason, ())
        is_limited = len(times) == BURST and at < times[0] + BURST_PERIOD
        return times[-1] + BURST_INTERVAL if is_limited else -math.inf

    def pop_due(self, now: float) -> frozenset[PassReason]:
        """The reasons for a pass if a pass is due, else an empty set. Later events count for the following pass."""
        if now < self.wakes_at():
            return frozenset()
        due = {reason for reason, at in self._due.items() if at <= now}
        due |= {PassReason.START} if self._start_at is not None else set()
        due |= {PassReason.RETRY} if self.failing else set()
        self._popped, self._popped_at = frozenset(self._events.keys() | due), now
        for reason in self._popped & _LIMITED:
            self._passes[reason] = (*self._passes.get(reason, ()), now)[-BURST:]
        self._events = {}
        self._due = {PassReason.RESYNC: self._due[PassReason.RESYNC]}
        self._start_at = None
        self._not_before = -math.inf
        self._checked = False
        return self._popped

    def has_read(self, *, changed: bool) -> None:
        """A pass has read the machine. changed: whether a reading differs from that of the pass before."""
        self._rate.count(self._popped, self._popped_at, changed=changed)

    def succeeded(
        self, now: float, requeue_after: float | None, *, written: bool = False, healthy: bool = False
    ) -> None:
        """A pass has succeeded.

        requeue_after: seconds until the next pass that it requests; None: no request. written: whether it wrote the
        Node. healthy: whether nothing is wrong.
        """
        self._cause = None
        self._requeue(now, requeue_after)
        self._passed_at, self._healthy, self._look_at = now, healthy and not written, None
        self.set_watched(now, watched=self._watched)
        if written or self._popped & _REFRESH:
            self._due[PassReason.RESYNC] = now + self._period * self._uniform(0.8, 1.2)

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
        if cause is not self._cause:
            self._cause, self._cause_since = cause, now
        self._requeue(now, requeue_after)
        self._due.pop(PassReason.POLL, None)
        self._asked_until = now + (retry_after or 0.0)
        longest = pause(cause, now - self._cause_since)
        # The pause is added to Retry-After: an overloaded API server answers "1" each time.
        self._due[PassReason.RETRY] = self._asked_until + self._uniform(longest * _JITTER, longest)
        self._not_before = -math.inf
        if not self._events.keys() & _END_WAIT:  # such an event came during the pass
            self._not_before = self._asked_until + SHORTEST_PAUSE[cause] * _JITTER
            if cause is RetryCause.CONFLICT and requeue_after is not None:  # the pass itself limits its requests
                self._not_before = min(self._not_before, now + requeue_after)

    def _requeue(self, now: float, requeue_after: float | None) -> None:
        if requeue_after is not None:
            self._due[PassReason.REQUEUE] = now + requeue_after


def uniform(low: float, high: float) -> float:
    """A random number from low to high, for the jitter. The module random would take 4 MiB."""
    return low + (high - low) * int.from_bytes(os.urandom(4), "little") / 2**32
