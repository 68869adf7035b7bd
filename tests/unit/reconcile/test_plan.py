"""What is to happen to each name: the table of all cases, and what must hold whatever the Node says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.node import ANNOTATION, CONDITION, Change, MachineRecord, Plan, read_record
from capacityd.model.quantity import name_problem, whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.parse import node_state
from capacityd.reconcile.plan import make_plan, make_withdrawal
from capacityd.reconcile.plan_input import PlanInput
from tests.support.nodes import apply_patch, node

NAME = "example.com/dongle"
OTHER = "example.com/other"  # configured beside it, so that the configuration is never empty

FOUR, ZERO, ABSENT, UNKNOWN = Quantity(4), Quantity(0), Absent("none of 3 usb devices matches"), Unknown("it is busy")

# reading, the Node's value, our record, device plugin's -> action, new value, recorded afterwards
CASES: list[tuple[Reading | None, str | None, int | None, bool, bool, str, str | None, int | None]] = [
    # A quantity.
    (FOUR, None, None, False, False, "set", "4", 4),
    (FOUR, None, 4, False, False, "set", "4", 4),  # somebody took it away
    (FOUR, "4", 4, False, False, "keep", "4", 4),
    (FOUR, "4000m", 4, False, False, "keep", "4000m", 4),
    (FOUR, "4", 3, False, False, "keep", "4", 4),
    (FOUR, "3", 3, False, False, "set", "4", 4),
    (FOUR, "5", 5, False, False, "set", "4", 4),
    (FOUR, "0", 4, False, False, "set", "4", 4),  # zeroed by the kubelet
    (FOUR, "7", 4, False, False, "set", "4", 4),  # another writer
    (FOUR, "4", None, False, False, "refuse", "4", None),
    (FOUR, "5", None, False, False, "refuse", "5", None),
    (FOUR, "0", None, False, False, "refuse", "0", None),
    (FOUR, "4", None, False, True, "keep", "4", 4),
    (FOUR, "4000m", None, False, True, "keep", "4000m", 4),
    (FOUR, "5", None, False, True, "set", "4", 4),
    (FOUR, "0", None, False, True, "set", "4", 4),
    (FOUR, None, None, False, True, "set", "4", 4),
    (FOUR, None, None, True, False, "refuse", None, None),
    (FOUR, "5", 5, True, False, "refuse", "5", None),
    (FOUR, "0", 4, True, True, "refuse", "0", None),
    (FOUR, "4", None, True, True, "refuse", "4", None),
    # A quantity of 0 is published, not removed.
    (ZERO, None, None, False, False, "set", "0", 0),
    (ZERO, "0", 0, False, False, "keep", "0", 0),
    (ZERO, "0", 4, False, False, "keep", "0", 0),
    (ZERO, "4", 4, False, False, "set", "0", 0),
    (ZERO, "0", None, False, False, "refuse", "0", None),
    (ZERO, "0", None, False, True, "keep", "0", 0),
    (ZERO, "0", None, True, True, "refuse", "0", None),
    # Absent: what is ours goes, and only when its value is ours or a zero.
    (ABSENT, None, None, False, False, "keep", None, None),
    (ABSENT, None, 4, False, False, "keep", None, None),
    (ABSENT, "4", 4, False, False, "remove", None, None),
    (ABSENT, "4k", 4000, False, False, "remove", None, None),
    (ABSENT, "0", 4, False, False, "remove", None, None),
    (ABSENT, "7", 4, False, False, "refuse", "7", None),
    (ABSENT, "4", None, False, False, "keep", "4", None),
    (ABSENT, "0", None, False, True, "keep", "0", None),
    (ABSENT, "4", None, True, False, "keep", "4", None),
    (ABSENT, "4", 4, True, False, "refuse", "4", None),
    # Unknown: what is there stays; what was lost comes back as it was last published.
    (UNKNOWN, None, None, False, False, "keep", None, None),
    (UNKNOWN, None, 4, False, False, "set", "4", 4),
    (UNKNOWN, "4", 4, False, False, "keep", "4", 4),
    (UNKNOWN, "0", 4, False, False, "set", "4", 4),
    (UNKNOWN, "0", 0, False, False, "keep", "0", 0),
    (UNKNOWN, "7", 4, False, False, "keep", "7", 4),
    (UNKNOWN, "7", None, False, True, "keep", "7", None),
    (UNKNOWN, "0", None, False, True, "keep", "0", None),
    (UNKNOWN, "0", 4, True, False, "refuse", "0", None),
    # No longer configured.
    (None, None, 4, False, False, "keep", None, None),
    (None, "4", 4, False, False, "remove", None, None),
    (None, "0", 4, False, False, "remove", None, None),
    (None, "4000m", 4, False, False, "remove", None, None),
    (None, "7", 4, False, False, "refuse", "7", None),
    (None, "4", 4, True, False, "refuse", "4", None),
]


def node_with(stored: str | None, recorded: int | None) -> dict[str, Any]:
    """A Node with this value and record of the name."""
    return node({NAME: stored} if stored else {}, {NAME: recorded} if recorded is not None else None)


def with_other(reading: Reading | None) -> dict[str, Reading]:
    """The reading of the name, None if it is not configured, and of another that is absent."""
    return {OTHER: Absent("")} | ({NAME: reading} if reading else {})


def witness(recorded: int | None) -> MachineRecord:
    return MachineRecord({NAME: recorded} if recorded is not None else {})


def change_of(plan: Plan) -> Change:
    """What happens to the name."""
    return {c.name: c for c in plan.changes}[NAME]


def our_condition(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = (c for c in document["status"]["conditions"] if c["type"] == CONDITION)
    return dict(found)


@pytest.mark.parametrize(("reading", "stored", "recorded", "plugin", "adopt", "action", "new", "after"), CASES)
def test_every_case(
    reading: Reading | None,
    stored: str | None,
    recorded: int | None,
    plugin: bool,
    adopt: bool,
    action: str,
    new: str | None,
    after: int | None,
) -> None:
    document = node_with(stored, recorded)
    inputs = PlanInput(adopt={NAME} if adopt else (), plugins={NAME} if plugin else (), machine=witness(recorded))
    plan = make_plan(with_other(reading), node_state(document), inputs)
    assert (plan.own or {}).get(NAME) == after
    change = change_of(plan)
    assert (change.action, change.old, change.new) == (action, stored, new)
    assert plan.published.get(NAME) == after
    written = apply_patch(document, plan.patch)
    assert written["status"]["capacity"].get(NAME) == new
    assert json.loads(written["metadata"]["annotations"].get(ANNOTATION, "{}")).get(NAME) == after


@pytest.mark.parametrize(
    ("reading", "stored", "recorded", "reason"),
    [
        (FOUR, None, None, "found"),
        (FOUR, None, 3, "lost from the Node, where 3 was published"),
        (FOUR, "4", 3, "as published"),
        (FOUR, "3", 3, "the hardware changed"),
        (FOUR, "0", 0, "the hardware changed"),
        (FOUR, "0", 3, "restored: the Node's 0 is none of ours (a kubelet restart?)"),
        (FOUR, "7", 3, "put back: somebody else wrote 7"),
        (FOUR, "4", None, "the same value, but not published by capacityd; adopt = true takes it over"),
        (FOUR, "7", None, "not published by capacityd; adopt = true takes it over"),
        (UNKNOWN, None, None, "unknown: it is busy"),
        (UNKNOWN, "0", 3, "restored as last published; unknown: it is busy"),
        (UNKNOWN, "3", 3, "stays as it is; unknown: it is busy"),
        (ABSENT, "3", 3, "none of 3 usb devices matches"),
        (None, "3", 3, "no longer configured"),
        (
            *(None, "7", 3),
            "no longer configured, but its value is not the 3 that was published: somebody else's, so it is left",
        ),
    ],
)
def test_why(reading: Reading | None, stored: str | None, recorded: int | None, reason: str) -> None:
    state = node_state(node_with(stored, recorded))
    assert change_of(make_plan(with_other(reading), state, PlanInput(machine=witness(recorded)))).reason == reason


MISSING = None
WITNESSES: list[tuple[Reading | None, str | None, int, MachineRecord | None, str, str | None, int | None, bool]] = [
    # reading, the Node's value, the Node's record, the machine's -> action, new value, the Node's record, ours
    # Somebody wrote the annotation only: no key of another's is removed, overwritten or made up.
    (None, "8", 8, MachineRecord(), "refuse", "8", 8, False),
    (None, "0", 8, MachineRecord(), "refuse", "0", 8, False),
    (ABSENT, "8", 8, MachineRecord(), "refuse", "8", 8, False),
    (FOUR, "77", 77, MachineRecord(), "refuse", "77", 77, False),
    (FOUR, "4", 4, MachineRecord(), "refuse", "4", 4, False),
    (UNKNOWN, None, 123456, MachineRecord(), "keep", None, 123456, False),
    (UNKNOWN, "0", 123456, MachineRecord(), "keep", "0", 123456, False),
    # Nor what is ours by another number than we published.
    (None, "8", 8, MachineRecord({NAME: 4}), "refuse", "8", 8, True),
    (ABSENT, "0", 8, MachineRecord({NAME: 4}), "refuse", "0", 8, True),
    (UNKNOWN, None, 123456, MachineRecord({NAME: 4}), "keep", None, 123456, True),
    # But what we have published stays ours, whatever somebody makes of the number in the annotation.
    (FOUR, "4", 77, MachineRecord({NAME: 4}), "keep", "4", 4, True),
    (FOUR, "77", 77, MachineRecord({NAME: 3}), "set", "4", 4, True),
    # A write whose answer was lost may have been carried out.
    (UNKNOWN, None, 5, MachineRecord({NAME: 4}, {NAME: 5}), "set", "5", 5, True),
    (UNKNOWN, None, 4, MachineRecord({NAME: 4}, {NAME: 5}), "set", "4", 4, True),
    (ABSENT, "5", 5, MachineRecord({NAME: 4}, {NAME: 5}), "remove", None, None, False),
    (ABSENT, "5", 5, MachineRecord({}, {NAME: 5}), "remove", None, None, False),
    (FOUR, "5", 5, MachineRecord({}, {NAME: 5}), "set", "4", 4, True),
    # A new image for an old Node: what is configured goes on, and nothing else is removed.
    (FOUR, "5", 5, MISSING, "set", "4", 4, True),
    (FOUR, "4", 4, MISSING, "keep", "4", 4, True),
    (ABSENT, "5", 5, MISSING, "remove", None, None, False),
    (UNKNOWN, "0", 5, MISSING, "set", "5", 5, True),
    (None, "5", 5, MISSING, "refuse", "5", 5, False),
    (None, None, 5, MISSING, "keep", None, None, False),
]


@pytest.mark.parametrize(("reading", "stored", "recorded", "machine", "action", "new", "after", "ours"), WITNESSES)
def test_what_the_annotation_alone_can_do(
    reading: Reading | None,
    stored: str | None,
    recorded: int,
    machine: MachineRecord | None,
    action: str,
    new: str | None,
    after: int | None,
    ours: bool,
) -> None:
    document, readings = node_with(stored, recorded), with_other(reading)
    plan = make_plan(readings, node_state(document), PlanInput(machine=machine))
    change = change_of(plan)
    assert (change.action, change.new, plan.published.get(NAME)) == (action, new, after)
    assert plan.own is not None
    assert (NAME in plan.own) is ours
    known = {machine.published.get(NAME), machine.intended.get(NAME)} if machine else {recorded}
    assert plan.own.get(NAME) in {None, 4, *known}, "nobody else's number gets into the machine's record"
    written = apply_patch(document, plan.patch)
    assert written["status"]["capacity"].get(NAME) == new
    if action == "refuse":
        said = our_condition(written)
        assert (said["status"], said["reason"]) == ("False", "Refused")
        way_out = "adopt = true" if isinstance(reading, Quantity) else "capacityd withdraw"
        assert NAME in said["message"]
        assert way_out in change.reason
        again = make_plan(
            readings, node_state(written), PlanInput(machine=MachineRecord(plan.own, reported=plan.reported))
        )
        assert (again.patch, again.newly_refused) == ((), ())


@pytest.mark.parametrize("reading", [FOUR, ABSENT, UNKNOWN, None])
def test_what_another_wrote_while_device_plugins_are_unknown_is_refused_and_stays_ours(reading: Reading | None) -> None:
    document = node_with("7", 3)
    inputs = PlanInput(plugins=None, machine=witness(3))
    plan = make_plan(with_other(reading), node_state(document), inputs)
    assert (change_of(plan).action, plan.published, plan.own) == ("refuse", {NAME: 3}, {NAME: 3})
    said = our_condition(apply_patch(document, plan.patch))
    refused = f"refused: {NAME}"
    assert said["message"] == (f"unknown: {NAME}; {refused}" if reading is UNKNOWN else refused)


def test_without_a_record_and_with_a_damaged_configuration_it_stays_unknown_what_is_ours() -> None:
    state = node_state(node(capacity={NAME: "4"}, record={NAME: 4}))
    assert make_plan({OTHER: Quantity(1)}, state, PlanInput(complete=False)).own is None
    assert make_plan({OTHER: Quantity(1)}, state, PlanInput(complete=False, machine=MachineRecord())).own == {OTHER: 1}


FULL = "/var/lib/capacityd/published.json could not be written: No space left on device"


@pytest.mark.parametrize(
    ("reading", "stored", "recorded", "machine", "action"),
    [
        (Quantity(3), "4", 4, MachineRecord({NAME: 4}), "hold"),
        (ABSENT, "4", 4, MachineRecord({NAME: 4}), "hold"),
        (None, "4", 4, MachineRecord({NAME: 4}), "hold"),
        (ABSENT, "0", 4, MachineRecord({NAME: 4}), "hold"),
        (Quantity(5), "4", 4, MachineRecord({NAME: 4}), "set"),
        (FOUR, "0", 4, MachineRecord({NAME: 4}), "set"),
        (UNKNOWN, "0", 4, MachineRecord({NAME: 4}), "set"),
        (FOUR, None, None, MachineRecord({NAME: 4}), "set"),  # the Node was registered anew
        (FOUR, None, None, MachineRecord(), "hold"),  # it would not be known as ours later
        (FOUR, None, None, MISSING, "set"),  # a machine that can keep nothing at all
        (Quantity(3), "4", 4, MISSING, "hold"),
    ],
)
def test_without_room_for_the_record_nothing_is_lowered_or_removed_and_the_condition_says_so(
    reading: Reading | None, stored: str | None, recorded: int | None, machine: MachineRecord | None, action: str
) -> None:
    document = node_with(stored, recorded)
    plan = make_plan(with_other(reading), node_state(document), PlanInput(machine=machine, unwritable=FULL))
    assert change_of(plan).action == action
    written = apply_patch(document, plan.patch)
    now = int(written["status"]["capacity"][NAME]) if action == "set" else recorded
    assert plan.published.get(NAME) == now
    said = our_condition(written)
    assert (said["status"], said["reason"]) == ("False", "StateNotWritable")
    assert said["message"].startswith(f"nothing is lowered or removed: {FULL}")


def test_nothing_of_a_damaged_configuration_is_removed() -> None:
    state = node_state(node(capacity={NAME: "4"}, record={NAME: 4}))
    plan = make_plan({OTHER: Quantity(1)}, state, PlanInput(complete=False))
    assert [(c.name, c.action) for c in plan.changes] == [(NAME, "keep"), (OTHER, "set")]
    assert plan.changes[0].reason == "kept: a file of the configuration can't be read, and may name it"
    assert plan.published == {NAME: 4, OTHER: 1}


def test_an_empty_configuration_removes_nothing_and_says_how_to() -> None:
    plan = make_plan({}, node_state(node(capacity={NAME: "4"}, record={NAME: 4})), PlanInput())
    assert [c.action for c in plan.changes] == ["keep"]
    assert "capacityd withdraw" in plan.changes[0].reason
    assert plan.published == {NAME: 4}


def test_nothing_configured_and_nothing_ours_writes_nothing() -> None:
    assert make_plan({}, node_state(node(capacity={NAME: "4"})), PlanInput()).patch == ()


def test_nothing_is_adopted_while_the_device_plugins_are_unknown() -> None:
    state = node_state(node(capacity={NAME: "4"}))
    plan = make_plan({NAME: FOUR}, state, PlanInput(adopt={NAME}, plugins=None))
    assert [c.action for c in plan.changes] == ["refuse"]
    ours = node_state(node(capacity={NAME: "3"}, record={NAME: 3}))
    assert [c.action for c in make_plan({NAME: FOUR}, ours, PlanInput(plugins=None)).changes] == ["set"]


@pytest.mark.parametrize(
    ("reading", "stored", "zeroes", "action"),
    [
        (FOUR, "7", False, "refuse"),
        (FOUR, "7", True, "refuse"),
        (FOUR, "5", False, "refuse"),
        (FOUR, "4", False, "keep"),
        (FOUR, "3", False, "set"),
        (FOUR, None, False, "set"),
        (FOUR, "0", False, "refuse"),
        (FOUR, "0", True, "set"),
        (UNKNOWN, "7", False, "refuse"),
        (UNKNOWN, "0", False, "refuse"),
        (UNKNOWN, "0", True, "set"),
        (UNKNOWN, "3", False, "keep"),
        (ABSENT, "7", False, "refuse"),
        (ABSENT, "3", False, "remove"),
        (None, "7", False, "refuse"),
    ],
)
def test_what_may_be_a_device_plugins_is_not_put_back(
    reading: Reading | None, stored: str | None, zeroes: bool, action: str
) -> None:
    """Its 3 was published. zeroes: whether a 0 may be the kubelet's."""
    state, readings = node_state(node_with(stored, 3)), with_other(reading)
    inputs = PlanInput(plugins=None, kubelet_may_zero=zeroes)
    plan = make_plan(readings, state, inputs)
    assert change_of(plan).action == action
    if action == "refuse":
        assert plan.published[NAME] == 3, "it stays ours until it is known whose it is"
        assert plan.refused == (NAME,)
    else:
        assert change_of(make_plan(readings, state, PlanInput())).action == action, "as if they were known"


