"""How often a source of events may start passes. Pure. Times are in seconds.

Pods cause events of mounts, links and devices, and no filter recognizes all of them. So a source may start only a few
passes in a row that change no reading, and then one a minute (UnchangedLimit). After a pass that changed a reading, the
source's events are prompt again, up to another limit (BurstLimit).
"""

from __future__ import annotations

import math
from collections.abc import Collection

from capacityd.model.reasons import PassReason

UNCHANGED_PERIOD = 60.0
"""Seconds. A source that has used up its UNCHANGED_BURST starts one pass in this time. So no change waits longer."""

UNCHANGED_BURST = {
    PassReason.ADDRESSES: 1,
    PassReason.DEVICES: 6,
    PassReason.LINKS: 1,
    PassReason.MOUNTS: 1,
    PassReason.SWAPS: 1,
}
"""Source -> how many passes that change no reading it may start in a row, before it has to wait. A dock or a hub sends
its own events seconds before those of the devices behind it, and the devices' events must not wait."""

BURST = 6
BURST_PERIOD = 60.0
BURST_INTERVAL = 10.0
"""Once events of one kind have started BURST passes within BURST_PERIOD seconds, they start the next pass at least
BURST_INTERVAL seconds after the last one. Another writer may change the Node all the time, and a device with a bad
cable may come and go all the time."""

_LIMITED = frozenset({*UNCHANGED_BURST, PassReason.FILE, PassReason.NODE})
"""Reasons to which BURST applies. All other events are rare, or may end an error."""


class UnchangedLimit:
    """Limits the passes of each source that change no reading.

    A token bucket for each source: a pass without a change takes a token, and a token comes back every UNCHANGED_PERIOD
    seconds. A full bucket has UNCHANGED_BURST tokens.
    """

    def __init__(self) -> None:
        # Source -> when its bucket is full again. A source that is missing has a full bucket.
        self._full_at: dict[PassReason, float] = {}

    def held_until(self, reason: PassReason) -> float:
        """When events of this reason may start a pass; minus infinity if they always may."""
        full_at = self._full_at.get(reason)
        if full_at is None:
            return -math.inf
        # A pass needs one token: it does not wait for the others.
        other_tokens = UNCHANGED_BURST[reason] - 1
        return full_at - other_tokens * UNCHANGED_PERIOD

    def count(self, reasons: Collection[PassReason], began: float, *, changed: bool) -> None:
        """Counts a pass. reasons: all of its reasons. began: when it began. changed: whether it changed a reading."""
        for reason in UNCHANGED_BURST.keys() & reasons:
            if changed:
                self._full_at.pop(reason, None)
                continue
            # The pass takes a token, so the bucket is full one period later, but never later than an empty bucket.
            full_at_before = max(self._full_at.get(reason, began), began)
            full_at_if_empty = began + UNCHANGED_BURST[reason] * UNCHANGED_PERIOD
            self._full_at[reason] = min(full_at_before + UNCHANGED_PERIOD, full_at_if_empty)


class BurstLimit:
    """Limits the passes that events of each kind start, whether the passes change a reading or not."""

    def __init__(self) -> None:
        # Reason -> when its last passes began, at most BURST of them.
        self._began: dict[PassReason, tuple[float, ...]] = {}

    def count(self, reasons: Collection[PassReason], began: float) -> None:
        """Counts a pass. reasons: all of its reasons. began: when it began."""
        for reason in _LIMITED.intersection(reasons):
            times = (*self._began.get(reason, ()), began)
            self._began[reason] = times[-BURST:]

    def held_until(self, reason: PassReason, at: float) -> float:
        """When events of this reason may start a pass; minus infinity if no limit applies.

        at: when the pass would start without a limit.
        """
        times = self._began.get(reason, ())
        is_limited = len(times) == BURST and at < times[0] + BURST_PERIOD
        return times[-1] + BURST_INTERVAL if is_limited else -math.inf
