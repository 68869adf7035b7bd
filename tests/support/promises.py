"""Judges the times that `status` shows: the service acts by then, unless its status has changed in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capacityd.worker.pass_state import PassStatus
from tests.support.truth import EVENTS, ROUNDING

if TYPE_CHECKING:
    from tests.support.world import Loop


class Promises:
    """The judge of a service's times. All times are in seconds, by the clock of the service's schedule."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._next_pass = float("inf")
        self._has_event = False  # whether an event came since; it may delay a pass that is due

    def state(self, now: float, next_pass: float, status: PassStatus | None) -> None:
        """The service writes its status. next_pass: when it says that the next pass is due."""
        allowed = self._allowed()
        self._next_pass, self._has_event = max(now, next_pass), False
        uptime = self._loop.world.uptime
        for wait in status.waits if status and self._loop.failure is None else ():
            late = next_pass - now - max(0.0, wait.until - uptime)
            assert late <= allowed, f"{wait.text(uptime)}, but the next pass is {late:.1f} s later"

    def add_event(self) -> None:
        """The service hears of an event."""
        self._has_event = True

    def keep(self, now: float) -> None:
        """A pass begins."""
        late = now - self._next_pass
        assert late <= self._allowed(), f"the pass is {late:.1f} s later than announced"

    def _allowed(self) -> float:
        """For how many seconds a pass that is due may be late."""
        return EVENTS if self._has_event else ROUNDING
