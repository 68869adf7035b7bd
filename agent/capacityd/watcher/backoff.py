"""The pauses between two connections."""

from __future__ import annotations

import random

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
"""Seconds. Each pause is twice as long as the one before."""
_LONG_CONNECTION = 5.0
"""A connection that worked for this many seconds is followed by another one at once."""
_SHORT_CONNECTION = 1.0
"""A connection that worked for less than this many seconds is never followed by another one at once."""


class Backoff:
    """Decides how soon the next connection follows."""

    def __init__(self) -> None:
        self._next_pause = 0.0  # 0: the next connection follows at once

    def pause(self, lasted: float, retry_after: float | None = None) -> float:
        """Returns the seconds until the next connection. lasted: for how many seconds the last connection worked.

        retry_after: the server's Retry-After in seconds.
        """
        if lasted >= _LONG_CONNECTION:
            self._next_pause = 0.0
        pause = self._next_pause
        if lasted < _SHORT_CONNECTION:
            pause = max(pause, _FIRST_PAUSE)
        doubled = 2 * pause if pause else _FIRST_PAUSE
        self._next_pause = min(doubled, _LONGEST_PAUSE)
        # A restarted server loses the connections of many Nodes at once, so half of the pause is random.
        jittered = random.uniform(pause / 2, pause)  # noqa: S311  # jitter is no secret
        return max(jittered, retry_after or 0.0)
