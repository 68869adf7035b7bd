"""When the service looks again. Time is a number here; nothing waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.schedule import EAGER, EAGER_PAUSE, LONGEST, PAUSE, QUIET, RECHECK, Schedule


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def longest(_: float, high: float) -> float:
    return high


def after_boot(uniform: object = middle) -> Schedule:
    schedule = Schedule(0.0, uniform)  # type: ignore[arg-type]
    assert schedule.take(0.0) == {"boot"}
    schedule.succeeded(0.0, None)
    return schedule


def test_the_first_look_waits_for_nothing() -> None:
    assert Schedule(5.0, middle).wakes_at() <= 5.0


def test_while_the_machine_boots_the_first_look_waits_for_quiet_too() -> None:
    schedule = Schedule(5000.0, middle, settle=True)
    assert schedule.wakes_at() == 5000.0 + QUIET
    assert schedule.take(5001.0) == {"boot"}
    assert schedule.wakes_at() == 5000.0 + RECHECK


def test_nothing_heard_nothing_looked_at_but_the_slow_recheck() -> None:
    schedule = after_boot()
    assert schedule.wakes_at() == RECHECK
    assert schedule.take(RECHECK - 1) == set()
    assert schedule.take(RECHECK) == {"recheck"}


def test_the_recheck_is_jittered() -> None:
    assert after_boot(lambda low, _: low).wakes_at() == RECHECK * 0.8
    assert after_boot(longest).wakes_at() == RECHECK * 1.2


def test_how_often_it_looks_can_be_configured() -> None:
    for uniform, factor in ((lambda low, _: low, 0.8), (longest, 1.2)):
        schedule = after_boot(uniform)
        schedule.recheck_every(600.0, 50.0)
        assert schedule.wakes_at() == 50.0 + 600.0 * factor
        schedule.hear({"hardware"}, 800.0)
        assert schedule.take(801.0) == {"hardware", "recheck"}
        schedule.succeeded(801.0, None)
        assert schedule.wakes_at() == 801.0 + 600.0 * factor


def test_looks_that_did_not_ask_the_node_put_no_recheck_off() -> None:
    schedule = after_boot()
    for at in range(100, int(RECHECK), 100):
        schedule.hear({"hardware"}, float(at))
        assert schedule.take(at + QUIET) == {"hardware"}
        schedule.succeeded(at + QUIET, None, asked=False)
    assert schedule.wakes_at() == RECHECK


def test_events_settle_first() -> None:
    schedule = after_boot()
    schedule.hear({"hardware"}, 100.0)
    schedule.hear({"hardware"}, 100.7)
    schedule.hear(set(), 101.0)  # woken for something that calls for no look
    assert schedule.wakes_at() == 100.7 + QUIET
    assert schedule.take(101.6) == set()
    assert schedule.take(101.7) == {"hardware"}
    schedule.succeeded(102.0, None)
    assert schedule.wakes_at() > 1000


def test_events_that_never_end_wait_no_longer_than_the_longest() -> None:
    schedule = after_boot()
    for tenth in range(200):
        schedule.hear({"hardware"}, 100.0 + tenth / 10)
    assert schedule.wakes_at() == 100.0 + LONGEST


def test_what_is_heard_during_a_look_is_for_the_next() -> None:
    schedule = after_boot()
    schedule.hear({"hardware"}, 100.0)
    assert schedule.take(101.0) == {"hardware"}
    schedule.hear({"file"}, 101.5)
    schedule.succeeded(102.0, None)
    assert schedule.wakes_at() == 102.5
    assert schedule.take(102.5) == {"file"}


def test_a_look_can_ask_for_the_next() -> None:
    schedule = after_boot()
    schedule.succeeded(50.0, 9.5)
    assert schedule.wakes_at() == 59.5
    schedule.hear({"hardware"}, 51.0)
    assert schedule.take(52.0) == {"hardware"}
    schedule.succeeded(52.0, 7.5)
    assert schedule.take(59.5) == {"due"}
    schedule.succeeded(60.0, None)
    assert schedule.wakes_at() > 1000


def test_a_start_that_is_put_off_waits_whatever_is_heard() -> None:
    schedule = after_boot()
    schedule.start_in(30.0, 1.0)
    schedule.hear({"hardware"}, 2.0)
    schedule.hear({"kubelet", "credentials"}, 5.0)
    assert (schedule.wakes_at(), schedule.take(30.9)) == (31.0, set())
    assert schedule.take(31.0) == {"start", "hardware", "kubelet", "credentials"}
    schedule.succeeded(31.0, None)
    assert schedule.wakes_at() == 31.0 + RECHECK


def test_a_failure_is_tried_again_soon_and_later_slowly() -> None:
    schedule = after_boot(longest)
    for at in range(0, int(EAGER), 10):
        schedule.failed(float(at), None)
        assert at < schedule.wakes_at() <= at + EAGER_PAUSE
        assert schedule.take(at + EAGER_PAUSE) == {"retry"}
    schedule.failed(EAGER + 10, None)
    assert schedule.wakes_at() == EAGER + 10 + PAUSE


def test_the_pauses_grow_and_begin_anew_after_a_success() -> None:
    def most(low: float, high: float) -> float:
        drawn.append((low, high))
        return high

    drawn: list[tuple[float, float]] = []
    schedule = after_boot(most)
    for now in (1000.0, 5000.0):
        drawn.clear()
        for seconds in (0, 10, 20, 30, 119, 120, 200, 300, 400, 500):
            schedule.failed(now + seconds, None)
            schedule.take(schedule.wakes_at())
        eager, later = [1.0, 2.0, 4.0, 4.0, 4.0], [32.0, 60.0, 60.0, 60.0, 60.0]
        assert drawn == [(0.0, pause) for pause in eager + later]
        schedule.succeeded(now + 600.0, None)
    drawn.clear()


def test_the_server_says_how_long_to_wait() -> None:
    schedule = after_boot(longest)
    schedule.failed(100.0, 30.0)
    assert schedule.wakes_at() == 131.0


def test_a_server_that_says_the_same_to_all_for_ever_is_asked_less_and_less() -> None:
    """So a fleet does not come each second to an API server that has too much to do."""
    schedule, now, asked = after_boot(), 0.0, 0
    while now < 3600.0:
        schedule.failed(now, 1.0)
        assert schedule.take(now + 0.9) == set()
        now, asked = schedule.wakes_at(), asked + 1
        assert "retry" in schedule.take(now)
    schedule.failed(now, 1.0)
    assert schedule.wakes_at() == now + 1.0 + PAUSE / 2
    assert asked < 170


@pytest.mark.parametrize("hopeful", ["kubelet", "credentials", "config", "resume"])
def test_events_wait_for_a_trouble_but_what_may_end_it_does_not(hopeful: str) -> None:
    schedule = after_boot(longest)
    schedule.failed(100.0, 30.0)
    schedule.hear({"hardware"}, 101.0)
    assert schedule.wakes_at() == 131.0
    schedule.hear({hopeful}, 102.0)
    assert schedule.wakes_at() == 102.0 + QUIET
    assert schedule.take(103.0) == {"hardware", hopeful, "retry"}


def test_what_is_heard_just_before_it_is_tried_again_settles_first() -> None:
    schedule = after_boot(longest)
    schedule.failed(100.0, 30.0)
    schedule.hear({"hardware"}, 130.5)
    assert schedule.wakes_at() == 130.5 + QUIET


def test_after_success_the_trouble_is_forgotten() -> None:
    schedule = after_boot(longest)
    schedule.failed(0.0, None)
    schedule.take(10.0)
    schedule.succeeded(10.0, None)
    schedule.failed(EAGER + 50, None)
    assert schedule.wakes_at() <= EAGER + 50 + EAGER_PAUSE


steps = st.lists(
    st.tuples(
        st.floats(0, 5),
        st.sampled_from([set(), {"hardware"}, {"file"}, {"kubelet"}, {"credentials"}, {"resume"}]),
        st.sampled_from(["good", "again", "bad", "later"]),
    ),
    max_size=60,
)


@given(steps, st.floats(0, 1))
def test_no_reason_is_ever_lost(history: list[tuple[float, set[str], str]], drawn: float) -> None:
    schedule = Schedule(0.0, lambda low, high: low + (high - low) * drawn)
    now, heard, told = 0.0, {"boot"}, set()
    for pause, reasons, end in history:
        now += pause
        schedule.hear(reasons, now)
        heard |= reasons
        taken = schedule.take(now)
        told |= taken
        if taken and end in ("good", "again"):
            schedule.succeeded(now, 3.0 if end == "again" else None)
        elif taken:
            schedule.failed(now, 20.0 if end == "later" else None)
    assert schedule.wakes_at() <= now + RECHECK * 1.2
    assert heard <= told | schedule.take(max(now, schedule.wakes_at()))
