"""When the next pass starts. Times are numbers in seconds that the tests choose; no test waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.messages import PassResult
from capacityd.model.pace import SHORTEST_PAUSE
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.event_rate import BURST, PERIOD
from capacityd.service.schedule import (
    DEBOUNCE,
    DEBOUNCE_MAX,
    FIRST_POLL,
    POLL_PERIOD,
    PROMPT_DEBOUNCE,
    RESYNC_PERIOD,
    Schedule,
)

Uniform = Callable[[float, float], float]
NOT_READ = PassResult()
"""A pass that has not read the Node, because no reading has changed."""
READ = PassResult(node_fingerprint="0a1b")


def failed(cause: RetryCause = RetryCause.OTHER, retry_after: float = 0.0) -> PassResult:
    return PassResult("an error", cause=cause, retry_after=retry_after)


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
    schedule.end_pass(READ, 0.0)
    return schedule


@pytest.mark.parametrize(("uniform", "factor"), [(least, 0.8), (middle, 0.9), (longest, 1.0)])
def test_without_events_there_is_only_the_resync(uniform: Uniform, factor: float) -> None:
    schedule = after_boot(uniform)
    due = RESYNC_PERIOD * factor
    assert schedule.wakes_at() == due
    schedule.resync_period = 600.0
    assert schedule.pop_due(due - 1) == set()
    assert schedule.pop_due(due) == {PassReason.TIMER}
    schedule.end_pass(READ, due)
    assert schedule.wakes_at() == due + 600.0 * factor


def test_passes_that_do_not_read_the_node_do_not_delay_the_resync() -> None:
    """Such passes do not refresh the condition's heartbeat."""
    schedule = after_boot(longest)
    for at in range(100, int(RESYNC_PERIOD), 100):
        schedule.notify({PassReason.DEVICES}, float(at))
        assert schedule.pop_due(at + DEBOUNCE) == {PassReason.DEVICES}
        schedule.end_pass(NOT_READ, at + DEBOUNCE)
    assert schedule.wakes_at() == RESYNC_PERIOD


def test_a_node_that_is_not_watched_is_read_from_time_to_time() -> None:
    """The first pass comes within a minute after the loss of a watch, further ones every five minutes."""
    schedule = after_boot(longest)
    schedule.watch_fails(100.0, look_now=False)
    assert schedule.wakes_at() == 100.0 + FIRST_POLL
    schedule.watch_begins()
    assert schedule.wakes_at() == RESYNC_PERIOD, "a watch that follows at once needs no pass"
    for at in (110.0, 140.0):
        schedule.watch_fails(at, look_now=False)
    assert schedule.wakes_at() == 110.0 + FIRST_POLL, "only the reason has changed"
    for at in (170.0, 470.0):
        assert schedule.pop_due(at) == {PassReason.TIMER}
        schedule.end_pass(NOT_READ, at)
        assert schedule.wakes_at() == at + POLL_PERIOD


def test_a_watcher_that_asks_for_a_pass_gets_one_at_once_then_one_a_minute() -> None:
    """For example, a watcher that dies at each start, or whose credentials the API server refuses."""
    schedule, passes_at, now = after_boot(longest), [], 100.0
    while now < 4000.0:
        schedule.watch_fails(now, look_now=True)
        now = schedule.wakes_at()
        assert PassReason.NODE in schedule.pop_due(now)
        passes_at.append(now)
        schedule.end_pass(READ, now)
    assert passes_at[BURST - 1] - 100.0 < 1.0
    assert all(later - earlier == pytest.approx(PERIOD, abs=1.0) for earlier, later in pairwise(passes_at[BURST:]))
    schedule.end_pass(failed(), now)
    schedule.watch_fails(now, look_now=True)
    assert schedule.wakes_at() == now + PERIOD, "the retry reads the Node"


@given(st.floats(0.0, 2000.0), st.floats(0.0, 1.0))
def test_a_lost_watch_starts_no_passes_on_all_nodes_together(lost_at: float, jitter: float) -> None:
    """An API server that restarts ends the watches of all Nodes. The passes that follow start at random times."""
    schedule = after_boot(lambda low, high: low + jitter * (high - low))
    schedule.watch_fails(lost_at, look_now=False)
    shortest = FIRST_POLL * 2 / 3
    assert schedule.wakes_at() - lost_at == pytest.approx(shortest + jitter * (FIRST_POLL - shortest))


def test_changes_of_the_node_start_a_pass_at_once_but_not_all_the_time() -> None:
    schedule, started, now = after_boot(), [], 100.0
    while now < 400.0:
        schedule.notify({PassReason.NODE}, now)
        now += 0.05
        if schedule.pop_due(now):
            started.append(now)
            schedule.end_pass(READ, now)
    assert started[BURST - 1] < 102.0
    assert len(started) == BURST + 300 // PERIOD - 1
    schedule.pop_due(500.0)
    schedule.end_pass(READ, 500.0)
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
    schedule.end_pass(READ, 102.0)
    assert schedule.pop_due(101.8 + DEBOUNCE) == {PassReason.FILE}
    schedule.end_pass(READ, 103.0)
    assert schedule.wakes_at() > 1000
    for tenth in range(200):
        schedule.notify({PassReason.DEVICES}, 200.0 + tenth / 10)
    assert schedule.wakes_at() == 200.0 + DEBOUNCE_MAX, "endless events delay a pass by DEBOUNCE_MAX at most"