@pytest.mark.parametrize(
    "record",
    [
        "not json",
        "[]",
        "null",
        '{"cpu": 8}',
        '{"cpu": 8, "memory": 1, "hugepages-2Mi": 0, "pods": 110}',
        '{"kubernetes.io/x": 1, "Example.com/a": 1, "a/b/c": 1}',
        '{"example.com/foreign": "5"}',
        '{"example.com/foreign": 4}',
        '{"example.com/one": true, "example.com/less": -1, "example.com/big": 9223372036854775808}',
        '{"example.com/foreign": 5.0}',
        '{"requests.example.com/x": 1}',
        '[["example.com/foreign", 5]]',
        json.dumps({f"example.com/none-{n}": n for n in range(2000)}),
        "",
        "[" * 100000,
    ],
)
def test_a_forged_record_removes_nothing(record: str) -> None:
    foreign = {"cpu": "8", "memory": "1", "pods": "110", "hugepages-2Mi": "0", "example.com/foreign": "5"}
    foreign |= {"kubernetes.io/x": "1", "Example.com/a": "1", "a/b/c": "1", "requests.example.com/x": "1"}
    foreign |= {"example.com/one": "1", "example.com/less": "-1", "example.com/big": "9223372036854775808"}
    document = node(capacity=foreign)
    document["metadata"]["annotations"] = {ANNOTATION: record, "theirs": "x"}
    for plan in (
        make_plan({OTHER: Quantity(1)}, node_state(document), PlanInput()),
        make_withdrawal(node_state(document), PlanInput()),
    ):
        written = apply_patch(document, plan.patch)
        assert {n: q for n, q in written["status"]["capacity"].items() if n != OTHER} == foreign
        assert written["metadata"]["annotations"]["theirs"] == "x"


