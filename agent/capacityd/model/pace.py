"""How soon a pass tries again what is wrong. Pure.

Wait a tenth of the time for which it has been wrong, at least the cause's shortest pause, and at most ten minutes. An
event that may end the cause ends the wait. So after a cause has gone, its effect ends within a minute, or within a
tenth of the time for which it lasted. No pause here depends on the number of attempts.
"""

from __future__ import annotations

from capacityd.model.reasons import RetryCause

LONGEST_PAUSE = 600.0
"""Seconds."""

_SHARE = 0.1
"""The pause, as a share of the time for which something has been wrong."""

SHORTEST_PAUSE: dict[RetryCause, float] = {
    RetryCause.UNREACHABLE: 4.0,  # while a machine boots, its API server is soon reachable
    RetryCause.STATE: 60.0,
    RetryCause.DENIED: 60.0,
    RetryCause.CREDENTIALS: 60.0,
    RetryCause.CONFLICT: 60.0,
    RetryCause.REJECTED: 60.0,
    RetryCause.UNKNOWN: 60.0,
    RetryCause.OTHER: 60.0,
}
"""Cause -> the shortest pause between two attempts, in seconds."""


def pause(cause: RetryCause, wrong_for: float) -> float:
    """Returns the seconds until the next attempt. wrong_for: for how many seconds the cause has lasted."""
    return min(max(wrong_for * _SHARE, SHORTEST_PAUSE[cause]), LONGEST_PAUSE)
