"""What happens to one key: a line for each case."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from capacityd.model.key import Key
from capacityd.model.node import ConditionReason, Stored
from capacityd.model.plan import Action
from capacityd.model.reading import Quantity, Reading
from capacityd.reconcile.decide import decide
from capacityd.reconcile.decision import Entry
from capacityd.reconcile.inputs import Inputs
from tests.unit.reconcile.doubles import ABSENT, UNKNOWN, A, B

NOW = 1000.0
INPUTS = Inputs(readings={B: ABSENT}, uptime=NOW, lower_after=10.0)
EMPTY = replace(INPUTS, readings={})
"""No resource is configured. Then no key is removed for want of a configuration."""

REFUSED, UNKNOWN_READING = ConditionReason.REFUSED, ConditionReason.UNKNOWN
REJECTED = ConditionReason.CONFIGURATION_REJECTED


@dataclass(frozen=True)
class Case:
    """An entry, and the decision about it."""

    reading: int | Reading | None
    """None: nothing configures the key."""
    published: int | None
    stored: str
    """What the Node has: "capacity", or "capacity/allocatable"; "-" stands for no number."""
    action: Action
    then: int | None
    """The number in the annotation afterwards."""
    desired: int | None = None
    """The number that the action SET writes."""
    trouble: ConditionReason | None = None
    adopts: bool = False
    annotated: int | None = None
    delay_over: bool = False
    """Whether a reduction has been due for exactly `lower_after`, so that it is not held back any more."""
    plugins: bool | None = False
    """Whether a device plugin has registered the name; None: the list is unreadable."""
    inputs: Inputs = INPUTS


KEEP, SET, REMOVE, HOLD, REFUSE = Action.KEEP, Action.SET, Action.REMOVE, Action.HOLD, Action.REFUSE

CASES = {
    # not published yet: reading, published, stored, action, then
    "first published": Case(4, None, "-", SET, 4, desired=4),
    "allocatable alone is nobody's": Case(4, None, "-/9", SET, 4, desired=4),
    "another writer's": Case(4, None, "9", REFUSE, None, trouble=REFUSED),
    "another writer's equal number": Case(4, None, "4", REFUSE, None, trouble=REFUSED),
    "another writer's 0": Case(4, None, "0", REFUSE, None, trouble=REFUSED),
    "adopted": Case(4, None, "9", SET, 4, desired=4, adopts=True),
    "adopted as it is": Case(4, None, "4", KEEP, 4, adopts=True),
    "nothing to publish": Case(ABSENT, None, "9", KEEP, None),
    "unknown and not published": Case(UNKNOWN, None, "9", KEEP, None, trouble=UNKNOWN_READING),
    # published: reading, published, stored, action, then
    "as published": Case(4, 4, "4", KEEP, 4),
    "raised at once": Case(5, 4, "4", SET, 5, desired=5),
    "lowered late": Case(3, 4, "4", HOLD, 4),
    "lowered after the delay": Case(3, 4, "4", SET, 3, desired=3, delay_over=True),
    "lowered to 0 late": Case(0, 4, "4", HOLD, 4),
    "lower than published, higher than stored": Case(3, 4, "2", SET, 3, desired=3),
    "lower than published, after a kubelet's zero": Case(3, 4, "0", SET, 3, desired=3),
    "higher than published, lower than another's number": Case(3, 2, "9", SET, 3, desired=3),
    "restored from 0": Case(4, 4, "0", SET, 4, desired=4),
    "restored from a foreign number": Case(4, 4, "9", SET, 4, desired=4),
    "restored from no whole number": Case(4, 4, "1500m", SET, 4, desired=4),
    "missing": Case(4, 4, "-", SET, 4, desired=4),
    "less allocatable": Case(4, 4, "4/1", SET, 4, desired=4),
    "more allocatable": Case(4, 4, "4/9", SET, 4, desired=4),
    "no allocatable": Case(4, 4, "4/-", SET, 4, desired=4),
    "restored while a reduction is held back": Case(3, 4, "9", SET, 4, desired=4),
    "allocatable restored while a reduction is held back": Case(3, 4, "4/9", SET, 4, desired=4),
    # an unknown reading: reading, published, stored, action, then
    "unknown keeps": Case(UNKNOWN, 4, "4", KEEP, 4, trouble=UNKNOWN_READING),
    "unknown restores from 0": Case(UNKNOWN, 4, "0", SET, 4, desired=4, trouble=UNKNOWN_READING),
    "unknown restores": Case(UNKNOWN, 4, "9", SET, 4, desired=4, trouble=UNKNOWN_READING),
    "unknown restores what is missing": Case(UNKNOWN, 4, "-", SET, 4, desired=4, trouble=UNKNOWN_READING),
    # absent, or not configured (None): reading, published, stored, action, then
    "absent": Case(ABSENT, 4, "4", HOLD, 4),
    "absent for long": Case(ABSENT, 4, "4", REMOVE, None, delay_over=True),
    "absent for long, zeroed": Case(ABSENT, 4, "0", REMOVE, None, delay_over=True),
    "absent, zeroed": Case(ABSENT, 4, "0", SET, 4, desired=4),
    "absent and gone": Case(ABSENT, 4, "-", KEEP, None),
    "absent, allocatable left": Case(ABSENT, 4, "-/4", REMOVE, None),
    "absent, and another's number": Case(ABSENT, 4, "9", KEEP, None),
    "absent, and the annotated number": Case(ABSENT, 4, "3", REMOVE, None, annotated=3, delay_over=True),
    "not configured": Case(None, 4, "4", HOLD, 4),
    "not configured for long": Case(None, 4, "4", REMOVE, None, delay_over=True),
    "not configured, zeroed: not restored": Case(None, 4, "0", HOLD, 4),
    "not configured, less allocatable: not restored": Case(None, 4, "4/1", HOLD, 4),
    "not configured, and the annotated number": Case(None, 4, "3", HOLD, 3, annotated=3),
    "not configured, and another's number": Case(None, 4, "9", KEEP, None),
    "an empty configuration removes nothing": Case(None, 4, "4", KEEP, 4, trouble=REJECTED, inputs=EMPTY),
    "an empty configuration restores nothing": Case(None, 4, "0", KEEP, 4, trouble=REJECTED, inputs=EMPTY),
    "an incomplete configuration removes what is absent": Case(
        ABSENT, 4, "4", REMOVE, None, inputs=EMPTY, delay_over=True
    ),
    # device plugins ("no list": the list of plugins is unreadable): reading, published, stored, action, then
    "a plugin's name": Case(4, 4, "4", REFUSE, None, trouble=REFUSED, plugins=True),
    "a plugin's name that nothing wants": Case(None, 4, "4", KEEP, None, plugins=True),
    "no list: as published": Case(4, 4, "4", KEEP, 4, plugins=None),
    "no list: raised": Case(5, 4, "4", SET, 5, desired=5, plugins=None),
    "no list: first published": Case(4, None, "-", SET, 4, desired=4, plugins=None),
    "no list: missing": Case(4, 4, "-", SET, 4, desired=4, plugins=None),
    "no list: nothing adopted": Case(4, None, "9", REFUSE, None, trouble=REFUSED, adopts=True, plugins=None),
    "no list: a changed number": Case(4, 4, "9", REFUSE, 4, trouble=REFUSED, plugins=None),
    "no list: a zeroed number": Case(4, 4, "0", REFUSE, 4, trouble=REFUSED, plugins=None),
    "no list: less allocatable": Case(4, 4, "4/1", REFUSE, 4, trouble=REFUSED, plugins=None),
    "no list: a published 0": Case(0, 0, "0", KEEP, 0, plugins=None),
}


def stored(text: str) -> Stored:
    """The numbers that the text of a case stands for."""
    capacity, _, allocatable = text.partition("/")
    places = [None if place == "-" else place for place in (capacity, allocatable or capacity)]
    return Stored(*places)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_resource(case: Case) -> None:
    reading = Quantity(case.reading) if isinstance(case.reading, int) else case.reading
    annotated = case.published if case.annotated is None else case.annotated
    entry = Entry(
        Key(A),
        reading,
        case.published,
        annotated,
        stored(case.stored),
        adopts=case.adopts,
        lower_since=NOW - INPUTS.lower_after if case.delay_over else None,
        has_device_plugin=case.plugins,
    )
    decision = decide(entry, case.inputs)
    trouble = decision.trouble.reason if decision.trouble else None
    assert (decision.action, decision.published, trouble) == (case.action, case.then, case.trouble), decision.reason
    if case.action is SET:
        assert decision.desired == case.desired


LABEL = Key(A).label
LABELS = {  # reading, published, the label's value, action, the number in the annotation afterwards
    "set": (4, None, None, SET, 4),
    "another writer's": (4, None, "x", REFUSE, None),
    "as published": (4, 4, "4", KEEP, 4),
    "another notation of the number": (1000, 1000, "1k", SET, 1000),
    "lowered at once": (3, 4, "4", SET, 3),
    "removed at once": (None, 4, "4", REMOVE, None),
    "another writer's 0": (None, 4, "0", KEEP, None),
    "restored": (4, 4, "9", SET, 4),
}


@pytest.mark.parametrize(("number", "published", "value", "action", "then"), LABELS.values(), ids=LABELS)
def test_a_label(
    number: int | None, published: int | None, value: str | None, action: Action, then: int | None
) -> None:
    """A lower label stops no pod, so it needs no delay. No kubelet writes a label, so a 0 is another writer's."""
    reading = None if number is None else Quantity(number)
    decision = decide(Entry(LABEL, reading, published, published, Stored(value, value)), INPUTS)
    assert (decision.action, decision.published) == (action, then)


def test_a_label_of_an_unknown_resource_stays_without_a_trouble_of_its_own() -> None:
    decision = decide(Entry(LABEL, UNKNOWN, 4, 4, Stored("4", "4")), INPUTS)
    assert (decision.action, decision.published, decision.trouble) == (KEEP, 4, None)


REASONS = {  # the reason -> reading, published, stored, whether the configuration has changed
    "newly published": (4, None, "-", False),
    "the reading differs": (5, 4, "4", False),
    "the configuration differs": (5, 4, "4", True),
    "restored: the Node had 9 instead of 4": (5, 4, "9", True),
    "restored: the Node had 4 (allocatable 1) instead of 4": (4, 4, "4/1", False),
    "restored: the Node had 0 instead of 4 (a kubelet restart?)": (4, 4, "0", False),
    "restored: the Node had none instead of 4": (4, 4, "-", False),
}


@pytest.mark.parametrize(("reason", "case"), REASONS.items())
def test_the_reason_for_a_write(reason: str, case: tuple[int, int | None, str, bool]) -> None:
    number, published, text, is_reconfigured = case
    entry = Entry(Key(A), Quantity(number), published, published, stored(text), is_reconfigured=is_reconfigured)
    assert decide(entry, INPUTS).reason == reason