def test_the_condition_names_what_is_unknown_and_refused_and_heals() -> None:
    document = node(capacity={NAME: "9"})
    readings: dict[str, Reading] = {NAME: FOUR, OTHER: UNKNOWN, "example.com/fine": Quantity(1)}
    plan = make_plan(readings, node_state(document), PlanInput(now=0))
    assert (plan.unknown, plan.refused, plan.newly_refused) == ((OTHER,), (NAME,), (NAME,))
    written = apply_patch(document, plan.patch)
    condition = our_condition(written)
    assert condition["message"] == f"unknown: {OTHER}; refused: {NAME}"
    assert (condition["status"], condition["reason"]) == ("False", "Unknown")
    assert condition["lastTransitionTime"] == "1970-01-01T00:00:00Z"

    assert plan.own is not None
    after = PlanInput(now=60, machine=MachineRecord(plan.own, reported=plan.reported))
    again = make_plan(readings, node_state(written), after)
    assert again.patch == ()
    assert again.newly_refused == ()

    less = make_plan(readings | {OTHER: Quantity(2)}, node_state(written), PlanInput(now=60))
    still = our_condition(apply_patch(written, less.patch))
    assert (still["reason"], still["lastTransitionTime"]) == ("Refused", "1970-01-01T00:00:00Z")

    healed = make_plan(readings | {OTHER: Quantity(2)}, node_state(written), PlanInput(now=60, adopt={NAME}))
    condition = our_condition(apply_patch(written, healed.patch))
    assert (condition["status"], condition["reason"]) == ("True", "Published")
    assert condition["lastTransitionTime"] == "1970-01-01T00:01:00Z"


