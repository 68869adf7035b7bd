"""How often events of one kind may start reconcile passes. Times are in seconds.

Pods cause events of mounts, links and devices, and any program may change the Node or a file all the time. So events
of one kind start at most BURST passes in quick succession, and then one in each PERIOD.

Most events of links, addresses, routes, mounts and swap are caused by pods. If such an event has started a pass that
changed no reading, the next such event waits for a PERIOD. Events of devices do not wait after such a pass, because a
dock or a hub sends its own events seconds before its devices send theirs.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from capacityd.model.reasons import PassReason

BURST = 6
PERIOD = 60.0

_LIMITED = frozenset({PassReason.DEVICES, PassReason.FILE, PassReason.KERNEL, PassReason.NODE})
"""The reasons whose passes are limited. All other reasons are rare, or may end an error."""


class EventRate:
    """A token bucket for each reason. A pass takes a token; each PERIOD adds one. A full bucket has BURST tokens."""

    def __init__(self) -> None:
        # Reason -> when its bucket is full again. A reason without an entry has a full bucket.
        self._full_at: dict[PassReason, float] = {}

    def held_until(self, reason: PassReason) -> float:
        """Returns when events of this reason may start a pass; minus infinity if no pass has taken a token yet."""
        # A pass needs one token. The bucket has this token BURST - 1 periods before the bucket is full.
        full_at = self._full_at.get(reason, -math.inf)
        return full_at - (BURST - 1) * PERIOD

    def count_pass(self, reasons: Collection[PassReason], began: float) -> None:
        """Takes a token for each of the reasons for a pass. began: when the pass began."""
        full_after_empty = began + BURST * PERIOD
        for reason in _LIMITED.intersection(reasons):
            full_at = max(began, self._full_at.get(reason, began))
            self._full_at[reason] = min(full_at + PERIOD, full_after_empty)

    def count_unchanged_pass(self, reasons: Collection[PassReason], began: float) -> None:
        """Empties the bucket of KERNEL if KERNEL has started a pass that changed no reading. began: when it began."""
        if PassReason.KERNEL in reasons:
            self._full_at[PassReason.KERNEL] = began + BURST * PERIOD
