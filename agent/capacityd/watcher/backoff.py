"""The pauses between two connections."""

from __future__ import annotations

import random

_STABLE = 5.0
"""Seconds after which a connection counts as one that works."""
_SHORT = 1.0
"""A connection that lasted less than this many seconds is never followed by another one at once."""
_FIRST, _LONGEST = 0.5, 30.0
"""Seconds of the first and of the longest pause. Each pause is twice as long as the one before."""


class Backoff:
    """Decides how soon the next connection follows: at once if the last one worked."""

    def __init__(self) -> None:
        self._next = 0.0

    def pause(self, lasted: float, retry_after: float | None = None) -> float:
        """Returns the seconds until the next connection. lasted: for how many seconds the last connection worked.

        retry_after: the server's Retry-After in seconds.
        """
        if lasted >= _STABLE:
            self._next = 0.0
        pause = self._next if lasted >= _SHORT else max(self._next, _FIRST)
        self._next = min(_LONGEST, max(_FIRST, 2 * pause))
        # Servers restart for many Nodes at once. Half of the pause is random.
        return max(random.uniform(pause / 2, pause), retry_after or 0.0)  # noqa: S311  # jitter is no secret