def test_the_condition_names_things_in_order() -> None:
    names = [f"example.com/{letter}" for letter in "cbaihg"]
    readings: dict[str, Reading] = {name: UNKNOWN if name < "example.com/d" else FOUR for name in names}
    document = node(capacity=dict.fromkeys(names, "9"))
    written = apply_patch(document, make_plan(readings, node_state(document), PlanInput()).patch)
    assert re.findall("/([a-z])", our_condition(written)["message"]) == ["a", "b", "c", "g", "h", "i"]


def test_what_is_not_removed_is_told_once_and_no_trouble_that_lasts() -> None:
    document = node(capacity={NAME: "7"}, record={NAME: 4})
    plan = make_plan({NAME: ABSENT}, node_state(document), PlanInput())
    assert (plan.refused, plan.newly_refused) == ((NAME,), (NAME,))
    written = node_state(apply_patch(document, plan.patch))
    assert written.condition is not None
    assert (written.condition.status, written.condition.message) == ("True", "all configured resources are published")
    assert make_plan({NAME: ABSENT}, written, PlanInput()).patch == ()


def test_a_trouble_is_over_once_nothing_is_configured() -> None:
    document = node(condition="False")
    written = apply_patch(document, make_plan({}, node_state(document), PlanInput()).patch)
    assert our_condition(written)["status"] == "True"


