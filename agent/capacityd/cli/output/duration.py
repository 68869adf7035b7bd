"""Durations as commands print them."""

from __future__ import annotations


def duration_text(seconds: float) -> str:
    """Returns a duration in the unit that suits it, e.g. "45 s", "3 h"; "0 s" if it is negative."""
    seconds = max(0.0, seconds)
    for limit, unit, size in ((100, "s", 1), (100 * 60, "min", 60), (48 * 3600, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
