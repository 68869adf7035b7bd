"""How soon a pass tries again after something went wrong. Pure.

The pause is a tenth of the time for which the cause has lasted, at least the cause's shortest pause, and at most ten
minutes. An event that may end the cause ends the pause. So after a cause has gone, its effect ends within a minute, or
within a tenth of the time for which the cause lasted. The number of attempts does not count.
"""

from __future__ import annotations

from capacityd.model.reasons import RetryCause

LONGEST_PAUSE = 600.0
"""Seconds."""

_SHARE = 0.1
"""The pause, as a share of the time for which the cause has lasted."""

SHORTEST_PAUSE: dict[RetryCause, float] = {
    RetryCause.UNREACHABLE: 4.0,  # while a machine boots, its API server is soon reachable
    RetryCause.CONFLICT: 60.0,
    RetryCause.OTHER: 60.0,
}
"""Cause -> the shortest pause between two attempts, in seconds."""


LONGEST_RETRY_AFTER = 60.0
"""Seconds. A server's Retry-After counts up to this time: a proxy may ask for a day (pulumi/pulumi#24168)."""


def pause(cause: RetryCause, wrong_for: float, retry_after: float = 0.0) -> float:
    """Returns the seconds until the next attempt.

    wrong_for: the seconds for which the cause has lasted. retry_after: the server's Retry-After in seconds.
    """
    shortest = max(SHORTEST_PAUSE[cause], min(retry_after, LONGEST_RETRY_AFTER))
    return min(max(wrong_for * _SHARE, shortest), LONGEST_PAUSE)