def test_the_condition_can_be_turned_off() -> None:
    document = node()
    assert not any(
        "conditions" in str(o["path"])
        for o in make_plan({NAME: FOUR}, node_state(document), PlanInput(condition=False)).patch
    )
    with_it = apply_patch(document, make_plan({NAME: FOUR}, node_state(document), PlanInput()).patch)
    without = apply_patch(with_it, make_plan({NAME: FOUR}, node_state(with_it), PlanInput(condition=False)).patch)
    assert [c["type"] for c in without["status"]["conditions"]] == ["Ready"]


def test_lower_late() -> None:
    state = node_state(node(capacity={NAME: "4"}, record={NAME: 4}))
    first = make_plan({NAME: Quantity(3)}, state, PlanInput(uptime=100, lower_after=10))
    assert [(c.action, c.new) for c in first.changes] == [("hold", "3")]
    assert (first.published, first.lower_since, first.patch[-1]["path"]) == (
        {NAME: 4},
        {NAME: 100},
        "/status/conditions/-",
    )
    for now, action, why in (
        (105, "hold", "the hardware changed; held back for 5 s more, in case it comes back"),
        (110, "set", "the hardware changed"),
    ):
        plan = make_plan(
            {NAME: Quantity(2)}, state, PlanInput(uptime=now, lower_after=10, lower_since=first.lower_since)
        )
        assert [(c.action, c.reason) for c in plan.changes] == [(action, why)]
    back = make_plan({NAME: Quantity(4)}, state, PlanInput(uptime=105, lower_after=10, lower_since=first.lower_since))
    assert ([c.action for c in back.changes], back.lower_since) == (["keep"], {})


