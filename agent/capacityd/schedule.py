"""When to look again, and why: pure, from what was heard and what the last look said to the next moment. In seconds.

Events settle first (until quiet for a second, at most ten), then there is one look for all of them. What a look could
not do is tried again with full jitter (https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would stay in the service's memory
if TYPE_CHECKING:
    from collections.abc import Callable

QUIET, LONGEST = 1.0, 10.0
"""How long events must be quiet, and the longest that a look waits for that."""

RECHECK = 3600.0
BOOTING = 180.0
"""Seconds of uptime in which drivers and devices may still come up."""

EAGER = 120.0
"""How long after trouble began it is tried again within EAGER_PAUSE: a machine that boots has its API server soon."""
EAGER_PAUSE, PAUSE = 4.0, 60.0

_HOPEFUL = frozenset({"kubelet", "credentials", "config", "resume"})
"""Reasons that may end a trouble, so that they don't wait for its pause."""


class Schedule:
    """The moments. now is always a monotonic time; uniform(low, high) draws the jitter.

    settle: whether the first look waits for quiet too, because the machine still boots; else it waits for nothing.
    """

    __slots__ = (
        *("_again", "_eager_until", "_every", "_failures", "_first", "_last", "_reasons", "_recheck", "_retry"),
        *("_start", "_uniform"),
    )

    def __init__(self, now: float, uniform: Callable[[float, float], float], settle: bool = False) -> None:
        self._uniform = uniform
        self._reasons: set[str] = {"boot"}
        self._first = self._last = now if settle else now - LONGEST
        self._again: float | None = None  # a look that the last one asked for
        self._retry: float | None = None  # not before that, because of a trouble
        self._failures = 0
        self._start: float | None = None  # nothing before that, as the first look has asked for
        self._eager_until = 0.0
        self._every = RECHECK
        self._recheck = now + RECHECK

    def recheck_every(self, seconds: float, now: float) -> None:
        """How often to look although nothing was heard."""
        self._every = seconds
        self._recheck = now + seconds * self._uniform(0.8, 1.2)

    def hear(self, reasons: set[str], now: float) -> None:
        """Something happened."""
        if not reasons:
            return
        if not self._reasons:
            self._first = now
        self._last = now
        self._reasons |= reasons
        if reasons & _HOPEFUL:
            self._retry = None

    def start_in(self, seconds: float, now: float) -> None:
        """The first look has only probed; the Node is asked after so long, whatever is heard until then."""
        self._start = now + seconds

    def wakes_at(self) -> float:
        """The moment of the next look, unless something is heard before."""
        if self._start is not None:
            return self._start
        moments = [self._recheck]
        if self._again is not None:
            moments.append(self._again)
        if self._reasons:
            moments.append(min(self._last + QUIET, self._first + LONGEST))
        elif self._retry is not None:
            moments.append(self._retry)
        return max(min(moments), self._retry or 0.0)

    def take(self, now: float) -> set[str]:
        """The reasons for a look now; none if it isn't time. What is heard from now on is for the look after it."""
        if now < self.wakes_at():
            return set()
        reasons = self._reasons
        if self._again is not None and now >= self._again:
            reasons = reasons | {"due"}
        if self._start is not None:
            reasons = reasons | {"start"}
        if self._failures:
            reasons = reasons | {"retry"}
        if now >= self._recheck:
            reasons = reasons | {"recheck"}
        self._reasons = set()
        self._again = self._retry = self._start = None
        return reasons

    def succeeded(self, now: float, again_in: float | None, asked: bool = True) -> None:
        """The look could do all that it wanted. again_in: when it wants the next one.

        asked: whether it asked the Node. Looks that did not, however many, put no re-check off.
        """
        self._failures = 0
        self._again = None if again_in is None else now + again_in
        if asked:
            self._recheck = now + self._every * self._uniform(0.8, 1.2)

    def failed(self, now: float, retry_after: float | None) -> None:
        """The look could not do what it wanted. retry_after: how long the API server asks to wait."""
        if not self._failures:
            self._eager_until = now + EAGER
        self._failures += 1
        most = EAGER_PAUSE if now < self._eager_until else PAUSE
        pause = self._uniform(0.0, min(most, 0.5 * 2.0 ** min(self._failures, 10)))
        # An API server that has too much to do says "1" to all, again and again; so the pauses grow on top of it.
        self._retry = now + pause + (retry_after or 0.0)
