"""Short histories, one for each situation in which a promise was once broken.

A history is a list of acts in a simulated world. There a judge (tests/support/judge) raises BrokenPromise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.model.reasons import PassReason
from capacityd.schema.config import Settings
from tests.support.denials import Alters, Denies
from tests.support.model import acts, others
from tests.support.model.acts import Act, set_quantity
from tests.support.model.machine import configuration
from tests.support.model.server import LABELS, A, B, Document
from tests.support.model.shortest import KINDS, histories
from tests.support.model.world import World

History: TypeAlias = Sequence[tuple[Act, float]]
"""Acts, each with the seconds that pass after it: 15 are enough for a pass, and 200 for a write that a limit delays."""

_ABSENT = Absent("none")
_A_PUBLISHED = (set_quantity(A, 2), 15.0)
_BOTH_PUBLISHED: History = [_A_PUBLISHED, (set_quantity(B, 2), 200.0)]

HISTORIES: dict[str, History] = {
    "two conditions are added at the same time": [
        _A_PUBLISHED,
        (others.change_condition(removed=True), 0.0),
        (others.just_before_a_patch(others.add_condition(), set_quantity(A, 3)), 15.0),
    ],
    "the number of B is zeroed while that of A is written": [
        *_BOTH_PUBLISHED,
        (others.just_before_a_patch(others.write(B, "0"), set_quantity(A, 4)), 15.0),
    ],
    "another writer publishes the same, and the answer is lost": [
        _A_PUBLISHED,
        (others.publish_the_same(B, 3, lost=True), 15.0),
    ],
    "a disk is mounted over a watched file": [_A_PUBLISHED, (acts.replace_file(A, Quantity(3)), 200.0)],
    "inotify is used up": [
        _A_PUBLISHED,
        (acts.use_up_inotify(), 15.0),
        (acts.change_reading(A, Quantity(3), PassReason.FILE), 200.0),
        (acts.use_up_inotify(used_up=False), 70.0),
        (acts.replace_file(A, Quantity(1)), 200.0),
    ],
    "a device plugin comes while the device plugins are unknown": [
        _A_PUBLISHED,
        (acts.change_plugin_list(readable=False), 15.0),
        (acts.start_plugin(A, 3), 200.0),
    ],
    "another writer publishes the same after a write that never arrived": [
        _A_PUBLISHED,
        (acts.change_reading(B, _ABSENT), 15.0),
        (others.set_fault(lost_requests=1), 0.0),
        (set_quantity(B, 3), 2.0),
        (others.write(B, "3"), 200.0),
    ],
    "a restored cluster counts from a lower version": [
        _A_PUBLISHED,
        (others.back_up_cluster(), 1.0),
        (set_quantity(A, 3), 15.0),
        (set_quantity(A, 4), 15.0),
        (others.restore_cluster(), 15.0),
    ],
    "a kubelet undoes each repair": [_A_PUBLISHED, (others.report_allocatable(frozenset({A})), 400.0)],
    "a kubelet zeroes the numbers without any other sign": [
        _A_PUBLISHED,
        *((others.zero(), pause) for pause in (9.0, 0.05, 30.0)),
    ],
    "another capacityd comes and goes": [
        _A_PUBLISHED,
        (others.start_other_capacityd(A, Quantity(4)), 200.0),
        (others.stop_other_capacityd(), 400.0),
    ],
    "another capacityd has one more resource": [
        _A_PUBLISHED,
        (others.start_other_capacityd(B, Quantity(3)), 900.0),
        (others.stop_other_capacityd(), 400.0),
    ],
    "another capacityd has one resource less": [
        _A_PUBLISHED,
        (others.start_other_capacityd(A, _ABSENT), 900.0),
        (others.stop_other_capacityd(), 400.0),
    ],
    "another capacityd cannot read a resource": [
        _A_PUBLISHED,
        (others.start_other_capacityd(A, Unknown("busy")), 900.0),
        (others.stop_other_capacityd(), 400.0),
    ],
    "the Node cannot be watched": [
        _A_PUBLISHED,
        (others.allow_watch(False), 200.0),
        (others.zero(), 400.0),
    ],
    "a watch is dead, and nobody notices": [
        (set_quantity(A, 4), 200.0),
        (others.hang_watch(130.0), 1.0),
        (others.zero(), 400.0),
    ],
    "an API server asks clients to wait for an hour": [
        (others.set_fault("busy", retry_after=3600.0), 20.0),
        (set_quantity(A, 4), 25.0),
        (others.set_fault(), 600.0),
    ],
    "the Node is deleted and registered again": [
        _A_PUBLISHED,
        (others.delete_node(), 15.0),
        (others.register_node_anew(), 15.0),
    ],
    "a Node is deleted and registered again, many times": [
        (set_quantity(A, 4), 15.0),
        *((others.register_node_anew(), 20.0) for _ in range(8)),
    ],
    "a label is denied at other times than its resource": [
        _A_PUBLISHED,
        (others.deny((Denies(A, 403), Denies(LABELS[0], 403)), Quantity(3)), 200.0),
        (others.write(LABELS[0], "1k"), 7.0),
        (set_quantity(A, 4), 900.0),
    ],
    "a source becomes too old": [_A_PUBLISHED, (acts.change_reading(A, Quantity(3), valid_for=20.0), 400.0)],
    "a value keeps changing": [
        (acts.change_reading_often(A, tuple(map(Quantity, (1, 2, 3, 4) * 4)), 12.0), 200.0),
    ],
    "a resource cannot be read for half an hour": [
        _A_PUBLISHED,
        (acts.change_reading(A, Unknown("busy")), 1800.0),
        (acts.change_reading(A, Quantity(3), reason=None), 400.0),
    ],
    "a condition is removed by a webhook for a time": [
        _A_PUBLISHED,
        (others.alter((Alters("condition", None),), A, Quantity(3)), 400.0),
        (others.alter((), A, Quantity(2)), 400.0),
    ],
    "observe mode begins after a write that nobody has answered": [
        (others.just_before_a_patch(others.delete_node(), set_quantity(A, 2)), 15.0),
        (acts.configure(configuration(settings=Settings(observe=True))), 15.0),
    ],
    "a configuration loses its only file": [*_BOTH_PUBLISHED, (acts.configure(configuration(frozenset())), 400.0)],
    "a write that never arrived is no record, and what others have annotated is believed": [
        (set_quantity(B, 1), 15.0),
        (others.set_fault(lost_requests=99), 0.0),
        (set_quantity(A, 2), 2.0),
        (others.write(A, "2"), 0.0),
        (others.annotate('{"example.com/a":2,"example.com/b":1}'), 0.0),
        (others.set_fault(), 200.0),
        (set_quantity(A, 3), 200.0),
    ],
    "another writer's number is restored while a reduction is held": [
        (acts.configure(configuration(settings=Settings(lower_after=360.0))), 15.0),
        (set_quantity(A, 4), 200.0),
        (set_quantity(A, 3), 2.0),
        (others.write(A, "8"), 0.0),
        (others.write_allocatable(A, "8"), 200.0),
    ],
    "more is allocatable than is published, again and again": [
        (set_quantity(A, 4), 200.0),
        (others.report_allocatable(frozenset({A}), "9"), 400.0),
    ],
    "an annotation is lost": [(set_quantity(A, 4), 200.0), (others.annotate(None), 0.0), (set_quantity(A, 5), 60.0)],
    "a key that a restored cluster brings back is removed": [
        (set_quantity(A, 4), 15.0),
        (set_quantity(B, 2), 200.0),
        (others.back_up_cluster(), 1.0),
        (acts.configure(configuration(frozenset({A}), labelled=frozenset({A}))), 200.0),
        (others.restore_cluster(), 400.0),
    ],
    "a configuration cannot be read": [
        *_BOTH_PUBLISHED,
        (acts.configure(configuration(frozenset({A}), complete=False)), 400.0),
    ],
}


def play(world: World, history: History) -> None:
    """Lets the acts of a history happen in the world. The judge raises BrokenPromise."""
    for act, pause in history:
        act.happens(world)
        world.run(pause)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "machine")


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_short_history_breaks_no_promise(world: World, history: History) -> None:
    play(world, history)
    play(world, [(acts.end_causes(), 4.0 * 3600.0)])


def test_while_a_webhook_removes_the_annotation_it_is_rarely_written(world: World) -> None:
    """A write that the webhook alters causes no further write at once. The condition stays False."""
    play(world, [_A_PUBLISHED, (others.alter((Alters("annotation", None),), B, Quantity(3)), 15.0)])
    statuses: list[str] = []
    tell_judge = world.server.on_patch

    def on_patch(before: Document, after: Document, has_condition: bool) -> None:
        statuses.append(world.server.condition["status"])
        tell_judge(before, after, has_condition)

    world.server.on_patch = on_patch
    play(world, [(acts.wait(3600.0), 0.0)])
    assert 20 <= len(statuses) <= 45, "less than once a minute in this hour"
    assert "True" not in statuses
    play(world, [(acts.end_causes(), 400.0)])


def test_a_plugin_list_that_becomes_readable_is_read_in_time(world: World) -> None:
    """No event reports that the list became unreadable, or readable again."""
    becomes_unreadable = acts.change_plugin_list(readable=False, reported=False)
    play(world, [_A_PUBLISHED, (becomes_unreadable, 15.0), (others.write(A, "3"), 700.0)])
    assert world.server.condition["reason"] == "Refused"
    play(world, [(acts.change_plugin_list(readable=True, reported=False), 75.0)])
    assert (world.server.condition["status"], world.server.capacity[A]) == ("True", "2")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_shortest_histories_of_each_kind_break_no_promise(kind: str) -> None:
    for history in histories(kind)[:20]:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            world = World(Path(folder) / "machine")
            play(world, history)
            play(world, [(acts.wait(1000.0), 0.0)])
