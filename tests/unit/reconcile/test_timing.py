"""How often changing values are written. Times are seconds of uptime."""

from __future__ import annotations

import pytest

from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.timing import BURST, MIN_INTERVAL, WriteTimes, next_denial, wait_for_unknown

A, B = "example.com/a", "example.com/b"


def test_the_last_writes_count_for_a_while_and_for_their_resources_or_the_condition() -> None:
    written, long = WriteTimes(), BURST * MIN_INTERVAL
    for at in range(BURST + 3):
        for name in (A, ""):
            limit = written.resource_limit(name) if name else written.metadata_limit()
            assert limit.until == (at - 1 + MIN_INTERVAL if at >= BURST else 0.0)
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
        (20.0, 620.0, 680.0),
        (1000.0, 1700.0, 1770.0),
        (1000.0, 4600.0, 4960.0),
        (0.0, 9e4, 90_600.0),
    ],
)
def test_the_next_read_depends_on_how_long_a_resource_has_been_unknown(
    since: float, uptime: float, expected: float
) -> None:
    assert wait_for_unknown(A, since, uptime) == Wait(expected, WaitReason.UNKNOWN, A)


def test_a_denied_change_is_tried_again_after_a_tenth_of_the_time_that_it_has_been_denied() -> None:
    first = next_denial(None, desired=4, reason="a policy", uptime=1000.0)
    assert first.retry_at == 1060.0
    assert next_denial(first, desired=4, reason="a policy", uptime=2000.0).retry_at == 2100.0
    another_quantity = next_denial(first, desired=5, reason="a policy", uptime=2000.0)
    assert another_quantity.retry_at == 2060.0, "another quantity is another change"
