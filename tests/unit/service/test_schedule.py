"""When the next pass starts. Times are numbers in seconds that the tests choose; no test waits."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.pace import SHORTEST_PAUSE
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.event_rate import BURST, PERIOD
from capacityd.service.node_polls import FIRST_POLL, POLL_PERIOD
from capacityd.service.schedule import (
    DEBOUNCE,
    DEBOUNCE_MAX,
    PROMPT_DEBOUNCE,
    RESYNC_PERIOD,
    Schedule,
)

Uniform = Callable[[float, float], float]
CAUSES = {cause.value: cause for cause in RetryCause}


# Stand-ins for random.uniform.


def least(low: float, _: float) -> float:
    return low


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def longest(_: float, high: float) -> float:
    return high


def after_boot(uniform: Uniform = middle) -> Schedule:
    """A schedule after a first pass at time 0 that has succeeded."""
    schedule = Schedule(0.0, uniform)
    assert schedule.pop_due(0.0) == {PassReason.START}
    schedule.succeeded(0.0, None)
    return schedule


def test_the_first_pass_is_debounced_at_boot_only() -> None:
    assert Schedule(5.0, middle).wakes_at() <= 5.0
    schedule = Schedule(5000.0, middle, debounce_first=True)
    assert schedule.wakes_at() == 5000.0 + DEBOUNCE
    assert schedule.pop_due(5001.0) == {PassReason.START}
    assert schedule.wakes_at() == 5000.0 + RESYNC_PERIOD


@pytest.mark.parametrize(("uniform", "factor"), [(least, 0.8), (middle, 1.0), (longest, 1.2)])
def test_without_events_there_is_only_the_resync(uniform: Uniform, factor: float) -> None:
    schedule = after_boot(uniform)
    due = RESYNC_PERIOD * factor
    assert schedule.wakes_at() == due
    assert (schedule.pop_due(due - 1), schedule.pop_due(due)) == (frozenset(), frozenset({PassReason.TIMER}))
    schedule.set_resync_period(600.0, 50.0)
    assert schedule.wakes_at() == 50.0 + 600.0 * factor
    schedule.notify({PassReason.DEVICES}, 800.0)
    assert schedule.pop_due(801.0) == {PassReason.DEVICES, PassReason.TIMER}
    schedule.succeeded(801.0, None)
    assert schedule.wakes_at() == 801.0 + 600.0 * factor


def test_passes_that_refresh_no_heartbeat_do_not_delay_the_resync() -> None:
    schedule = after_boot()
    for at in range(100, int(RESYNC_PERIOD), 100):
        schedule.notify({PassReason.DEVICES}, float(at))
        assert schedule.pop_due(at + DEBOUNCE) == {PassReason.DEVICES}
        schedule.succeeded(at + DEBOUNCE, None)
    assert schedule.wakes_at() == RESYNC_PERIOD
    schedule.notify({PassReason.DEVICES}, RESYNC_PERIOD - 10)
    schedule.pop_due(RESYNC_PERIOD - 5)
    schedule.succeeded(RESYNC_PERIOD - 5, None, written=True)
    assert schedule.wakes_at() == 2 * RESYNC_PERIOD - 5


def test_a_node_that_is_not_watched_is_read_from_time_to_time() -> None:
    """The first pass comes within a minute after the loss of a watch, further ones every five minutes."""
    schedule = after_boot(longest)
    schedule.watch_begins(20.0)
    schedule.watch_fails(100.0, look_now=False)
    assert schedule.wakes_at() == 100.0 + FIRST_POLL
    schedule.watch_begins(101.0)
    assert schedule.wakes_at() > RESYNC_PERIOD, "a watch that follows at once needs no pass"
    schedule.watch_fails(110.0, look_now=False)
    schedule.watch_fails(140.0, look_now=False)
    assert schedule.wakes_at() == 110.0 + FIRST_POLL, "only the reason has changed"
    for at in (170.0, 470.0):
        assert schedule.pop_due(at) == {PassReason.TIMER}
        schedule.succeeded(at, None)
        assert schedule.wakes_at() == at + POLL_PERIOD


def test_a_watcher_that_asks_for_a_pass_gets_one_at_once_then_at_the_pace_of_repairs() -> None:
    """Such a watcher dies whenever it is started, or its credentials are refused."""
    schedule, passes_at, now = after_boot(longest), [], 100.0
    schedule.watch_begins(20.0)
    while now < 4000.0:
        schedule.watch_fails(now, look_now=True)
        now = max(now, schedule.wakes_at())
        assert PassReason.TIMER in schedule.pop_due(now)
        passes_at.append(now)
        now += 1.0
        schedule.succeeded(now, None)
        schedule.watch_begins(now)  # for a moment
        schedule.watch_fails(now, look_now=True)
        schedule.watch_fails(now, look_now=True)  # asking again changes nothing
    assert passes_at[:3] == [100.0, 161.0, 222.0]
    assert passes_at[-1] - passes_at[-2] == pytest.approx((passes_at[-2] - 100.0) / 10, rel=0.05)
    schedule.set_resync_period(10_000.0, 4000.0)
    schedule.watch_begins(5000.0)
    schedule.watch_fails(6000.0, look_now=True)
    assert schedule.wakes_at() == 6000.0, "a pass at once, because the watch had lasted"


@given(st.floats(0.0, 2000.0), st.floats(0.0, 1.0))
def test_a_lost_watch_starts_no_passes_on_all_nodes_together(passed_for: float, jitter: float) -> None:
    """An API server that restarts ends the watches of all Nodes. The passes that follow start at random times."""
    schedule = after_boot(lambda low, high: low + jitter * (high - low))
    schedule.pop_due(10.0)
    schedule.succeeded(10.0, None)
    schedule.watch_fails(10.0 + passed_for, look_now=False)
    shortest = FIRST_POLL * 2 / 3
    due = schedule.wakes_at() - 10.0 - passed_for
    assert due == pytest.approx(shortest + jitter * (FIRST_POLL - shortest))


def test_changes_of_the_node_start_a_pass_at_once_but_not_all_the_time() -> None:
    schedule, started, now = after_boot(), [], 100.0
    while now < 400.0:
        schedule.notify({PassReason.NODE}, now)
        now += 0.05
        if schedule.pop_due(now):
            started.append(now)
            schedule.succeeded(now, None)
    assert started[BURST - 1] < 102.0
    assert len(started) == BURST + 300 // PERIOD - 1
    schedule.pop_due(500.0)
    schedule.succeeded(500.0, None)
    schedule.notify({PassReason.NODE}, 1000.0)
    assert schedule.wakes_at() == 1000.0 + PROMPT_DEBOUNCE


def test_events_are_debounced() -> None:
    schedule = after_boot()
    schedule.notify({PassReason.DEVICES}, 100.0)
    schedule.notify({PassReason.DEVICES}, 100.7)
    schedule.notify(set(), 101.0)  # woken by an event that is no reason for a pass
    assert schedule.wakes_at() == 100.7 + DEBOUNCE
    assert schedule.pop_due(101.3) == set()
    assert schedule.pop_due(101.7) == {PassReason.DEVICES}
    schedule.notify({PassReason.FILE}, 101.8)  # during a pass
    schedule.succeeded(102.0, None)
    assert schedule.pop_due(101.8 + DEBOUNCE) == {PassReason.FILE}
    schedule.succeeded(103.0, None)
    assert schedule.wakes_at() > 1000
    for tenth in range(200):
        schedule.notify({PassReason.DEVICES}, 200.0 + tenth / 10)
    assert schedule.wakes_at() == 200.0 + DEBOUNCE_MAX, "endless events delay a pass by DEBOUNCE_MAX at most"


def test_a_pass_can_request_the_next() -> None:
    schedule = after_boot()
    schedule.succeeded(50.0, 9.5)
    assert schedule.wakes_at() == 59.5
    schedule.notify({PassReason.DEVICES}, 51.0)
    assert schedule.pop_due(52.0) == {PassReason.DEVICES}
    schedule.succeeded(52.0, 7.5)
    assert schedule.pop_due(59.5) == {PassReason.TIMER}
    schedule.succeeded(60.0, None)
    assert schedule.wakes_at() > 1000


def test_a_delayed_start_ignores_events() -> None:
    schedule = after_boot()
    schedule.delay_start(30.0, 1.0)
    schedule.notify({PassReason.DEVICES}, 2.0)
    schedule.notify({PassReason.NODE, PassReason.CONFIG}, 5.0)
    assert (schedule.wakes_at(), schedule.pop_due(30.9)) == (31.0, frozenset())
    assert schedule.pop_due(31.0) == {PassReason.START, PassReason.DEVICES, PassReason.NODE, PassReason.CONFIG}
    schedule.succeeded(31.0, None)
    assert schedule.wakes_at() == 31.0 + RESYNC_PERIOD


def pauses(schedule: Schedule, cause: RetryCause, until: float, now: float = 0.0) -> dict[float, float]:
    """The pauses after consecutive failures until this time, by the time of the failure."""
    waits = {}
    while now < until:
        schedule.failed(now, cause=cause)
        waits[now] = schedule.wakes_at() - now
        now = schedule.wakes_at()
        assert PassReason.TIMER in schedule.pop_due(now)
    return waits


@pytest.mark.parametrize("cause", RetryCause)
def test_a_pause_is_at_most_a_tenth_of_the_time_since_the_first_failure(cause: RetryCause) -> None:
    """The pause is random, and at least two thirds of this tenth."""
    for uniform, share in ((least, 2 / 3), (longest, 1.0)):
        for at, wait in pauses(after_boot(uniform), cause, 20_000.0).items():
            longest_pause = min(max(at / 10, SHORTEST_PAUSE[cause]), 600.0)
            assert wait == pytest.approx(share * longest_pause)


def test_a_server_that_asks_for_time_gets_it_in_addition() -> None:
    schedule = after_boot(longest)
    schedule.failed(100.0, 20.0, RetryCause.UNREACHABLE)
    assert schedule.wakes_at() == 124.0, "the server's 20 s, and a pause of 4 s"
    schedule.notify({PassReason.DEVICES}, 101.0)
    assert schedule.wakes_at() >= 120.0


@pytest.mark.parametrize("cause", RetryCause)
def test_credentials_that_change_during_a_pass_start_another_at_once(cause: RetryCause) -> None:
    schedule = after_boot(longest)
    schedule.notify({PassReason.CONFIG}, 10.0)
    assert schedule.pop_due(11.0) == {PassReason.CONFIG}
    schedule.notify({PassReason.CONFIG}, 11.3)
    schedule.failed(11.5, 60.0, cause)
    assert schedule.wakes_at() == 11.3 + DEBOUNCE


@pytest.mark.parametrize("cause", RetryCause)
def test_any_other_event_waits_for_the_shortest_pause_of_the_error(cause: RetryCause) -> None:
    """The event may end the error. For example, a policy may accept the new number."""
    schedule = after_boot(longest)
    pauses(schedule, cause, 20_000.0)
    schedule.failed(30_000.0, cause=cause)
    for reason in (PassReason.DEVICES, PassReason.FILE, PassReason.KERNEL):
        schedule.notify({reason}, 30_001.0)
        assert schedule.wakes_at() == pytest.approx(max(30_001.7, 30_000.0 + SHORTEST_PAUSE[cause] * 2 / 3))


@pytest.mark.parametrize("cause", RetryCause)
def test_a_change_of_the_node_ends_the_wait_unless_another_writer_may_cause_the_error(cause: RetryCause) -> None:
    """So a machine that joins a cluster publishes as soon as its Node exists. A Retry-After is obeyed."""
    schedule = after_boot(longest)
    schedule.failed(100.0, cause=cause)
    schedule.notify({PassReason.NODE}, 101.0)
    schedule.notify({PassReason.DEVICES}, 101.2)  # a kubelet that starts causes other events
    waits = cause is RetryCause.CONFLICT
    assert schedule.wakes_at() == pytest.approx(140.0 if waits else 101.0 + PROMPT_DEBOUNCE)
    schedule.failed(200.0, 20.0, cause)
    schedule.notify({PassReason.NODE}, 201.0)
    assert schedule.wakes_at() == pytest.approx(260.0 if waits else 220.0)


@pytest.mark.parametrize("hopeful", [PassReason.CONFIG, PassReason.RESUME])
def test_events_that_may_end_any_error_do_not_wait(hopeful: PassReason) -> None:
    schedule = after_boot(longest)
    schedule.failed(100.0, 200.0)
    schedule.notify({PassReason.DEVICES, hopeful}, 102.0)
    assert schedule.wakes_at() == 102.0 + DEBOUNCE
    assert schedule.pop_due(103.0) == {PassReason.DEVICES, hopeful}


def test_while_a_pass_fails_neither_a_resync_nor_a_poll_shortens_its_pause() -> None:
    schedule = after_boot(longest)
    started, now = 0, 10.0
    while now < 3 * RESYNC_PERIOD:
        schedule.failed(now, cause=RetryCause.OTHER)
        now = schedule.wakes_at()
        schedule.watch_fails(now, look_now=True)
        assert schedule.pop_due(now)
        started += 1
    assert started < 60
    schedule.succeeded(now, None)
    assert schedule.wakes_at() == now + POLL_PERIOD, "after a success, both start passes again"


# Seconds that pass, events, and how a pass ends that is due then.
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
    now, notified, taken_up = 0.0, {PassReason.START}, set[PassReason]()
    for seconds, reasons, end in history:
        now += seconds
        schedule.notify(reasons, now)
        notified |= reasons
        taken = schedule.pop_due(now)
        taken_up |= taken
        if taken and end in ("good", "again"):
            schedule.succeeded(now, 3.0 if end == "again" else None)
        elif taken:
            schedule.failed(now, 20.0 if end == "later" else 0.0, CAUSES.get(end, RetryCause.OTHER))
    assert schedule.wakes_at() <= now + RESYNC_PERIOD * 1.2
    assert notified <= taken_up | schedule.pop_due(max(now, schedule.wakes_at()))


def reloads(schedule: Schedule, period: float, seconds: float) -> list[float]:
    """When passes start while SIGHUP arrives at this period. One worker takes 0.3 s for a check, 0.5 s for a pass."""
    started, now, next_signal, free_at = list[float](), 0.0, 0.0, 0.0
    while now < seconds:
        if now >= next_signal:
            schedule.request_check(now)
            next_signal += period
        if now >= free_at:
            if schedule.pop_check(now):
                free_at = now + 0.3
                schedule.notify({PassReason.CONFIG}, free_at)
            elif schedule.pop_due(now):
                started.append(now)
                free_at = now + 0.5
                schedule.succeeded(free_at, None)
        now = round(now + 0.05, 2)
    return started


@pytest.mark.parametrize("period", [0.05, 0.2, 1.0, 3.0])
def test_frequent_reloads_delay_no_pass(period: float) -> None:
    passes = reloads(after_boot(), period, 60.0)
    gaps = [after - before for before, after in pairwise(passes)]
    check, one_pass, tolerance = 0.3, 0.5, 0.2
    assert max(passes[0], *gaps) <= period + check + DEBOUNCE + one_pass + tolerance, passes


def test_a_check_waits_for_the_pass_after_the_last_check() -> None:
    schedule = after_boot()
    schedule.request_check(10.0)
    assert schedule.pop_check(10.0)
    assert not schedule.pop_check(10.1), "it was requested once"
    schedule.notify({PassReason.CONFIG}, 10.3)
    schedule.request_check(10.4)
    assert (schedule.check_at(), schedule.pop_check(10.5)) == (math.inf, False)
    assert schedule.pop_due(10.3 + DEBOUNCE) == {PassReason.CONFIG}
    assert schedule.pop_check(11.5), "while the pass runs, nothing starts; after it, the check is due"
    schedule.notify({PassReason.CONFIG}, 11.8)
    assert schedule.pop_due(11.8 + DEBOUNCE) == {PassReason.CONFIG}
    schedule.request_check(50.0)
    schedule.notify({PassReason.DEVICES}, 50.0)
    assert schedule.pop_check(50.0), "an event does not delay a reload"


def test_a_check_does_not_wait_for_a_pass_that_is_not_due_soon() -> None:
    """The pass is delayed by start_jitter, or because passes fail."""
    delayed, failing = after_boot(), after_boot(longest)
    delayed.delay_start(3600.0, 1.0)
    failing.failed(9.0, 500.0)
    for schedule in (delayed, failing):
        schedule.request_check(10.0)
        assert schedule.pop_check(10.0)
        schedule.notify({PassReason.CONFIG}, 10.3)
        schedule.notify({PassReason.DEVICES}, 10.4)
    delayed.request_check(10.5)
    assert delayed.pop_check(10.5)
    assert failing.wakes_at() == 10.4 + DEBOUNCE, "a new configuration may end the error"


SOURCES = [PassReason.KERNEL, PassReason.DEVICES, PassReason.FILE]


def passes(events: list[tuple[float, PassReason, bool]]) -> list[tuple[float, frozenset[PassReason], bool, float]]:
    """The passes that these events start: time, reasons, whether a reading changed, and the longest wait of an event.

    events: the seconds since the event before, the source, and whether the event changes a reading.
    """
    schedule, now = after_boot(), 10.0
    done: list[tuple[float, frozenset[PassReason], bool, float]] = []
    waiting: list[tuple[float, bool]] = []

    def run_until(limit: float) -> None:
        while (at := schedule.wakes_at()) <= limit:
            reasons = schedule.pop_due(at)
            changed = any(change for _, change in waiting)
            done.append((at, reasons, changed, max((at - since for since, _ in waiting), default=0.0)))
            waiting.clear()
            schedule.count_reading(changed=changed)
            schedule.succeeded(at, None)

    for pause_before, source, change in events:
        run_until(now + pause_before)
        now += pause_before
        schedule.notify({source}, now)
        waiting.append((now, change))
    run_until(now + 2 * PERIOD)
    assert not waiting
    return done


@given(st.lists(st.tuples(st.floats(0.0, 90.0), st.sampled_from(SOURCES), st.booleans()), max_size=60))
def test_no_event_waits_longer_than_a_minute_and_useless_events_start_one_pass_a_minute(
    events: list[tuple[float, PassReason, bool]],
) -> None:
    done = passes(events)
    assert max((wait for *_, wait in done), default=0.0) <= PERIOD + 1e-6
    unchanged = [at for at, reasons, changed, _ in done if reasons == {PassReason.KERNEL} and not changed]
    assert all(later - earlier >= PERIOD - 1e-6 for earlier, later in pairwise(unchanged))


@pytest.mark.parametrize("rate", [1, 30])
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_endless_events_start_one_pass_a_minute(source: PassReason, changes: bool, rate: int) -> None:
    """The events may each change a reading, as with a bad cable."""
    hour = passes([(1 / rate, source, changes)] * (3600 * rate))
    assert 55 <= len([reasons for _, reasons, _, _ in hour if source in reasons]) <= 62 + BURST


def test_a_change_is_prompt_unless_its_source_has_just_changed_nothing() -> None:
    kernel, file = PassReason.KERNEL, PassReason.FILE
    done = passes([(0.0, kernel, False), (5.0, file, True), (5.0, file, True), (5.0, kernel, True), (5.0, file, True)])
    assert [reasons for _, reasons, _, _ in done] == [{kernel}, {file}, {file}, {file, kernel}]
    waits = [wait for *_, wait in done]
    assert waits == pytest.approx([DEBOUNCE, DEBOUNCE, DEBOUNCE, 5.0 + DEBOUNCE]), "a pass ends the wait of all events"
