"""How soon capacityd tries again after something went wrong.

The pause is a tenth of the time for which the problem has lasted. It is at least the shortest pause for the cause, and
at most ten minutes. An event that may end the problem ends the pause.
"""

from __future__ import annotations

from capacityd.model.reasons import RetryCause

LONGEST_PAUSE = 600.0
"""The longest pause in seconds."""

MIN_JITTER_FACTOR = 2 / 3
"""Each pause is multiplied by a random factor from this one to 1, so that not all machines retry together."""

_PAUSE_SHARE = 0.1
"""The pause, as a share of the time for which the problem has lasted."""

SHORTEST_PAUSE: dict[RetryCause, float] = {
    RetryCause.UNREACHABLE: 4.0,  # while a machine boots, its API server is soon reachable
    RetryCause.CONFLICT: 60.0,
    RetryCause.OTHER: 60.0,
}
"""Cause -> the shortest pause between two attempts, in seconds."""

LONGEST_RETRY_AFTER = 60.0
"""The longest Retry-After in seconds. A longer time is shortened, because a proxy may ask for a day
(pulumi/pulumi#24168)."""


def retry_after_in(header: str) -> float:
    """The seconds in a header Retry-After; 0.0 for any other text, such as a date, which no API server sends."""
    is_number = header.isascii() and header.isdigit() and len(header) < 10  # ten digits are over 30 years
    return float(header) if is_number else 0.0


def pause_seconds(cause: RetryCause, problem_age: float, retry_after: float = 0.0) -> float:
    """Returns the seconds until the next attempt.

    problem_age: the seconds for which the problem has lasted. retry_after: the server's Retry-After in seconds.
    """
    requested = min(retry_after, LONGEST_RETRY_AFTER)
    seconds = max(problem_age * _PAUSE_SHARE, requested, SHORTEST_PAUSE[cause])
    return min(seconds, LONGEST_PAUSE)
