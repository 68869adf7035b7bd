"""When a pass looks at a Node that is not watched. Pure. Times are those of the schedule, in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable

from capacityd.model.pace import pause
from capacityd.model.reasons import RetryCause

FIRST_POLL = 60.0
POLL_PERIOD = 300.0
"""While the Node is not watched, a pass looks at it: the first one within FIRST_POLL, because the Node may just have
changed, then one in each POLL_PERIOD. A watch that works for less than FIRST_POLL ends no trouble."""


class NodePolls:
    """jittered: returns a random pause that is at most as long as its argument. No node counts as lost at first."""

    def __init__(self, jittered: Callable[[float], float]) -> None:
        self._jittered = jittered
        self.at: float | None = None
        """When a pass looks at the Node; None: it is watched, or need not be."""
        self._watched_since: float | None = None  # None: it is not watched
        self._trouble_since: float | None = None  # since when no watch has lasted; None: the last one has
        self._looked_at = -math.inf  # when a pass last looked at the Node while it was not watched

    def watch_begins(self, now: float) -> None:
        """The Node is watched."""
        if self._watched_since is None:
            self._watched_since = now
        self.at = None

    def watch_fails(self, now: float, *, look_now: bool) -> None:
        """The Node is not watched, although a pass has asked for it.

        look_now: whether the watcher asks for a pass at once. If it does so again and again, or if it dies again and
        again, the pace of repairs applies.
        """
        has_lasted = self._watched_since is not None and now - self._watched_since >= FIRST_POLL
        if has_lasted or self._trouble_since is None:
            self._trouble_since = now
        self._watched_since = None
        due = now if look_now else now + self._jittered(FIRST_POLL)
        earliest = self._looked_at + pause(RetryCause.OTHER, now - self._trouble_since)
        at = max(due, earliest)
        self.at = at if self.at is None else min(self.at, at)

    def looked(self, now: float) -> None:
        """A pass has looked at the Node."""
        if self.at is not None:
            self._looked_at = now
            self.at = now + POLL_PERIOD
