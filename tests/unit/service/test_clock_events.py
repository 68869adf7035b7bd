"""The timer that reports steps of the clock, also as a 32-bit machine has it."""

from __future__ import annotations

import struct

import pytest

from capacityd.service.clock_events import ClockEvents, latest_expiration


@pytest.mark.parametrize(("kind", "expected"), [("i", (1 << 31) - 1), ("q", 1 << 40)])
def test_an_expiration_fits_into_a_c_long(kind: str, expected: int) -> None:
    """Of 4 bytes on armhf and i386."""
    assert struct.pack(f"={kind}", latest_expiration(struct.calcsize(f"={kind}"))) == struct.pack(f"={kind}", expected)


def test_a_timer_that_has_expired_starts_no_pass_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after January 2038 on a 32-bit machine."""
    monkeypatch.setattr("capacityd.service.clock_events.latest_expiration", lambda _: 1)
    source = ClockEvents()
    try:
        assert [source.drain() for _ in range(3)] == [set()] * 3
    finally:
        source.close()