def test_a_pass_can_request_the_next() -> None:
    schedule = after_boot()
    schedule.end_pass(PassResult(requeue_after=9.5), 50.0)
    assert schedule.wakes_at() == 59.5
    schedule.notify({PassReason.DEVICES}, 51.0)
    assert schedule.pop_due(52.0) == {PassReason.DEVICES}
    schedule.end_pass(PassResult(requeue_after=7.5), 52.0)
    assert schedule.pop_due(59.5) == {PassReason.TIMER}
    schedule.end_pass(READ, 60.0)
    assert schedule.wakes_at() > 1000


def test_a_delayed_start_ignores_events() -> None:
    schedule = after_boot(longest)
    schedule.end_pass(PassResult(start_in=30.0), 1.0)
    schedule.notify({PassReason.NODE, PassReason.CONFIG}, 5.0)
    assert (schedule.wakes_at(), schedule.pop_due(30.9)) == (31.0, frozenset())
    assert schedule.pop_due(31.0) == {PassReason.START, PassReason.NODE, PassReason.CONFIG}
    schedule.end_pass(READ, 31.0)
    assert schedule.wakes_at() == 31.0 + RESYNC_PERIOD


def pauses(schedule: Schedule, cause: RetryCause, until: float) -> dict[float, float]:
    """The pauses after consecutive failures from time 0 until this time, by the time of the failure."""
    now, pause_by_time = 0.0, {}
    while now < until:
        schedule.end_pass(failed(cause), now)
        pause_by_time[now] = schedule.wakes_at() - now
        now = schedule.wakes_at()
        assert PassReason.TIMER in schedule.pop_due(now)
    return pause_by_time


@pytest.mark.parametrize("cause", RetryCause)
def test_a_pause_is_at_most_a_tenth_of_the_time_since_the_first_failure(cause: RetryCause) -> None:
    """The pause is random, and at least two thirds of this tenth."""
    for uniform, share in ((least, 2 / 3), (longest, 1.0)):
        for at, pause in pauses(after_boot(uniform), cause, 20_000.0).items():
            longest_pause = min(max(at / 10, SHORTEST_PAUSE[cause]), 600.0)
            assert pause == pytest.approx(share * longest_pause)


def test_a_server_that_asks_for_time_gets_it_in_addition() -> None:
    schedule = after_boot(longest)
    schedule.end_pass(failed(RetryCause.UNREACHABLE, 20.0), 100.0)
    assert schedule.wakes_at() == 124.0, "the server's 20 s, and a pause of 4 s"
    schedule.notify({PassReason.DEVICES}, 101.0)
    assert schedule.wakes_at() >= 120.0


CONFLICT, OTHER, UNREACHABLE = RetryCause.CONFLICT, RetryCause.OTHER, RetryCause.UNREACHABLE
LEAST_PAUSE = 60.0 * 2 / 3  # after a conflict or another error


@pytest.mark.parametrize(
    ("result", "event", "seconds"),  # from the failed pass to the next one, with an event after 1 s
    [
        # A change of the Node ends the wait, but not a Retry-After. So a machine that joins publishes at once.
        (failed(OTHER), PassReason.NODE, 1.0 + PROMPT_DEBOUNCE),
        (failed(UNREACHABLE, retry_after=20.0), PassReason.NODE, 20.0),
        (failed(CONFLICT), PassReason.NODE, LEAST_PAUSE),  # another writer may cause the error
        (failed(CONFLICT, retry_after=20.0), PassReason.NODE, 20.0 + LEAST_PAUSE),
        # Any other event may end the error, too: a policy may accept the new number, for example.
        (failed(OTHER), PassReason.DEVICES, LEAST_PAUSE),
        (failed(UNREACHABLE), PassReason.FILE, 4.0 * 2 / 3),
        (failed(CONFLICT), PassReason.KERNEL, LEAST_PAUSE),
        (failed(OTHER, retry_after=60.0), PassReason.CONFIG, 1.0 + DEBOUNCE),
        (failed(UNREACHABLE, retry_after=60.0), PassReason.RESUME, 1.0 + DEBOUNCE),
    ],
)
def test_after_an_event_a_failed_pass_is_tried_again_sooner(
    result: PassResult, event: PassReason, seconds: float
) -> None:
    schedule = after_boot(longest)
    pauses(schedule, result.cause, 20_000.0)
    schedule.end_pass(result, 30_000.0)
    schedule.notify({event}, 30_001.0)
    assert schedule.wakes_at() - 30_000.0 == pytest.approx(seconds)


