"""How often what keeps changing is written. Times are seconds of uptime."""

from __future__ import annotations

from capacityd.budget import BURST, OFTEN, Moments, not_before, spent, undo_not_before
from capacityd.capacity import Change, Plan
from capacityd.decision import REST

A, B = "example.com/a", "example.com/b"


def plan(*actions: tuple[str, str], undone: tuple[str, ...] = ()) -> Plan:
    """A plan of these names and actions."""
    return Plan("n1", tuple(Change(name, action, "1", "2", "") for name, action in actions), (), {}, undone=undone)


def test_each_that_is_set_or_removed_is_written_and_nothing_else() -> None:
    made = plan((A, "set"), (B, "remove"), ("example.com/c", "keep"), ("example.com/d", "hold"))
    assert spent(made, True, 7.0, {A: (5.0,)}, {}) == ({A: (5.0, 7.0), B: (7.0,)}, {})
    assert spent(plan((A, "keep")), True, 7.0, {}, {}) == ({REST: (7.0,)}, {})
    assert spent(made, False, 7.0, {A: (5.0,)}, {B: 3.0}) == ({A: (5.0,)}, {B: 3.0})


def test_of_many_writes_the_last_few_count() -> None:
    written: Moments = {}
    for at in range(BURST + 3):
        assert not_before(written) == ({A: at - 1 + OFTEN} if at >= BURST else {})
        written, _ = spent(plan((A, "set")), True, float(at), written, {})
    assert written == {A: tuple(float(at) for at in range(3, BURST + 3))}


def test_writes_long_ago_do_not_count() -> None:
    long = BURST * OFTEN
    written = {A: (0.0, 1.0, 2.0), B: (0.0,)}
    assert spent(plan(), False, long, written, {}) == ({A: (1.0, 2.0)}, {})
    assert spent(plan(), False, long - 0.1, written, {}) == (written, {})


def test_what_was_undone_is_remembered_for_as_long_as_it_may_not_be_again() -> None:
    made = plan((A, "set"), (B, "set"), undone=(B, "example.com/held"))
    _, undone = spent(made, True, 100.0, {}, {A: 100.0 - OFTEN, "example.com/c": 50.0})
    assert undone == {B: 100.0, "example.com/c": 50.0}
    assert undo_not_before(undone) == {B: 100.0 + OFTEN, "example.com/c": 50.0 + OFTEN}
