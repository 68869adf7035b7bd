"""The timer that reports steps of the clock."""

from __future__ import annotations

import pytest

from capacityd.service.clock_events import ClockEvents


def test_a_timer_that_has_expired_starts_no_pass_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer's time is January 2038, so it has always expired after that."""
    monkeypatch.setattr("capacityd.service.clock_events._EXPIRATION", 1)
    source = ClockEvents()
    try:
        assert [source.drain() for _ in range(3)] == [set()] * 3
    finally:
        source.close()