def test_credentials_that_change_during_a_pass_start_another_at_once() -> None:
    schedule = after_boot(longest)
    schedule.notify({PassReason.CONFIG}, 11.3)
    schedule.end_pass(failed(UNREACHABLE, 60.0), 11.5)
    assert schedule.wakes_at() == 11.3 + DEBOUNCE


def test_while_a_pass_fails_neither_a_resync_nor_a_poll_shortens_its_pause() -> None:
    schedule = after_boot(longest)
    passes, now = 0, 10.0
    while now < 3 * RESYNC_PERIOD:
        schedule.end_pass(failed(), now)
        now = schedule.wakes_at()
        schedule.watch_fails(now, look_now=True)
        assert schedule.pop_due(now)
        passes += 1
    assert passes < 60
    schedule.end_pass(READ, now)
    assert schedule.wakes_at() == now + POLL_PERIOD, "after a success, both start passes again"


RESULTS = (READ, NOT_READ, PassResult(requeue_after=3.0), failed(retry_after=20.0), *map(failed, RetryCause))
# Each step: seconds that pass, events, and the result of a pass if one is due then.
steps = st.lists(
    st.tuples(st.floats(0, 5), st.sets(st.sampled_from(PassReason), max_size=1), st.sampled_from(RESULTS)), max_size=60
)


@given(steps, st.floats(0, 1))
def test_no_reason_is_ever_lost(history: list[tuple[float, set[PassReason], PassResult]], drawn: float) -> None:
    schedule = Schedule(0.0, lambda low, high: low + (high - low) * drawn)
    now, notified, reasons_of_passes = 0.0, {PassReason.START}, set[PassReason]()
    for seconds, reasons, result in history:
        now += seconds
        schedule.notify(reasons, now)
        notified |= reasons
        due = schedule.pop_due(now)
        reasons_of_passes |= due
        if due:
            schedule.end_pass(result, now)
    assert schedule.wakes_at() <= now + RESYNC_PERIOD
    assert notified <= reasons_of_passes | schedule.pop_due(max(now, schedule.wakes_at()))


SOURCES = [PassReason.KERNEL, PassReason.DEVICES, PassReason.FILE]


class Event(NamedTuple):
    pause: float
    """The seconds since the event before."""
    source: PassReason
    changes: bool
    """Whether the event changes a reading."""


class Pass(NamedTuple):
    at: float
    reasons: frozenset[PassReason]
    changed: bool
    """Whether a reading has changed."""
    longest_wait: float
    """The seconds for which the first of the pass's events has waited."""


def passes_of(events: list[Event]) -> list[Pass]:
    """The passes that these events start."""
    schedule, now = after_boot(), 10.0
    passes: list[Pass] = []
    waiting: list[tuple[float, bool]] = []  # the time of each event, and whether it changes a reading

    def run_until(limit: float) -> None:
        while (at := schedule.wakes_at()) <= limit:
            reasons = schedule.pop_due(at)
            changed = any(changes for _, changes in waiting)
            longest_wait = max((at - since for since, _ in waiting), default=0.0)
            passes.append(Pass(at, reasons, changed, longest_wait))
            waiting.clear()
            schedule.end_pass(replace(READ, changed=changed), at)

    for event in events:
        run_until(now + event.pause)
        now += event.pause
        schedule.notify({event.source}, now)
        waiting.append((now, event.changes))
    run_until(now + 2 * PERIOD)
    assert not waiting
    return passes


@given(st.lists(st.builds(Event, st.floats(0.0, 90.0), st.sampled_from(SOURCES), st.booleans()), max_size=60))
def test_no_event_waits_longer_than_a_minute_and_useless_events_start_one_pass_a_minute(events: list[Event]) -> None:
    passes = passes_of(events)
    assert all(each.longest_wait <= PERIOD + 1e-6 for each in passes)
    useless = [each.at for each in passes if each.reasons == {PassReason.KERNEL} and not each.changed]
    assert all(later - earlier >= PERIOD - 1e-6 for earlier, later in pairwise(useless))


@pytest.mark.parametrize("rate", [1, 30])
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_endless_events_start_one_pass_a_minute(source: PassReason, changes: bool, rate: int) -> None:
    """The events may each change a reading, as with a bad cable."""
    passes_of_an_hour = passes_of([Event(1 / rate, source, changes)] * (3600 * rate))
    assert 55 <= len([each for each in passes_of_an_hour if source in each.reasons]) <= 62 + BURST


def test_a_change_is_prompt_unless_its_source_has_just_changed_nothing() -> None:
    kernel, file = PassReason.KERNEL, PassReason.FILE
    changes = [Event(5.0, source, changes=True) for source in (file, file, kernel, file)]
    passes = passes_of([Event(0.0, kernel, changes=False), *changes])
    assert [each.reasons for each in passes] == [{kernel}, {file}, {file}, {file, kernel}]
    waits = [each.longest_wait for each in passes]
    assert waits == pytest.approx([DEBOUNCE, DEBOUNCE, DEBOUNCE, 5.0 + DEBOUNCE]), "a pass ends the wait of all events"
