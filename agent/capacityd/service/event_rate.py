"""How often events of one kind may start passes. Pure. Times are in seconds.

Pods cause events of mounts, links and devices, and any program may change the Node or a file all the time. So events
of one kind start at most BURST passes in a row, and then one in each PERIOD. Events of the network, mounts and swap
also wait until a PERIOD after a pass that they have started and that changed no reading: most of them are of
pods. Other events are prompt: a dock or a hub sends its own events seconds before those of the devices behind it.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from capacityd.model.reasons import PassReason

BURST = 6
PERIOD = 60.0

OFTEN_OF_PODS = frozenset({PassReason.MOUNTS, PassReason.NETWORK})
"""Reasons whose events wait after a pass that changed no reading."""

_LIMITED = OFTEN_OF_PODS | {PassReason.DEVICES, PassReason.FILE, PassReason.NODE, PassReason.PLUGINS}
"""All other reasons are rare, or may end an error."""


class EventRate:
    """A token bucket for each reason: a pass takes a token, and a token comes back in each PERIOD. A full bucket has
    BURST tokens."""

    def __init__(self) -> None:
        # Reason -> when its bucket is full again. A reason that is missing has a full bucket.
        self._full_at: dict[PassReason, float] = {}

    def held_until(self, reason: PassReason) -> float:
        """When events of this reason may start a pass; minus infinity if they always may."""
        full_at = self._full_at.get(reason)
        return -math.inf if full_at is None else full_at - (BURST - 1) * PERIOD  # a pass needs one token

    def count(self, reasons: Collection[PassReason], began: float) -> None:
        """Counts a pass. reasons: all of its reasons. began: when it began."""
        for reason in _LIMITED.intersection(reasons):
            full_at = max(self._full_at.get(reason, began), began)
            self._full_at[reason] = min(full_at + PERIOD, began + BURST * PERIOD)

    def count_unchanged(self, reasons: Collection[PassReason], began: float) -> None:
        """A pass that was counted has changed no reading."""
        for reason in OFTEN_OF_PODS.intersection(reasons):
            self._full_at[reason] = began + BURST * PERIOD  # the bucket is empty
