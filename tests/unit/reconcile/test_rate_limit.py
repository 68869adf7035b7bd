"""How often what keeps changing is written. Times are seconds of uptime."""

from __future__ import annotations

from capacityd.model.plan import Action, Change, Plan
from capacityd.reconcile.rate_limit import (
    BURST,
    MIN_INTERVAL,
    WriteTimes,
    metadata_not_before,
    not_before,
    recent_writes,
    record_write,
)

A, B = "example.com/a", "example.com/b"


def plan(*actions: tuple[str, Action]) -> Plan:
    """A plan of these names and actions."""
    return Plan("n1", tuple(Change(name, action, "1", "2", "") for name, action in actions), (), {})


def test_only_set_and_removed_resources_count_as_written() -> None:
    written = WriteTimes({A: (5.0,)}, (6.0,))
    changes = plan((A, Action.SET), (B, Action.REMOVE), ("example.com/c", Action.KEEP), ("example.com/d", Action.HOLD))
    assert record_write(changes, written, 7.0) == WriteTimes({A: (5.0, 7.0), B: (7.0,)}, (6.0,))
    assert record_write(plan((A, Action.KEEP)), written, 7.0) == WriteTimes({A: (5.0,)}, (6.0, 7.0))


def test_only_the_last_writes_count() -> None:
    written = WriteTimes()
    for at in range(BURST + 3):
        limited = at >= BURST
        assert not_before(written, A) == (at - 1 + MIN_INTERVAL if limited else 0.0)
        assert metadata_not_before(written) == (at - 1 + MIN_INTERVAL if limited else 0.0)
        written = record_write(plan((A, Action.SET)), written, float(at))
        written = record_write(plan(), written, float(at))
    times = tuple(float(at) for at in range(3, BURST + 3))
    assert written == WriteTimes({A: times}, times)


def test_writes_long_ago_do_not_count() -> None:
    long = BURST * MIN_INTERVAL
    written = WriteTimes({A: (0.0, 1.0, 2.0), B: (0.0,)}, (0.0, 1.0))
    assert recent_writes(written, long) == WriteTimes({A: (1.0, 2.0)}, (1.0,))
    assert recent_writes(written, long - 0.1) == written
