"""How often changing values are written. Times are seconds of uptime."""

from __future__ import annotations

import pytest

from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.timing import BURST, MIN_INTERVAL, WriteTimes, wait_for_unknown

A, B = "example.com/a", "example.com/b"


def test_the_last_writes_count_for_a_while_and_for_their_resources_or_the_condition() -> None:
    written, long = WriteTimes(), BURST * MIN_INTERVAL
    for at in range(BURST + 3):
        for name in (A, ""):
            assert written.wait_for(name).until == (at - 1 + MIN_INTERVAL if at >= BURST else 0.0)
            written = written.after_write((name,) if name else (), float(at))
    times = tuple(float(at) for at in range(3, BURST + 3))
    assert written == WriteTimes({A: times}, times)
    assert written.after_write((A, B), 9.0).resources == {A: (*times[1:], 9.0), B: (9.0,)}
    assert written.recent(long + 2.9) == written
    assert written.recent(long + 7.0) == WriteTimes({A: (8.0,)}, (8.0,))


@pytest.mark.parametrize(
    ("since", "uptime", "expected"),
    [
        (20.0, 20.0, 80.0),
        (20.0, 80.0, 140.0),
        (20.0, 599.0, 659.0),
        (20.0, 600.0, 980.0),
        (1000.0, 1060.0, 1120.0),
        (1000.0, 1240.0, 1480.0),
        (1000.0, 4840.0, 8440.0),
        (1000.0, 90_000.0, 91_240.0),
    ],
)
def test_the_next_read_depends_on_how_long_a_resource_has_been_unknown(
    since: float, uptime: float, expected: float
) -> None:
    assert wait_for_unknown(A, since, uptime) == Wait(expected, WaitReason.UNKNOWN, A)
