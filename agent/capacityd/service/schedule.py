"""Decides when the next worker starts, and why. Pure: a function of the events and the last result. Times are in
seconds.

Events are debounced: a pass starts after 0.7 s without an event, but at most ten seconds after the first event. A
failed pass is retried with exponential backoff and jitter
(https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/). The pace depends on the cause.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from capacityd.model.reasons import PassReason, RetryCause

DEBOUNCE, DEBOUNCE_MAX = 0.7, 10.0
"""A pass starts after this time without an event, and at the latest after this maximum. Pods that wait for a device are
bound that much later."""

PROMPT_DEBOUNCE = 0.1
"""The value of DEBOUNCE if only credentials have changed: no hardware has to settle."""

RESYNC_PERIOD = 3600.0
"""The default of the setting resync: the period of the passes that read the Node without an event."""

FAST_BACKOFF_MAX = 4.0
"""The longest pause between attempts at first: while a machine boots, its API server is soon reachable."""

BACKOFF_MAX = 90.0
"""The longest pause later. An attempt sends two requests, so with a jitter of a third, that is at most two a minute."""

BACKOFF_FACTOR = 4.0
"""Growth factor of the pause: five attempts in the six minutes after a refusal, then four an hour."""


class Backoff(NamedTuple):
    """The pace at which an error is retried."""

    fast_for: float  # how long FAST_BACKOFF_MAX applies
    first: float  # the first pause after this time
    longest: float


BACKOFFS: dict[RetryCause, Backoff] = {
    RetryCause.UNREACHABLE: Backoff(120.0, BACKOFF_MAX, BACKOFF_MAX),
    RetryCause.MISSING: Backoff(0.0, BACKOFF_MAX, 900.0),  # a worker has already waited for the Node (await_node.py)
    RetryCause.OTHER: Backoff(60.0, BACKOFF_MAX, BACKOFF_MAX),
    RetryCause.STATE: Backoff(0.0, 5.0, BACKOFF_MAX),  # the Node is as desired, but the state could not be saved
    RetryCause.DENIED: Backoff(0.0, 4.0, 900.0),  # an administrator may grant a role or set a clock
    RetryCause.CREDENTIALS: Backoff(0.0, 900.0, 900.0),  # an event reports a change of the files
    RetryCause.CONFLICT: Backoff(0.0, BACKOFF_MAX, 900.0),
    RetryCause.REJECTED: Backoff(0.0, BACKOFF_MAX, 3600.0),
}
"""Cause of an error -> its backoff."""

RESET_BACKOFF_REASONS = frozenset({PassReason.KUBELET, PassReason.CREDENTIALS, PassReason.CONFIG, PassReason.RESUME})
"""Events that may end an error: the next pass does not wait for the backoff."""

_NEW_CONDITIONS = frozenset({PassReason.CREDENTIALS, PassReason.CONFIG})
"""Events after which a remaining error counts as new: its backoff starts over."""

_WRITE_CAUSES = frozenset({RetryCause.CONFLICT, RetryCause.REJECTED})
"""Causes that may not apply to other values: after any event, the service tries again, but only once in BACKOFF_MAX."""

_KEPT_FAILURES = 3  # failures that still count after a kubelet restart or a resume: pauses continue in minutes


class Schedule:
    """The time of the next pass, and its reasons. now is always a monotonic time; uniform(low, high) returns the
    jitter.

    debounce_first: whether the first pass is also debounced, because the machine is still booting.
    """

    def __init__(self, now: float, uniform: Callable[[float, float], float], *, debounce_first: bool = False) -> None:
        self._uniform = uniform
        self._reasons: set[PassReason] = {PassReason.BOOT}
        self._first_event = self._last_event = now if debounce_first else now - DEBOUNCE_MAX
        self._requeue_at: float | None = None  # the last pass asked for another one at this time
        self._retry_at: float | None = None  # no pass before this time (backoff)
        self._awaits_node = False  # whether a worker waits for the Node until the retry
        self._start_at: float | None = None  # no pass before this time (start_jitter)
        self._failures = 0  # consecutive failures
        self._cause: RetryCause | None = None  # cause of the last failure
        self._streak = 0  # consecutive failures with that cause
        self._failed_since = self._failed_at = 0.0  # times of the first and the last consecutive failure
        self._period = RESYNC_PERIOD
        self._resync_at = now + RESYNC_PERIOD
        self._check_at: float | None = now  # when the next check of the configuration is due
        self._checked = False  # whether the last check has not been followed by a pass yet

    def request_check(self, at: float) -> None:
        """Requests a check of the configuration at this time."""
        self._check_at = at

    def check_at(self) -> float | None:
        """The time of the next check; None if none is requested, or if the last check's pass comes first.

        So reloads never delay a pass, however many there are.
        """
        pass_pending = self._checked and bool(self._reasons) and self._start_at is None and self._retry_at is None
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
        """Sets the period of the passes that read the Node without an event."""
        self._period = seconds
        self._resync_at = now + seconds * self._uniform(0.8, 1.2)

    def notify(self, reasons: set[PassReason], now: float) -> None:
        """Adds events, each of them a reason for a pass."""
        if not reasons:
            return
        if not self._reasons:
            self._first_event = now
        self._last_event = now
        self._reasons |= reasons
        if reasons & (RESET_BACKOFF_REASONS - ({PassReason.KUBELET} if self._awaits_node else set())):
            self._retry_at = None
            self._streak = 0 if reasons & _NEW_CONDITIONS else min(self._streak, _KEPT_FAILURES)
        elif self._retry_at is not None and self._cause in _WRITE_CAUSES:
            self._retry_at = min(self._retry_at, max(now, self._failed_at + BACKOFF_MAX))

    def start_in(self, seconds: float, now: float) -> None:
        """Delays the pass that first reads the Node by start_jitter, regardless of earlier events."""
        self._start_at = now + seconds

    def postpone(self, seconds: float) -> None:
        """Delays the retry: until then, the failed pass's worker waits for the kubelet to register the Node."""
        if self._retry_at is not None:
            self._retry_at += seconds
            self._awaits_node = True

    def stop_awaiting_node(self) -> None:
        """The worker that waited for the Node runs a pass, which covers what the kubelet has done."""
        self._awaits_node = False
        self._reasons.discard(PassReason.KUBELET)

    def wakes_at(self) -> float:
        """The time of the next pass, unless an event comes first."""
        if self._start_at is not None:
            return self._start_at
        times = [self._resync_at]
        if self._requeue_at is not None:
            times.append(self._requeue_at)
        if self._reasons:
            debounce = PROMPT_DEBOUNCE if self._reasons == {PassReason.CREDENTIALS} else DEBOUNCE
            times.append(min(self._last_event + debounce, self._first_event + DEBOUNCE_MAX))
        elif self._retry_at is not None:
            times.append(self._retry_at)
        return max(min(times), self._retry_at or 0.0)

    def pop_due(self, now: float) -> set[PassReason]:
        """The reasons for a pass if a pass is due, else an empty set. Later events count for the following pass."""
        if now < self.wakes_at():
            return set()
        self._checked = False
        reasons = self._reasons
        if self._requeue_at is not None and now >= self._requeue_at:
            reasons = reasons | {PassReason.REQUEUE}
        if self._start_at is not None:
            reasons = reasons | {PassReason.START}
        if self._failures:
            reasons = reasons | {PassReason.RETRY}
        if now >= self._resync_at:
            reasons = reasons | {PassReason.RESYNC}
        self._reasons = set()
        self._requeue_at = self._retry_at = self._start_at = None
        self._awaits_node = False
        return reasons

    def succeeded(self, now: float, requeue_after: float | None, *, node_read: bool = True) -> None:
        """A pass has succeeded. requeue_after: seconds until the next pass that it requests; None: no request.

        node_read: whether the pass read the Node. Passes that did not never delay the resync, however many there are.
        """
        self._failures = 0
        self._retry_at = None
        self._requeue_at = None if requeue_after is None else now + requeue_after
        if node_read:
            self._resync_at = now + self._period * self._uniform(0.8, 1.2)

    def failed(
        self,
        now: float,
        retry_after: float | None,
        cause: RetryCause = RetryCause.OTHER,
        requeue_after: float | None = None,
    ) -> None:
        """A pass has failed. retry_after: the API server's Retry-After, in seconds.

        requeue_after: as in succeeded(). Like an event, it comes before the retry if it may end the error.
        """
        backoff = BACKOFFS[cause]
        if not self._failures:
            self._failed_since = now
        self._failures += 1
        self._streak = self._streak + 1 if cause == self._cause else 1
        self._cause, self._failed_at = cause, now
        if now < self._failed_since + backoff.fast_for:
            pause = self._uniform(0.0, min(FAST_BACKOFF_MAX, 0.5 * 2.0 ** min(self._failures, 10)))
        else:
            longest = min(backoff.longest, backoff.first * BACKOFF_FACTOR ** min(self._streak - 1, 20))
            pause = self._uniform(longest * 2 / 3, longest)
        # If an event came during the pass and may end the error, there is no backoff. Otherwise the backoff is added to
        # Retry-After: an overloaded API server answers "1" each time.
        self._retry_at = None if self._reasons & RESET_BACKOFF_REASONS else now + pause + (retry_after or 0.0)
        if self._retry_at is not None and requeue_after is not None and cause in _WRITE_CAUSES:
            self._retry_at = min(self._retry_at, now + max(requeue_after, BACKOFF_MAX))


def uniform(low: float, high: float) -> float:
    """A random number from low to high, for the jitter. The module random would take 4 MiB."""
    return low + (high - low) * int.from_bytes(os.urandom(4), "little") / 2**32
