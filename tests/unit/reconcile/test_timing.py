"""How often what keeps changing is written. Times are seconds of uptime."""

from __future__ import annotations

import pytest

from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.timing import BURST, MIN_INTERVAL, WriteTimes, wait_for_unknown

A, B = "example.com/a", "example.com/b"


def test_a_write_counts_for_its_resources_or_for_the_condition() -> None:
    written = WriteTimes({A: (5.0,)}, (6.0,))
    assert written.after_write((A, B), 7.0) == WriteTimes({A: (5.0, 7.0), B: (7.0,)}, (6.0,))
    assert written.after_write((), 7.0) == WriteTimes({A: (5.0,)}, (6.0, 7.0))


def test_only_the_last_writes_count() -> None:
    written = WriteTimes()
    for at in range(BURST + 3):
        limited = at >= BURST
        assert written.wait_for(A).until == (at - 1 + MIN_INTERVAL if limited else 0.0)
        assert written.wait_for("").until == (at - 1 + MIN_INTERVAL if limited else 0.0)
        written = written.after_write((A,), float(at))
        written = written.after_write((), float(at))
    times = tuple(float(at) for at in range(3, BURST + 3))
    assert written == WriteTimes({A: times}, times)


def test_writes_long_ago_do_not_count() -> None:
    long = BURST * MIN_INTERVAL
    written = WriteTimes({A: (0.0, 1.0, 2.0), B: (0.0,)}, (0.0, 1.0))
    assert written.recent(long) == WriteTimes({A: (1.0, 2.0)}, (1.0,))
    assert written.recent(long - 0.1) == written


@pytest.mark.parametrize(
    ("since", "uptime", "expected"),
    [
        (20.0, 20.0, 80.0),
        (20.0, 79.0, 80.0),
        (20.0, 80.0, 140.0),
        (20.0, 500.0, 560.0),
        (20.0, 599.0, 659.0),
        (20.0, 600.0, 980.0),
        (500.0, 560.0, 620.0),
        (1000.0, 1060.0, 1120.0),
        (1000.0, 1120.0, 1240.0),
        (1000.0, 1239.0, 1240.0),
        (1000.0, 1240.0, 1480.0),
        (1000.0, 4840.0, 8440.0),
        (1000.0, 90_000.0, 91_240.0),
    ],
)
def test_the_next_read_depends_on_how_long_a_resource_has_been_unknown(
    since: float, uptime: float, expected: float
) -> None:
    assert wait_for_unknown(A, since, uptime) == Wait(expected, WaitReason.UNKNOWN, A)
