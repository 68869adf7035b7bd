"""When a pass reads a Node that is not watched. Times are in seconds, from time.monotonic()."""

from __future__ import annotations

import math
from collections.abc import Callable

from capacityd.model.pace import pause
from capacityd.model.reasons import RetryCause

FIRST_POLL = 60.0
POLL_PERIOD = 300.0
"""While the Node is not watched, passes read it. The first pass starts within FIRST_POLL, because the Node may just
have changed. Then a pass starts in each POLL_PERIOD. A watch that lasts less than FIRST_POLL counts as failed."""


class NodePolls:
    """The time of the next poll. jittered: returns a random pause that is at most as long as its argument."""

    def __init__(self, jittered: Callable[[float], float]) -> None:
        self._jittered = jittered
        self.at = math.inf
        """When a pass must read the Node; infinity if no poll is planned."""
        self._watched_since: float | None = None  # None: the Node is not watched
        self._trouble_since: float | None = None  # when the current series of failures began; None: no failure yet
        self._looked_at = -math.inf  # when a pass last read the Node while it was not watched

    def watch_begins(self, now: float) -> None:
        """Plans no poll, because the Node is watched now."""
        if self._watched_since is None:
            self._watched_since = now
        self.at = math.inf

    def watch_fails(self, now: float, *, look_now: bool) -> None:
        """Plans a poll, because the Node is not watched, although it should be.

        look_now: whether the watcher asks for a pass at once. There is at least the pause of model/pace.py between two
        polls, so a watch that fails again and again does not start passes all the time.
        """
        has_lasted = self._watched_since is not None and now - self._watched_since >= FIRST_POLL
        if has_lasted or self._trouble_since is None:
            self._trouble_since = now
        self._watched_since = None
        due = now if look_now else now + self._jittered(FIRST_POLL)
        earliest = self._looked_at + pause(RetryCause.OTHER, now - self._trouble_since)
        at = max(due, earliest)
        self.at = min(self.at, at)

    def looked(self, now: float) -> None:
        """Plans the next poll after a pass, if the Node is not watched."""
        if self.at < math.inf:
            self._looked_at = now
            self.at = now + POLL_PERIOD