@pytest.mark.parametrize(
    ("reading", "stored", "recorded", "action"),
    [
        (Quantity(5), "4", 4, "set"),  # more
        (Quantity(3), "0", 4, "set"),  # more than the kubelet's zero
        (Quantity(4), "9", 4, "set"),  # somebody else's 9 never was ours
        (Quantity(3), "9", 4, "hold"),
        (ABSENT, "4", 4, "hold"),
        (ABSENT, "0", 4, "remove"),
        (None, "4", 4, "hold"),
    ],
)
def test_only_what_lowers_is_held_back(reading: Reading | None, stored: str, recorded: int, action: str) -> None:
    inputs = PlanInput(uptime=5, lower_after=10, machine=witness(recorded))
    plan = make_plan(with_other(reading), node_state(node_with(stored, recorded)), inputs)
    assert change_of(plan).action == action


def test_only_what_lowers_is_remembered_as_lower() -> None:
    """Else a raise that waits for its turn would let a later loss be written at once."""
    state = node_state(node(capacity={NAME: "4", OTHER: "4"}, record={NAME: 4, OTHER: 4}))
    inputs = PlanInput(uptime=100, not_before={NAME: 130, OTHER: 130})
    plan = make_plan({NAME: Quantity(5), OTHER: Quantity(3)}, state, inputs)
    assert (plan.held, plan.lower_since) == ({NAME: 130, OTHER: 130}, {OTHER: 100})


