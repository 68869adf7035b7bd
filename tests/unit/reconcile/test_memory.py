"""How long the limit of writes delays a write, and how long a Node counts as overwritten: both to the second."""

from __future__ import annotations

import pytest

from capacityd.reconcile.memory import Memory


@pytest.mark.parametrize(
    ("writes", "until"),
    [
        ((0.0, 10.0, 20.0, 30.0, 40.0), 0.0),  # five writes are not limited
        ((0.0, 10.0, 20.0, 30.0, 40.0, 50.0), 110.0),
        ((0.0, 10.0, 20.0, 30.0, 40.0, 359.0), 419.0),
        ((0.0, 10.0, 20.0, 30.0, 40.0, 360.0), 0.0),  # six writes in six minutes are no more than one a minute
    ],
)
def test_after_six_writes_within_six_minutes_the_next_waits_a_minute(writes: tuple[float, ...], until: float) -> None:
    assert Memory(writes=writes).limited_until == until


@pytest.mark.parametrize(
    ("restored_at", "uptime", "until"),
    [
        ((0.0, 10.0), 20.0, None),
        ((0.0, 10.0, 20.0), 20.0, 110.0),
        ((0.0, 10.0, 20.0), 109.0, 110.0),
        ((0.0, 10.0, 20.0), 110.0, None),
        ((0.0, 300.0, 350.0), 359.0, 440.0),
        ((0.0, 300.0, 350.0), 360.0, None),  # the first change is six minutes old
    ],
)
def test_three_changes_by_others_within_six_minutes_count_for_90_seconds(
    restored_at: tuple[float, ...], uptime: float, until: float | None
) -> None:
    assert Memory(overwritten_at=restored_at).overwritten_until(uptime) == until
