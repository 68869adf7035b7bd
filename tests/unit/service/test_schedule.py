"""When the next pass starts. Time is a number here; no test waits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.schedule import (
    BACKOFF_MAX,
    DEBOUNCE,
    DEBOUNCE_MAX,
    PROMPT_DEBOUNCE,
    RESYNC_PERIOD,
    Schedule,
)

Uniform = Callable[[float, float], float]
CAUSES = {cause.value: cause for cause in RetryCause}


def least(low: float, _: float) -> float:
    return low


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def longest(_: float, high: float) -> float:
    return high


def after_boot(uniform: Uniform = middle) -> Schedule:
    schedule = Schedule(0.0, uniform)
    assert schedule.pop_due(0.0) == {PassReason.BOOT}
    schedule.succeeded(0.0, None)
    return schedule


def test_the_first_pass_is_debounced_at_boot_only() -> None:
    assert Schedule(5.0, middle).wakes_at() <= 5.0
    schedule = Schedule(5000.0, middle, debounce_first=True)
    assert schedule.wakes_at() == 5000.0 + DEBOUNCE
    assert schedule.pop_due(5001.0) == {PassReason.BOOT}
    assert schedule.wakes_at() == 5000.0 + RESYNC_PERIOD


@pytest.mark.parametrize(("uniform", "factor"), [(least, 0.8), (middle, 1.0), (longest, 1.2)])
def test_without_events_there_is_only_the_resync(uniform: Uniform, factor: float) -> None:
    schedule = after_boot(uniform)
    due = RESYNC_PERIOD * factor
    assert (schedule.wakes_at(), schedule.pop_due(due - 1), schedule.pop_due(due)) == (due, set(), {PassReason.RESYNC})
    schedule.set_resync_period(600.0, 50.0)
    assert schedule.wakes_at() == 50.0 + 600.0 * factor
    schedule.notify({PassReason.HARDWARE}, 800.0)
    assert schedule.pop_due(801.0) == {PassReason.HARDWARE, PassReason.RESYNC}
    schedule.succeeded(801.0, None)
    assert schedule.wakes_at() == 801.0 + 600.0 * factor


def test_passes_that_did_not_read_the_node_do_not_delay_the_resync() -> None:
    schedule = after_boot()
    for at in range(100, int(RESYNC_PERIOD), 100):
        schedule.notify({PassReason.HARDWARE}, float(at))
        assert schedule.pop_due(at + DEBOUNCE) == {PassReason.HARDWARE}
        schedule.succeeded(at + DEBOUNCE, None, node_read=False)
    assert schedule.wakes_at() == RESYNC_PERIOD


def test_events_are_debounced() -> None:
    schedule = after_boot()
    schedule.notify({PassReason.HARDWARE}, 100.0)
    schedule.notify({PassReason.HARDWARE}, 100.7)
    schedule.notify(set(), 101.0)  # woken by an event that is no reason for a pass
    assert schedule.wakes_at() == 100.7 + DEBOUNCE
    assert schedule.pop_due(101.3) == set()
    assert schedule.pop_due(101.7) == {PassReason.HARDWARE}
    schedule.notify({PassReason.FILE}, 101.8)  # during a pass
    schedule.succeeded(102.0, None)
    assert schedule.pop_due(101.8 + DEBOUNCE) == {PassReason.FILE}
    schedule.succeeded(103.0, None)
    assert schedule.wakes_at() > 1000
    for tenth in range(200):
        schedule.notify({PassReason.HARDWARE}, 200.0 + tenth / 10)
    assert schedule.wakes_at() == 200.0 + DEBOUNCE_MAX, "endless events delay a pass no longer"


def test_a_pass_can_request_the_next() -> None:
    schedule = after_boot()
    schedule.succeeded(50.0, 9.5)
    assert schedule.wakes_at() == 59.5
    schedule.notify({PassReason.HARDWARE}, 51.0)
    assert schedule.pop_due(52.0) == {PassReason.HARDWARE}
    schedule.succeeded(52.0, 7.5)
    assert schedule.pop_due(59.5) == {PassReason.REQUEUE}
    schedule.succeeded(60.0, None)
    assert schedule.wakes_at() > 1000


def test_a_delayed_start_ignores_events() -> None:
    schedule = after_boot()
    schedule.start_in(30.0, 1.0)
    schedule.notify({PassReason.HARDWARE}, 2.0)
    schedule.notify({PassReason.KUBELET, PassReason.CREDENTIALS}, 5.0)
    assert (schedule.wakes_at(), schedule.pop_due(30.9)) == (31.0, set())
    assert schedule.pop_due(31.0) == {PassReason.START, PassReason.HARDWARE, PassReason.KUBELET, PassReason.CREDENTIALS}
    schedule.succeeded(31.0, None)
    assert schedule.wakes_at() == 31.0 + RESYNC_PERIOD


@pytest.mark.parametrize(("cause", "eager"), [(RetryCause.UNREACHABLE, 120), (RetryCause.OTHER, 60)])
def test_the_backoff_grows_and_is_reset_by_a_success(cause: RetryCause, eager: int) -> None:
    """The backoff grows although Retry-After stays the same: an overloaded API server answers "1" each time."""

    def most(low: float, high: float) -> float:
        drawn.append((low, high))
        return high

    drawn: list[tuple[float, float]] = []
    schedule = after_boot(most)
    for now in (1000.0, 5000.0):
        drawn.clear()
        for seconds in (0, 10, 20, 30, eager - 1, eager, 200, 300, 400, 500):
            schedule.failed(now + seconds, 1.0, cause)
            assert schedule.wakes_at() == now + seconds + drawn[-1][1] + 1.0
            schedule.pop_due(schedule.wakes_at())
        fast = [1.0, 2.0, 4.0, 4.0, 4.0]
        assert drawn == [(0.0, pause) for pause in fast] + 5 * [(BACKOFF_MAX * 2 / 3, BACKOFF_MAX)]
        schedule.succeeded(now + 600.0, None)


def pauses(schedule: Schedule, cause: RetryCause, number: int, now: float = 0.0) -> list[float]:
    """The pauses after this number of consecutive failures."""
    waits = []
    for _ in range(number):
        schedule.failed(now, None, cause)
        waits.append(schedule.wakes_at() - now)
        now = schedule.wakes_at()
        assert PassReason.RETRY in schedule.pop_due(now)
    return waits


@pytest.mark.parametrize(
    ("cause", "wanted"),
    [
        (RetryCause.DENIED, [4.0, 16.0, 64.0, 256.0, 900.0, 900.0]),
        (RetryCause.CREDENTIALS, [900.0, 900.0]),
        (RetryCause.STATE, [5.0, 20.0, 80.0, 90.0, 90.0]),
        (RetryCause.CONFLICT, [90.0, 360.0, 900.0, 900.0]),
        (RetryCause.MISSING, [90.0, 360.0, 900.0, 900.0]),
        (RetryCause.REJECTED, [90.0, 360.0, 1440.0, 3600.0, 3600.0]),
    ],
)
def test_errors_that_need_an_administrator_are_retried_more_and_more_rarely(
    cause: RetryCause, wanted: list[float]
) -> None:
    assert pauses(after_boot(longest), cause, len(wanted)) == wanted
    assert pauses(after_boot(least), cause, len(wanted)) == pytest.approx([pause * 2 / 3 for pause in wanted])


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (PassReason.CREDENTIALS, [4.0, 16.0]),
        (PassReason.CONFIG, [4.0, 16.0]),
        (PassReason.KUBELET, [256.0, 900.0]),  # the kubelet may be crashing repeatedly
        (PassReason.RESUME, [256.0, 900.0]),
    ],
)
def test_events_that_may_end_an_error_shorten_or_reset_the_backoff(event: PassReason, wanted: list[float]) -> None:
    schedule = after_boot(longest)
    assert pauses(schedule, RetryCause.DENIED, 12)[-1] == 900.0
    schedule.failed(10_000.0, None, RetryCause.DENIED)
    schedule.notify({event}, 10_100.0)
    assert {event, PassReason.RETRY} <= schedule.pop_due(10_100.0 + DEBOUNCE)
    assert pauses(schedule, RetryCause.DENIED, 2, 10_102.0) == wanted


@pytest.mark.parametrize("cause", RetryCause)
def test_credentials_that_change_during_a_pass_start_another_at_once(cause: RetryCause) -> None:
    schedule = after_boot(longest)
    schedule.notify({PassReason.CONFIG}, 10.0)
    assert schedule.pop_due(11.0) == {PassReason.CONFIG}
    schedule.notify({PassReason.CREDENTIALS}, 11.3)
    schedule.failed(11.5, 60.0, cause)
    assert schedule.wakes_at() == 11.3 + PROMPT_DEBOUNCE
    schedule.notify({PassReason.HARDWARE}, 11.3)
    assert schedule.wakes_at() == 11.3 + DEBOUNCE, "hardware has to settle"


def test_while_a_worker_waits_for_the_node_only_what_may_end_that_starts_another() -> None:
    schedule = after_boot(longest)
    schedule.failed(10.0, None, RetryCause.MISSING)
    schedule.postpone(600.0)
    assert schedule.wakes_at() == 10.0 + BACKOFF_MAX + 600.0
    schedule.notify({PassReason.HARDWARE}, 20.0)
    assert schedule.wakes_at() == 10.0 + BACKOFF_MAX + 600.0
    schedule.notify({PassReason.CREDENTIALS}, 30.0)
    assert schedule.pop_due(30.0 + DEBOUNCE) == {PassReason.HARDWARE, PassReason.CREDENTIALS, PassReason.RETRY}
    schedule.failed(40.0, None, RetryCause.MISSING)
    schedule.postpone(600.0)
    schedule.notify({PassReason.KUBELET}, 45.0)
    assert schedule.wakes_at() == 40.0 + BACKOFF_MAX + 600.0, "the worker sees what the kubelet registers"
    schedule.stop_awaiting_node()
    schedule.succeeded(50.0, None)
    assert schedule.wakes_at() == 50.0 + 1.2 * RESYNC_PERIOD


@pytest.mark.parametrize("cause", [RetryCause.REJECTED, RetryCause.CONFLICT])
def test_a_hardware_change_shortens_the_backoff_of_rejected_writes(cause: RetryCause) -> None:
    schedule = after_boot(longest)
    pauses(schedule, cause, 9)
    schedule.failed(10_000.0, None, cause)
    schedule.notify({PassReason.HARDWARE}, 10_010.0)
    assert schedule.wakes_at() == 10_000.0 + BACKOFF_MAX
    schedule.notify({PassReason.FILE}, 10_000.0 + BACKOFF_MAX + 60.0)
    assert {PassReason.HARDWARE, PassReason.FILE, PassReason.RETRY} <= schedule.pop_due(
        10_000.0 + BACKOFF_MAX + 60.0 + DEBOUNCE
    )


@pytest.mark.parametrize("hopeful", [PassReason.KUBELET, PassReason.CREDENTIALS, PassReason.CONFIG, PassReason.RESUME])
def test_events_wait_for_the_backoff_unless_they_may_end_the_error(hopeful: PassReason) -> None:
    schedule = after_boot(longest)
    schedule.failed(100.0, 200.0)
    for reason in (PassReason.HARDWARE, PassReason.FILE, PassReason.PLUGINS):
        schedule.notify({reason}, 101.0)
        assert schedule.wakes_at() == 301.0, "it does not end the backoff"
    schedule.notify({hopeful}, 102.0)
    assert schedule.wakes_at() == 102.0 + DEBOUNCE
    others = {PassReason.HARDWARE, PassReason.FILE, PassReason.PLUGINS, PassReason.RETRY}
    assert schedule.pop_due(103.0) == {*others, hopeful}


steps = st.lists(
    st.tuples(
        st.floats(0, 5),
        st.sets(st.sampled_from(PassReason), max_size=1),
        st.sampled_from(["good", "again", "bad", "later", *CAUSES]),
    ),
    max_size=60,
)


@given(steps, st.floats(0, 1))
def test_no_reason_is_ever_lost(history: list[tuple[float, set[PassReason], str]], drawn: float) -> None:
    schedule = Schedule(0.0, lambda low, high: low + (high - low) * drawn)
    now, notified, taken_up = 0.0, {PassReason.BOOT}, set[PassReason]()
    for pause, reasons, end in history:
        now += pause
        schedule.notify(reasons, now)
        notified |= reasons
        taken = schedule.pop_due(now)
        taken_up |= taken
        if taken and end in ("good", "again"):
            schedule.succeeded(now, 3.0 if end == "again" else None)
        elif taken:
            schedule.failed(now, 20.0 if end == "later" else None, CAUSES.get(end, RetryCause.OTHER))
    assert schedule.wakes_at() <= now + RESYNC_PERIOD * 1.2
    assert notified <= taken_up | schedule.pop_due(max(now, schedule.wakes_at()))


def reloads(schedule: Schedule, period: float, seconds: float) -> list[float]:
    """When passes start while SIGHUP arrives at this period. A check takes 0.3 s, a pass 0.5 s; one worker runs."""
    started, now, next_signal, free_at = list[float](), 0.0, 0.0, 0.0
    while now < seconds:
        if now >= next_signal:
            schedule.request_check(now)
            next_signal += period
        if now >= free_at:
            if schedule.pop_check(now):
                free_at = now + 0.3
                schedule.checked(free_at)
            elif schedule.pop_due(now):
                started.append(now)
                free_at = now + 0.5
                schedule.succeeded(free_at, None)
        now = round(now + 0.05, 2)
    return started


@pytest.mark.parametrize("period", [0.05, 0.2, 1.0, 3.0])
def test_reloads_however_many_delay_no_pass(period: float) -> None:
    passes = reloads(after_boot(), period, 60.0)
    gaps = [after - before for before, after in pairwise(passes)]
    assert max(passes[0], *gaps) <= period + 0.3 + DEBOUNCE + 0.5 + 0.2, passes


def test_a_check_waits_for_the_pass_of_the_last_one_only() -> None:
    schedule = after_boot()
    schedule.request_check(10.0)
    assert schedule.pop_check(10.0)
    assert not schedule.pop_check(10.1), "it was requested once"
    schedule.checked(10.3)
    schedule.request_check(10.4)
    assert (schedule.check_at(), schedule.pop_check(10.5)) == (None, False)
    assert schedule.pop_due(10.3 + DEBOUNCE) == {PassReason.CONFIG}
    assert schedule.pop_check(11.5), "while the pass runs, nothing starts; after it, the check is due"
    schedule.checked(11.8)
    assert schedule.pop_due(11.8 + DEBOUNCE) == {PassReason.CONFIG}
    schedule.request_check(50.0)
    schedule.notify({PassReason.HARDWARE}, 50.0)
    assert schedule.pop_check(50.0), "an event does not delay a reload"


def test_a_check_does_not_wait_for_a_pass_that_is_not_due_soon() -> None:
    """The pass is delayed by start_jitter or by a backoff."""
    delayed, failing = after_boot(), after_boot(longest)
    delayed.start_in(3600.0, 1.0)
    failing.failed(9.0, 500.0)
    for schedule in (delayed, failing):
        schedule.request_check(10.0)
        assert schedule.pop_check(10.0)
        schedule.checked(10.3)
        schedule.notify({PassReason.HARDWARE}, 10.4)
    delayed.request_check(10.5)
    assert delayed.pop_check(10.5)
    assert failing.wakes_at() == 10.4 + DEBOUNCE, "a new configuration may end the error"


@pytest.mark.parametrize(
    ("cause", "retry_in"),
    [("rejected", BACKOFF_MAX), ("conflict", BACKOFF_MAX), ("denied", 900.0), ("missing", 900.0)],
)
def test_a_pass_that_failed_can_request_the_next(cause: str, retry_in: float) -> None:
    """The requested pass runs as early as after an event if it may end the error, and never later than the retry."""
    schedule = after_boot(longest)
    now = 0.0
    for _ in range(10):
        now = max(now, schedule.wakes_at())
        schedule.pop_due(now)
        schedule.failed(now, None, CAUSES[cause], 60.0)
    assert schedule.wakes_at() - now == retry_in
    schedule.pop_due(schedule.wakes_at())
    schedule.failed(now, None, CAUSES[cause], 100_000.0)
    assert schedule.wakes_at() - now <= 3600.0