def test_withdrawal_takes_all_that_is_ours_and_nothing_else() -> None:
    document = node(
        capacity={"cpu": "8", NAME: "4", OTHER: "7", "example.com/zeroed": "0"},
        record={NAME: 4, OTHER: 1, "example.com/zeroed": 2},
    )
    document = apply_patch(document, make_plan({NAME: FOUR}, node_state(document), PlanInput(complete=False)).patch)
    plan = make_withdrawal(node_state(document), PlanInput())
    written = apply_patch(document, plan.patch)
    assert written["status"]["capacity"] == {"cpu": "8", OTHER: "7"}
    assert ANNOTATION not in written["metadata"]["annotations"]
    assert [c["type"] for c in written["status"]["conditions"]] == ["Ready"]
    assert plan.refused == (OTHER,)
    assert make_withdrawal(node_state(written), PlanInput()).patch == ()


def test_a_withdrawal_leaves_what_a_device_plugin_has() -> None:
    document = node(capacity={NAME: "4", OTHER: "0"}, record={NAME: 4, OTHER: 1})
    plan = make_withdrawal(node_state(document), PlanInput(plugins={NAME, OTHER}))
    written = apply_patch(document, plan.patch)
    assert (written["status"]["capacity"], plan.refused) == ({NAME: "4", OTHER: "0"}, (NAME, OTHER))
    assert ANNOTATION not in written["metadata"]["annotations"]


def test_a_withdrawal_tells_names_in_order() -> None:
    record = f'{{"{OTHER}": 1, "example.com/a": 1, "{NAME}": 4}}'
    plan = make_withdrawal(node_state(node(capacity={}, record=record)), PlanInput())
    assert [c.name for c in plan.changes] == ["example.com/a", NAME, OTHER]


