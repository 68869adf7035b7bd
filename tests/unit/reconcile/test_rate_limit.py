"""How often what keeps changing is written. Times are seconds of uptime."""

from __future__ import annotations

from capacityd.model.node import Action, Change, Plan
from capacityd.reconcile.plan_input import METADATA_ONLY
from capacityd.reconcile.rate_limit import BURST, MIN_INTERVAL, WriteTimes, not_before, record_write

A, B = "example.com/a", "example.com/b"


def plan(*actions: tuple[str, Action]) -> Plan:
    """A plan of these names and actions."""
    return Plan("n1", tuple(Change(name, action, "1", "2", "") for name, action in actions), (), {})


def test_only_set_and_removed_resources_count_as_written() -> None:
    made = plan((A, Action.SET), (B, Action.REMOVE), ("example.com/c", Action.KEEP), ("example.com/d", Action.HOLD))
    assert record_write(made, True, 7.0, {A: (5.0,)}) == {A: (5.0, 7.0), B: (7.0,)}
    assert record_write(plan((A, Action.KEEP)), True, 7.0, {}) == {METADATA_ONLY: (7.0,)}
    assert record_write(made, False, 7.0, {A: (5.0,)}) == {A: (5.0,)}


def test_only_the_last_writes_count() -> None:
    written: WriteTimes = {}
    for at in range(BURST + 3):
        assert not_before(written) == ({A: at - 1 + MIN_INTERVAL} if at >= BURST else {})
        written = record_write(plan((A, Action.SET)), True, float(at), written)
    assert written == {A: tuple(float(at) for at in range(3, BURST + 3))}


def test_writes_long_ago_do_not_count() -> None:
    long = BURST * MIN_INTERVAL
    written = {A: (0.0, 1.0, 2.0), B: (0.0,)}
    assert record_write(plan(), False, long, written) == {A: (1.0, 2.0)}
    assert record_write(plan(), False, long - 0.1, written) == written
