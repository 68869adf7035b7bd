"""The judge finds each broken promise, and finds nothing wrong where all promises are kept.

Each test tells the judge a short story (see stories.py): steps of a machine, its Node and capacityd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.judge.judge import BrokenPromise, Judge
from tests.support.judge.surroundings import Trouble
from tests.unit.judge.stories import LABEL_A, A, B, Story

Happens = Callable[[Story], object]


def published(a: int = 4, **configuration: Any) -> Story:
    """A story in which capacityd has published the number a, and the condition is True."""
    story = Story(**configuration)
    story.has(a=a)
    story.registers()
    story.publishes(a=a)
    story.waits(100.0)
    return story


# Parts of stories.


def _others_key(story: Story) -> None:
    story.other_writes(capacity={B: "9"}, allocatable={B: "9"})
    story.configure(A, B)
    story.has(b=2)


def _key_of_plugin(story: Story) -> None:
    story.has_plugins(B)
    story.configure(A, B)
    story.has(b=2)


def _changed_by_another(story: Story) -> None:
    story.other_writes(capacity={A: "7"}, allocatable={A: "7"})
    story.has(a="absent")
    story.reads_machine()
    story.at += 11.0  # unlike waits(): the judge does not look in between


def _unknown(story: Story) -> None:
    story.has(a="unknown")


def _lower(story: Story) -> None:
    story.has(a=2)
    story.reads_machine()
    story.at += 9.0


def _lower_at_boot(story: Story) -> None:
    story.boots()
    story.configure(lower_after_boot=60.0)
    story.has(a=2)
    story.reads_machine()
    story.at += 15.0


def _observe(story: Story) -> None:
    story.configure(observe=True)


def _changed_after_the_read(story: Story) -> None:
    story.reads_node()
    story.other_writes(capacity={A: "9"}, allocatable={A: "9"})


def _remove(story: Story) -> None:
    story.writes(capacity={A: None}, allocatable={A: None}, annotated={}, condition=True)


def _give_up(story: Story) -> None:
    story.writes(annotated={}, condition=True)


# The name of the promise, what happens before, and the step that breaks the promise.
BROKEN: dict[str, tuple[str, Happens, Happens]] = {
    "another's key is changed": ("untouched", _others_key, lambda s: s.publishes(a=4, b=2)),
    "another's key is claimed": ("untouched", _others_key, lambda s: s.writes(annotated={A: 4, B: 9}, condition=False)),
    "another's value is removed": ("untouched", _changed_by_another, _remove),
    "a device plugin's key is written": ("untouched", _key_of_plugin, lambda s: s.publishes(a=4, b=2)),
    "cpu is removed": (
        "untouched",
        lambda s: s.other_writes(annotated={A: 4, "cpu": 8}),
        lambda s: s.writes(capacity={"cpu": None}),
    ),
    "the Node's spec is changed": ("untouched", lambda s: None, lambda s: s.writes(unschedulable=True)),
    "a key is created without a configuration": (
        "untouched",
        lambda s: None,
        lambda s: s.writes(capacity={B: "1"}, allocatable={B: "1"}, annotated={A: 4, B: 1}),
    ),
    "a number is lowered while the reading is unknown": (
        "unknown_keeps",
        _unknown,
        lambda s: s.publishes(a=3, condition=False),
    ),
    "a number is removed while the reading is unknown": ("unknown_keeps", _unknown, _remove),
    "a number falls early": ("holds", _lower, lambda s: s.publishes(a=2)),
    "a number falls early after a boot": ("holds", _lower_at_boot, lambda s: s.publishes(a=2)),
    "True is written although the machine has another number": (
        "true_when_written",
        lambda s: s.has(a=5),
        lambda s: s.writes(condition=True),
    ),
    "True is written although more is allocatable than is published": (
        "true_when_written",
        lambda s: s.other_writes(allocatable={A: "9"}),
        lambda s: s.writes(condition=True),
    ),
    "True is written although another has changed a number whose reduction is held": (
        "true_when_written",
        lambda s: s.has(a=3).other_writes(capacity={A: "8"}, allocatable={A: "8"}),
        lambda s: s.writes(condition=True),
    ),
    "observe mode writes": ("observes", _observe, lambda s: s.publishes(a=4)),
    "an unseen value is overwritten": (
        "seen",
        _changed_after_the_read,
        lambda s: s.writes(reads_first=False, capacity={A: "4"}, allocatable={A: "4"}),
    ),
    "True stays although the machine has less": (
        "true_only_while_right",
        lambda s: s.has(a=3),
        lambda s: s.waits(30.0),
    ),
    "True stays although a published key is no longer configured": (
        "true_only_while_right",
        lambda s: s.configure(B).has(b="absent"),
        lambda s: s.waits(30.0),
    ),
    "True stays although another has set the label": (
        "true_only_while_right",
        lambda s: s.configure(label=True).other_writes(labels={A: "7"}),
        lambda s: s.waits(30.0),
    ),
    "a wrong number is not corrected": (
        "right_in_time",
        lambda s: s.writes(condition=False).has(a=5),
        lambda s: s.waits(90.0),
    ),
    "the condition stays False": ("right_in_time", lambda s: s.other_writes(condition=False), lambda s: s.waits(90.0)),
    "a number is written too often": (
        "few_writes",
        lambda s: None,
        lambda s: [s.waits(2.0).has(a=number).publishes(a=number) for number in range(5, 13)],
    ),
    "a request while nothing changes": (
        "quiet",
        lambda s: s.waits(5000.0).reads_machine().reads_node().waits(800.0).reads_machine(),
        lambda s: s.reads_node(),
    ),
}


@pytest.mark.parametrize(("promise", "before", "breaks"), BROKEN.values(), ids=BROKEN)
def test_a_broken_promise_is_found(promise: str, before: Happens, breaks: Happens) -> None:
    story = published()
    before(story)
    with pytest.raises(BrokenPromise) as broken:
        breaks(story)
    assert broken.value.name == promise


def _reduces_in_time(story: Story) -> None:
    story.has(a=2)
    story.waits(1.0)
    story.reads_machine()
    story.waits(10.0)
    story.publishes(a=2)


def _gives_up(story: Story) -> None:
    _changed_by_another(story)
    _give_up(story)


def _labels(story: Story) -> None:
    story.configure(label=True)
    story.publishes(a=4, label=True)
    story.waits(100.0)
    assert LABEL_A in story.judge.memory.ours


def _says_false(story: Story) -> None:
    _others_key(story)
    story.waits(2.0)
    story.writes(condition=False)
    story.waits(2000.0)


def _outage(story: Story) -> None:
    story.begins(Trouble.API)
    story.has(a=5)
    story.waits(2000.0)
    story.ends(Trouble.API)
    story.waits(200.0)
    story.publishes(a=5)


def _reads_often(story: Story) -> None:
    for _ in range(6):
        story.waits(1.0)
        story.reads_machine()
    story.waits(1.0)
    story.has(a=5)
    story.waits(60.0)
    story.reads_machine()
    story.publishes(a=5)


def _resyncs(story: Story) -> None:
    for _ in range(3):
        story.waits(3600.0)
        story.reads_machine()
        story.reads_node()


KEPT: dict[str, Happens] = {
    "a reduction holds for its time": _reduces_in_time,
    "a key that another has changed is given up": _gives_up,
    "a label follows its number": _labels,
    "another's key stays, and the condition says so": _says_false,
    "an outage lasts for half an hour": _outage,
    "one request for each resync": _resyncs,
    "an event waits after six passes in quick succession": _reads_often,
}


@pytest.mark.parametrize("happens", KEPT.values(), ids=KEPT)
def test_where_promises_are_kept_nothing_is_found(happens: Happens) -> None:
    story = published()
    happens(story)
    story.waits(15.0)


def test_a_number_may_fall_exactly_when_lower_after_has_passed() -> None:
    story = published()
    story.has(a=2)
    story.reads_machine()
    story.at += 10.0
    story.publishes(a=2)


def test_a_reading_that_returns_for_a_moment_begins_lower_after_anew() -> None:
    story = published()
    story.has(a=2)
    story.reads_machine()
    story.waits(5.0)
    story.has(a=4)
    story.reads_machine()
    story.waits(1.0)
    story.has(a=2)
    story.reads_machine()
    story.waits(6.0)
    with pytest.raises(BrokenPromise, match="has fallen to 2 after 6"):
        story.publishes(a=2)


def test_no_key_on_a_new_node_is_capacityds() -> None:
    story = published()
    story.registers(uid="2", a="4")
    with pytest.raises(BrokenPromise, match="has taken over"):
        story.publishes(a=4)


def test_a_private_text_in_the_output_is_found() -> None:
    story = Story(Judge(secrets=["hidden-7"]))
    story.shows("nothing to see")
    with pytest.raises(BrokenPromise, match="hidden-7"):
        story.shows("a label is hidden-7")


def test_an_annotation_alone_makes_no_key_capacityds() -> None:
    """capacityd may remove only what it has written, whatever the annotation says."""
    story = published(judge=Judge(admitted=()))
    story.other_writes(capacity={B: "9"}, allocatable={B: "9"}, annotated={A: 4, B: 9})
    story.reads_machine()
    story.waits(11.0)
    with pytest.raises(BrokenPromise, match="not its own"):
        story.publishes(a=4)