names = st.sampled_from([NAME, OTHER, "example.com/a.b_c~d", "cpu", "kubernetes.io/x", "a.example/x-1"])
good_names = names.filter(lambda n: not name_problem(n))
quantities = st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1))
stored = st.one_of(quantities.map(str), st.sampled_from(["1k", "2Ki", "3000m", "1500m", "0", "1e3", "junk"]))
readings_of = st.dictionaries(
    good_names,
    st.one_of(quantities.map(Quantity), st.just(Absent("none")), st.just(Unknown("why"))),
)
nodes = st.builds(
    node,
    capacity=st.none() | st.dictionaries(names, stored),
    record=st.none() | st.dictionaries(names, quantities) | st.text() | st.dictionaries(names, st.text() | st.none()),
    condition=st.sampled_from([None, "True", "False"]),
)
inputs = st.builds(
    PlanInput,
    adopt=st.frozensets(good_names),
    plugins=st.none() | st.frozensets(names),
    complete=st.booleans(),
    now=st.integers(0, 100).map(float),
    condition=st.booleans(),
    machine=st.none()
    | st.builds(MachineRecord, st.dictionaries(good_names, quantities), st.dictionaries(good_names, quantities)),
    unwritable=st.sampled_from(["", "", "/var is full"]),
    kubelet_may_zero=st.booleans(),
)


@given(readings_of, nodes, inputs)
def test_applying_and_planning_again_changes_nothing(
    readings: dict[str, Reading], document: dict[str, Any], given: PlanInput
) -> None:
    plan = make_plan(readings, node_state(document), given)
    after = node_state(apply_patch(document, plan.patch))
    if plan.own is not None:
        given = replace(given, machine=MachineRecord(plan.own))
    again = make_plan(readings, after, given)
    assert again.patch == ()


@given(readings_of, nodes, inputs)
def test_no_key_that_is_neither_ours_nor_configured_is_touched(
    readings: dict[str, Reading], document: dict[str, Any], given: PlanInput
) -> None:
    plan = make_plan(readings, node_state(document), given)
    before, after = _capacity(document), _capacity(apply_patch(document, plan.patch))
    record = read_record(node_state(document).annotation)
    for name in before.keys() | after.keys():
        if before.get(name) == after.get(name):
            continue
        assert name in readings or name in record
        assert not name_problem(name)
        assert name not in (given.plugins or ())
        ours = name in record and (given.machine is None or given.machine.names(name))
        assert ours or name not in before or name in given.adopt
        if name not in after:
            assert whole_quantity(before[name]) in (record[name], 0)
            assert name in readings if given.machine is None else given.machine.confirms(name, record[name])


@given(readings_of, nodes, inputs)
def test_unknown_never_lowers_or_removes(
    readings: dict[str, Reading], document: dict[str, Any], given: PlanInput
) -> None:
    plan = make_plan(readings, node_state(document), given)
    before, after = _capacity(document), _capacity(apply_patch(document, plan.patch))
    for name, reading in readings.items():
        if isinstance(reading, Unknown) and name in before and before[name] != after.get(name):
            assert whole_quantity(before[name]) == 0
            assert (whole_quantity(after[name]) or 0) > 0


@given(readings_of, nodes, inputs)
def test_patches_are_guarded_json_patches(
    readings: dict[str, Reading], document: dict[str, Any], given: PlanInput
) -> None:
    for plan in (make_plan(readings, node_state(document), given), make_withdrawal(node_state(document), given)):
        _check(plan)


def _check(plan: Plan) -> None:
    operations = [dict(o) for o in plan.patch]
    jsonpatch.JsonPatch(json.loads(json.dumps(operations)))
    tested = {str(o["path"]) for o in operations if o["op"] == "test"}
    kinds = [o["op"] for o in operations]
    assert kinds == sorted(kinds, key=lambda op: op != "test"), "all tests come first"
    for operation in operations:
        path = str(operation["path"])
        assert path.startswith(("/metadata/uid", "/metadata/annotations", "/status/capacity", "/status/conditions"))
        if operation["op"] != "test" and not path.endswith("/conditions/-"):
            assert path in tested
    if operations:
        assert operations[0]["path"] == "/metadata/uid"


def _capacity(document: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = document["status"].get("capacity", {})
    return found
