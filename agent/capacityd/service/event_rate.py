"""How often a source of events may start passes that change no reading. Pure. Times are in seconds.

Pods cause events of mounts, links and devices, and no filter recognizes all of them. So a source whose last pass
changed no reading starts the next pass at most once a minute. After a pass that changed a reading, its events are
prompt again.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from capacityd.model.reasons import PassReason

UNCHANGED_PERIOD = 60.0
"""Seconds. In this time, a source starts at most one pass that changes no reading. No change waits longer."""

UNCHANGED_BURST = {
    PassReason.ADDRESSES: 1,
    PassReason.DEVICES: 6,
    PassReason.LINKS: 1,
    PassReason.MOUNTS: 1,
    PassReason.SWAPS: 1,
}
"""How many of these passes a source may start at once. A dock or a hub sends its own events seconds before those of the
devices behind it, and these must not wait."""


class EventRate:
    """The passes of each source that changed no reading."""

    def __init__(self) -> None:
        # Source -> the time from which all of its burst is available again.
        self._recovered_at: dict[PassReason, float] = {}

    def held_until(self, reason: PassReason) -> float:
        """When events of this reason may start a pass; minus infinity if they always may."""
        recovered_at = self._recovered_at.get(reason)
        if recovered_at is None:
            return -math.inf
        return recovered_at - (UNCHANGED_BURST[reason] - 1) * UNCHANGED_PERIOD

    def count(self, reasons: Collection[PassReason], began: float, *, changed: bool) -> None:
        """Counts a pass. reasons: all of its reasons. began: when it began. changed: whether it changed a reading."""
        for reason in UNCHANGED_BURST.keys() & reasons:
            if changed:
                self._recovered_at.pop(reason, None)
            else:
                recovered_at = max(self._recovered_at.get(reason, began), began) + UNCHANGED_PERIOD
                self._recovered_at[reason] = min(recovered_at, began + UNCHANGED_BURST[reason] * UNCHANGED_PERIOD)
