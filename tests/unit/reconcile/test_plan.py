"""The plan for each name: the table of all cases, and the rules that hold whatever the Node contains."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.device_plugins import CHECKPOINT
from capacityd.model.node import ANNOTATION, CONDITION
from capacityd.model.plan import UNSAVED, Action, Change, MachineRecord, Plan, Reported
from capacityd.model.quantity import name_problem
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.waits import Wait, WaitReason
from capacityd.node.documents.node import node_state
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import make_plan, make_withdrawal
from capacityd.reconcile.timing import BURST, WriteTimes
from tests.support.configs import config_with
from tests.support.nodes import UID, apply_patch, node, recorded

NAME = "example.com/dongle"
OTHER = "example.com/other"  # always configured as well, so that the configuration is never empty

FOUR, ZERO, ABSENT, UNKNOWN = Quantity(4), Quantity(0), Absent("none of 3 usb devices matches"), Unknown("it is busy")

Case = tuple[dict[str, Any], Reading | None, str | None, int | None, str, int | None]
"""Further inputs, the reading, the Node's value, the number in both records -> the action, the records' new number."""


def under(inputs: dict[str, Any], *cases: tuple[Reading | None, str | None, int | None, str, int | None]) -> list[Case]:
    """These cases with the same further inputs."""
    return [(inputs, *case) for case in cases]


FULL = "/var/lib/capacityd/published.json could not be written: No space left on device"
CASES = [
    *under(
        {},
        # A quantity.
        (FOUR, None, None, "set", 4),
        (FOUR, None, 4, "set", 4),  # another writer removed it
        (FOUR, "4", 4, "keep", 4),
        (FOUR, "4000m", 4, "keep", 4),
        (FOUR, "4", 3, "keep", 4),
        (FOUR, "3", 3, "set", 4),
        (FOUR, "0", 4, "set", 4),  # zeroed by the kubelet
        (FOUR, "7", 4, "set", 4),  # another writer
        (FOUR, "4", None, "refuse", None),
        (FOUR, "0", None, "refuse", None),
        # A quantity of 0 is published, not removed.
        (ZERO, None, None, "set", 0),
        (ZERO, "0", 0, "keep", 0),
        (ZERO, "0", 4, "keep", 0),
        # Absent: capacityd removes its own key, but only if the value is capacityd's or zero.
        (ABSENT, None, None, "keep", None),
        (ABSENT, None, 4, "keep", None),
        (ABSENT, "4", 4, "remove", None),
        (ABSENT, "0", 4, "remove", None),
        (ABSENT, "7", 4, "refuse", None),
        (ABSENT, "4", None, "keep", None),
        # Unknown: the present value stays; a lost one is restored as last published.
        (UNKNOWN, None, None, "keep", None),
        (UNKNOWN, None, 4, "set", 4),
        (UNKNOWN, "4", 4, "keep", 4),
        (UNKNOWN, "0", 4, "set", 4),
        (UNKNOWN, "0", 0, "keep", 0),
        (UNKNOWN, "7", 4, "keep", 4),
        # No longer configured.
        (None, None, 4, "keep", None),
        (None, "4", 4, "remove", None),
        (None, "0", 4, "remove", None),
        (None, "7", 4, "refuse", None),
    ),
    *under(
        {"adopt": {NAME}},
        (FOUR, "4", None, "keep", 4),
        (FOUR, "5", None, "set", 4),
        (FOUR, "0", None, "set", 4),
        (ABSENT, "0", None, "keep", None),
        (UNKNOWN, "7", None, "keep", None),
        (UNKNOWN, "0", None, "keep", None),
    ),
    *under(
        {"device_plugins": {NAME}},
        (FOUR, None, None, "refuse", None),
        (FOUR, "5", 5, "refuse", None),
        (ABSENT, "4", None, "keep", None),
        (ABSENT, "4", 4, "refuse", None),
        (UNKNOWN, "0", 4, "refuse", None),
        (None, "4", 4, "refuse", None),
    ),
    *under(
        {"device_plugins": {NAME}, "adopt": {NAME}},
        (FOUR, "0", 4, "refuse", None),
        (FOUR, "4", None, "refuse", None),
    ),
    # While device plugins are unknown, another writer's value is left alone, and the key stays in the annotation.
    *under(
        {"device_plugins": None},
        (FOUR, "7", 3, "refuse", 3),
        (FOUR, "4", 3, "keep", 4),
        (FOUR, "3", 3, "set", 4),
        (FOUR, None, 3, "set", 4),
        (FOUR, "0", 3, "refuse", 3),
        (UNKNOWN, "7", 3, "refuse", 3),
        (UNKNOWN, "0", 3, "refuse", 3),
        (UNKNOWN, "3", 3, "keep", 3),
        (ABSENT, "7", 3, "refuse", 3),
        (ABSENT, "3", 3, "remove", None),
        (None, "7", 3, "refuse", 3),
    ),
    *under({"device_plugins": None, "adopt": {NAME}}, (FOUR, "4", None, "refuse", None), (FOUR, "3", 3, "set", 4)),
    # Only reductions are held back.
    *under(
        {"uptime": 5, "lower_after": 10},
        (FOUR, "3", 3, "set", 4),
        (FOUR, "0", 5, "set", 4),  # more than the kubelet's zero
        (FOUR, "9", 4, "set", 4),  # 9 was another writer's, not capacityd's
        (FOUR, "9", 5, "hold", 5),
        (ABSENT, "4", 4, "hold", 4),
        (ABSENT, "0", 4, "remove", None),
        (None, "4", 4, "hold", 4),
    ),
    # If the machine record can't be written, nothing is lowered or removed.
    *under(
        {"save_error": FULL},
        (FOUR, "5", 5, "hold", 5),
        (ABSENT, "4", 4, "hold", 4),
        (None, "4", 4, "hold", 4),
        (ABSENT, "0", 4, "hold", 4),
        (FOUR, "3", 3, "set", 4),
        (FOUR, "0", 4, "set", 4),
        (UNKNOWN, "0", 4, "set", 4),
        (FOUR, None, None, "hold", None),  # without a record, the key would not be recognized as capacityd's later
    ),
    *under(
        {"save_error": FULL, "machine_record": recorded({NAME: 4}, node_uid="another")}, (FOUR, None, None, "set", 4)
    ),  # the Node was registered anew
    *under({"save_error": FULL, "machine_record": None}, (FOUR, None, None, "set", 4), (FOUR, "5", 5, "hold", 5)),
    *under({"complete": False}, (None, "4", 4, "keep", 4)),
]


def node_with(current: str | None, annotated: int | None) -> dict[str, Any]:
    """A Node with this value, and this number in the annotation."""
    return node({NAME: current} if current else {}, {NAME: annotated} if annotated is not None else None)


def inputs_of(
    reading: Reading | None,
    machine_record: MachineRecord | None,
    adopt: Collection[str] = (),
    device_plugins: Collection[str] | None = (),
    **more: Any,
) -> Facts:
    """Facts from the reading, and from further fields of Facts. complete: as in Config."""
    config = config_with(adopt, complete=more.pop("complete", True))
    return Facts(with_other(reading), config, machine_record=machine_record, device_plugins=device_plugins, **more)


def with_other(reading: Reading | None) -> dict[str, Reading]:
    """The reading of NAME (None: not configured), and an absent OTHER."""
    return {OTHER: Absent("")} | ({NAME: reading} if reading else {})


def witness(annotated: int | None) -> MachineRecord:
    return recorded({NAME: annotated} if annotated is not None else {})


def change_of(plan: Plan) -> Change:
    """The change of NAME."""
    return {c.name: c for c in plan.changes}[NAME]


def our_condition(document: dict[str, Any]) -> dict[str, Any]:
    (condition,) = (c for c in document["status"]["conditions"] if c["type"] == CONDITION)
    return dict(condition)


def carried_out(
    inputs: Facts, current: str | None, annotated: int | None, action: str, after: int | None
) -> tuple[Plan, dict[str, Any]]:
    """Makes the plan, checks the action on NAME and its annotation, and returns the plan and the Node afterwards."""
    document = node_with(current, annotated)
    plan = make_plan(node_state(document), inputs)
    written = apply_patch(document, plan.write.patch)
    quantity = {"set": str(after), "remove": None}.get(action, current)
    change = change_of(plan)
    assert (change.action, change.old, plan.write.annotated.get(NAME)) == (action, current, after)
    assert change.new == quantity or action == "hold"
    assert written["status"]["capacity"].get(NAME) == quantity
    assert json.loads(written["metadata"]["annotations"].get(ANNOTATION, "{}")).get(NAME) == after
    return plan, written


@pytest.mark.parametrize(("more", "reading", "current", "annotated", "action", "after"), CASES)
def test_each_reading_and_node_have_their_action(
    more: dict[str, Any],
    reading: Reading | None,
    current: str | None,
    annotated: int | None,
    action: str,
    after: int | None,
) -> None:
    inputs = inputs_of(reading, **{"machine_record": witness(annotated), **more})
    plan, written = carried_out(inputs, current, annotated, action, after)
    assert (plan.write.recorded or {}).get(NAME) == after
    assert (NAME in plan.refused) is (action == "refuse")
    condition = our_condition(written)
    lasts = action == "refuse" and (isinstance(reading, Quantity) or after is not None)
    assert (f"refused: {NAME}" in condition["message"]) is lasts
    if inputs.save_error:
        assert (condition["status"], condition["reason"]) == ("False", "StateNotWritable")
        assert condition["message"].startswith(f"{UNSAVED}: {FULL}")


@pytest.mark.parametrize(("current", "annotated", "adopt"), [("8", 4, ()), ("0", 4, ()), ("4", None, {NAME})])
def test_an_unreadable_list_of_device_plugins_is_named(
    current: str, annotated: int | None, adopt: Collection[str]
) -> None:
    inputs = inputs_of(FOUR, witness(annotated), adopt, device_plugins=None)
    change = change_of(make_plan(node_state(node_with(current, annotated)), inputs))
    assert f"({CHECKPOINT}). If this file is damaged," in change.reason


MISSING = None
OF_ANOTHER_NODE = (recorded({NAME: 4}, node_uid="another"), recorded({}, {NAME: 4}, node_uid=""))
"""The Node was deleted and created again, or an image contains the record. Early versions stored no uid."""

WITNESSES: list[tuple[Reading | None, str | None, int | None, MachineRecord | None, str, int | None, bool]] = [
    # reading, the Node's value, the annotation, the machine record -> action, the annotation, whether capacityd owns it
    # Another writer changed only the annotation: no foreign key is removed, overwritten or invented.
    (None, "8", 8, recorded(), "refuse", 8, False),
    (None, "0", 8, recorded(), "refuse", 8, False),
    (ABSENT, "8", 8, recorded(), "refuse", 8, False),
    (FOUR, "77", 77, recorded(), "refuse", 77, False),
    (FOUR, "4", 4, recorded(), "refuse", 4, False),
    (UNKNOWN, None, 123456, recorded(), "keep", 123456, False),
    (UNKNOWN, "0", 123456, recorded(), "keep", 123456, False),
    # The same holds if capacityd owns the key, but published another number than the annotation lists.
    (None, "8", 8, recorded({NAME: 4}), "refuse", 8, True),
    (ABSENT, "0", 8, recorded({NAME: 4}), "refuse", 8, True),
    (UNKNOWN, None, 123456, recorded({NAME: 4}), "keep", 123456, True),
    # A key that capacityd published stays its own, even if another writer changes the number in the annotation.
    (FOUR, "4", 77, recorded({NAME: 4}), "keep", 4, True),
    (FOUR, "77", 77, recorded({NAME: 3}), "set", 4, True),
    # A write whose response was lost may have been carried out.
    (UNKNOWN, None, 5, recorded({NAME: 4}, {NAME: 5}), "set", 5, True),
    (UNKNOWN, None, 4, recorded({NAME: 4}, {NAME: 5}), "set", 4, True),
    (ABSENT, "5", 5, recorded({NAME: 4}, {NAME: 5}), "remove", None, False),
    (ABSENT, "5", 5, recorded({}, {NAME: 5}), "remove", None, False),
    (FOUR, "5", 5, recorded({}, {NAME: 5}), "set", 4, True),
    # Another writer removed the key from the annotation: it is added again if the Node still has this machine's value.
    (FOUR, "4", None, recorded({NAME: 4}), "keep", 4, True),
    (FOUR, "5", None, recorded({NAME: 3}, {NAME: 5}), "set", 4, True),
    (ABSENT, "4", None, recorded({NAME: 4}), "remove", None, False),
    (ABSENT, "4", 77, recorded({NAME: 4}), "remove", None, False),
    (None, "4", None, recorded({NAME: 4}), "remove", None, False),
    # A record of another Node confirms nothing: the value is another writer's, even if the quantity is the same.
    *[
        (reading, current, None, record, action, None, False)
        for record in OF_ANOTHER_NODE
        for reading, current, action in (
            (FOUR, "4", "refuse"),
            (FOUR, "5", "refuse"),
            (FOUR, "0", "refuse"),
            (Quantity(6), "4", "refuse"),
            (ABSENT, "4", "keep"),
            (ABSENT, "0", "keep"),
            (ABSENT, "5", "keep"),
            (UNKNOWN, "4", "keep"),
            (UNKNOWN, "0", "keep"),
            (UNKNOWN, None, "keep"),
        )
    ],
    # A new image for an old Node: configured resources are kept up to date, and nothing else is removed.
    *[
        (reading, current, annotated, record, action, after, ours)
        for record in (MISSING, *OF_ANOTHER_NODE)
        for reading, current, annotated, action, after, ours in (
            (FOUR, "5", 5, "set", 4, True),
            (FOUR, "4", 4, "keep", 4, True),
            (ABSENT, "5", 5, "remove", None, False),
            (UNKNOWN, "0", 5, "set", 5, True),
            (None, "5", 5, "refuse", 5, False),
            (None, "4", 4, "refuse", 4, False),
            (None, None, 5, "keep", None, False),
        )
    ],
]


@pytest.mark.parametrize("annotation", [None, "", "garbage", "[]", "{", f'{{"{NAME}": "4"}}'])
@pytest.mark.parametrize(
    ("reading", "current", "action", "after"),
    [
        (FOUR, "7", "set", 4),
        (FOUR, "0", "set", 4),
        (FOUR, None, "set", 4),
        (Quantity(9), "7", "set", 9),
        (UNKNOWN, "7", "keep", 4),
        (UNKNOWN, "0", "set", 4),
        (UNKNOWN, None, "set", 4),
        (ABSENT, "7", "refuse", None),
        (ABSENT, "4", "remove", None),
    ],
)
def test_a_lost_annotation_gives_up_nothing_that_this_machine_has_published(
    annotation: str | None, reading: Reading, current: str | None, action: str, after: int | None
) -> None:
    plan = plan_with_annotation(annotation, reading, current)
    assert (change_of(plan).action, plan.write.annotated.get(NAME)) == (action, after)
    assert (plan.write.recorded or {}).get(NAME) == after


@pytest.mark.parametrize("annotation", ["{}", '{"example.com/other": 1}'])
@pytest.mark.parametrize(("current", "action"), [("7", "refuse"), ("1500m", "refuse"), ("0", "set"), (None, "set")])
def test_an_annotation_without_the_key_claims_a_value_that_is_not_ours(
    annotation: str, current: str | None, action: str
) -> None:
    plan = plan_with_annotation(annotation, FOUR, current)
    assert change_of(plan).action == action
    assert (NAME in (plan.write.recorded or {})) is (action == "set")
    anew = plan_with_annotation(None, FOUR, current, uid="another")
    assert change_of(anew).action == ("set" if current is None else "refuse"), "nothing is ours on another Node"


def plan_with_annotation(annotation: str | None, reading: Reading, current: str | None, uid: str = "") -> Plan:
    """The plan after this machine has published 4. uid: of the Node that it published to; "": of this Node."""
    document = node({} if current is None else {NAME: current}, annotation)
    record = recorded({NAME: 4}, node_uid=uid or document["metadata"]["uid"])
    return make_plan(node_state(document), inputs_of(reading, record))


@pytest.mark.parametrize(("reading", "current", "annotated", "machine_record", "action", "after", "ours"), WITNESSES)
def test_an_annotation_alone_removes_nothing_that_the_record_does_not_confirm(
    reading: Reading | None,
    current: str | None,
    annotated: int | None,
    machine_record: MachineRecord | None,
    action: str,
    after: int | None,
    ours: bool,
) -> None:
    plan, written = carried_out(inputs_of(reading, machine_record), current, annotated, action, after)
    assert plan.write.recorded is not None
    assert (NAME in plan.write.recorded) is ours
    own = machine_record if machine_record and machine_record.node_uid == UID else None
    known = {own.published.get(NAME), own.intended.get(NAME)} if own else {annotated}
    assert plan.write.recorded.get(NAME) in {None, 4, *known}, "nobody else's number gets into the machine's record"
    if action == "refuse":
        condition = our_condition(written)
        assert (condition["status"], condition["reason"]) == ("False", "Refused")
        whose = "refused" if isinstance(reading, Quantity) else "not published by this machine"
        assert condition["message"].startswith(whose)
        assert NAME in condition["message"]
        reason = "adopt = true takes it over" if isinstance(reading, Quantity) else "no record of publishing it"
        assert reason in change_of(plan).reason
        record = replace(recorded(plan.write.recorded), reported=plan.write.reported)
        again = make_plan(node_state(written), inputs_of(reading, record))
        assert (again.write.patch, again.newly_refused) == ((), ())


def test_without_a_record_and_with_a_damaged_configuration_ownership_stays_unknown() -> None:
    state = node_state(node(capacity={NAME: "4"}, annotated={NAME: 4}))
    inputs = Facts({OTHER: Quantity(1)}, config_with(complete=False))
    assert make_plan(state, inputs).write.recorded is None
    assert make_plan(node_state(node()), inputs).write.recorded == {OTHER: 1}, "nothing on a new Node is unknown"
    inputs = replace(inputs, machine_record=recorded())
    assert make_plan(state, inputs).write.recorded == {OTHER: 1}


def test_an_empty_configuration_removes_nothing_and_names_withdraw() -> None:
    plan = make_plan(node_state(node(capacity={NAME: "4"}, annotated={NAME: 4})), Facts({}))
    assert [c.action for c in plan.changes] == ["keep"]
    assert "capacityd withdraw" in plan.changes[0].reason
    assert plan.write.annotated == {NAME: 4}
    assert plan.health.not_configured == (NAME,)
    assert make_plan(node_state(node(capacity={NAME: "4"})), Facts({})).write.patch == ()


@pytest.mark.parametrize(
    "record",
    [
        "not json",
        "[]",
        '{"cpu": 8, "memory": 1, "hugepages-2Mi": 0, "pods": 110}',
        '{"kubernetes.io/x": 1, "Example.com/a": 1, "a/b/c": 1}',
        '{"example.com/foreign": "5"}',
        '{"example.com/foreign": 4}',
        '{"example.com/one": true, "example.com/less": -1, "example.com/big": 9223372036854775808}',
        '{"example.com/foreign": 5.0}',
        '{"requests.example.com/x": 1}',
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
    # A key that an older image may have published stays in the annotation until someone withdraws it.
    published = {"example.com/foreign": 4} if record == '{"example.com/foreign": 4}' else {}
    for plan, left in (
        (make_plan(node_state(document), Facts({OTHER: Quantity(1)})), {OTHER: 1, **published}),
        (make_withdrawal(node_state(document), Facts()), {}),
    ):
        written = apply_patch(document, plan.write.patch)
        assert {n: q for n, q in written["status"]["capacity"].items() if n != OTHER} == foreign
        assert written["metadata"]["annotations"].pop("theirs") == "x"
        assert json.loads(written["metadata"]["annotations"].get(ANNOTATION, "{}")) == left


def test_less_allocatable_of_a_key_that_only_the_annotation_lists_is_not_reported() -> None:
    document = node({NAME: "4"}, {NAME: 4})
    document["status"]["allocatable"][NAME] = "0"
    for record, reported in ((MachineRecord({}, node_uid=UID), {}), (witness(4), {NAME: "0"})):
        plan = make_plan(node_state(document), Facts({NAME: UNKNOWN}, machine_record=record))
        assert plan.less_allocatable == reported


def test_the_condition_changes_with_its_reason_and_keeps_the_time_of_its_last_transition() -> None:
    readings: dict[str, Reading] = {OTHER: UNKNOWN, NAME: FOUR}
    document, conditions = node(capacity={NAME: "9"}), []
    for now, more, adopt in ((0, {}, ()), (60, {OTHER: Quantity(2)}, ()), (120, {}, (NAME,))):
        readings |= more
        plan = make_plan(node_state(document), Facts(readings, config_with(adopt), now=now))
        document = apply_patch(document, plan.write.patch)
        condition = our_condition(document)
        conditions.append((condition["status"], condition["reason"], condition["lastTransitionTime"]))
        record = replace(recorded(plan.write.recorded), reported=plan.write.reported)
        again = Facts(readings, config_with(adopt), now=now + 1, machine_record=record)
        assert make_plan(node_state(document), again).write.patch == ()
        assert make_plan(node_state(document), again).newly_refused == ()
    assert conditions == [
        ("False", "Unknown", "1970-01-01T00:00:00Z"),
        ("False", "Refused", "1970-01-01T00:00:00Z"),
        ("True", "Published", "1970-01-01T00:02:00Z"),
    ]


def test_an_error_ends_once_nothing_is_configured() -> None:
    document = node(condition="False")
    written = apply_patch(document, make_plan(node_state(document), Facts({})).write.patch)
    assert our_condition(written)["status"] == "True"


@pytest.mark.parametrize(
    ("uptime", "since", "action", "why"),
    [
        (100, {}, Action.HOLD, "; held back for 10 s more, in case it comes back (lower_after)"),
        (105, {NAME: 100}, Action.HOLD, "; held back for 5 s more, in case it comes back (lower_after)"),
        (110, {NAME: 100}, Action.SET, ""),
    ],
)
def test_a_reduction_waits_for_lower_after(uptime: float, since: dict[str, float], action: Action, why: str) -> None:
    inputs = Facts(
        {NAME: Quantity(3)},
        uptime=uptime,
        machine_record=witness(4),
        memory=Memory(lower_since=since),
        lower_after=10,
    )
    plan = make_plan(node_state(node_with("4", 4)), inputs)
    assert plan.changes == (Change(NAME, action, "4", "3", f"the reading changed{why}"),)
    assert plan.lower_since == {NAME: 100}
    back = make_plan(node_state(node_with("4", 4)), replace(inputs, readings={NAME: FOUR}))
    assert ([c.action for c in back.changes], back.lower_since) == (["keep"], {})


def test_only_what_lowers_is_remembered_as_lower() -> None:
    """Otherwise a raise that waits for the rate limit would let a later reduction be written at once."""
    state = node_state(node(capacity={NAME: "4", OTHER: "4"}, annotated={NAME: 4, OTHER: 4}))
    written = WriteTimes(dict.fromkeys([NAME, OTHER], (70.0,) * BURST))
    readings = {NAME: Quantity(5), OTHER: Quantity(3)}
    inputs = Facts(readings, uptime=100, memory=Memory(write_times=written))
    plan = make_plan(state, inputs)
    assert {wait.name: wait.until for wait in plan.waits} == {NAME: 130, OTHER: 130}
    assert plan.lower_since == {OTHER: 100}


def test_what_the_rate_limit_delays_is_neither_recorded_nor_reported() -> None:
    state = node_state(node({NAME: "4", OTHER: "9"}))
    inputs = Facts(
        {NAME: FOUR, OTHER: FOUR},
        config_with({NAME}),
        uptime=100,
        machine_record=recorded(),
        memory=Memory(write_times=WriteTimes(metadata=(70.0,) * BURST)),
    )
    plan = make_plan(state, inputs)
    assert (plan.write.patch, plan.waits) == ((), (Wait(130, WaitReason.RATE_LIMIT),))
    assert (plan.write.annotated, plan.write.recorded, plan.write.reported) == ({}, {}, Reported())
    plan = make_plan(state, replace(inputs, uptime=130))
    assert plan.waits == ()
    assert (plan.write.annotated, plan.write.recorded, plan.newly_refused) == ({NAME: 4}, {NAME: 4}, (OTHER,))
    assert plan.write.reported == Reported(refused=frozenset({OTHER}))


def test_a_withdrawal_removes_all_own_keys_and_no_others() -> None:
    zeroed, plugin = "example.com/zeroed", "example.com/plugin"
    document = node(
        capacity={"cpu": "8", NAME: "4", OTHER: "7", zeroed: "0", plugin: "2"},
        annotated={zeroed: 2, plugin: 2, OTHER: 1, NAME: 4},
        condition="True",
    )
    plan = make_withdrawal(node_state(document), Facts(device_plugins={plugin}))
    assert [c.name for c in plan.changes] == [NAME, OTHER, plugin, zeroed]
    assert plan.refused == (OTHER, plugin)
    written = apply_patch(document, plan.write.patch)
    assert written["status"]["capacity"] == {"cpu": "8", OTHER: "7", plugin: "2"}
    assert ANNOTATION not in written["metadata"]["annotations"]
    assert [c["type"] for c in written["status"]["conditions"]] == ["Ready"]
    assert make_withdrawal(node_state(written), Facts()).write.patch == ()


names = st.sampled_from([NAME, OTHER, "example.com/a.b_c~d", "cpu", "kubernetes.io/x", "a.example/x-1"])
good_names = names.filter(lambda n: not name_problem(n))
quantities = st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1))
current = st.one_of(quantities.map(str), st.sampled_from(["1k", "2Ki", "3000m", "1500m", "0", "1e3", "junk"]))
readings_of = st.dictionaries(
    good_names,
    st.one_of(quantities.map(Quantity), st.just(Absent("none")), st.just(Unknown("why"))),
)
nodes = st.builds(
    node,
    capacity=st.none() | st.dictionaries(names, current),
    annotated=st.none()
    | st.dictionaries(names, quantities)
    | st.text()
    | st.dictionaries(names, st.text() | st.none()),
    condition=st.sampled_from([None, "True", "False"]),
)
machine_records = st.builds(
    recorded,
    st.dictionaries(good_names, quantities),
    st.dictionaries(good_names, quantities),
    node_uid=st.sampled_from([UID, UID, "another"]),
)
inputs = st.builds(
    Facts,
    readings_of,
    st.builds(config_with, st.frozensets(good_names), condition=st.booleans(), complete=st.booleans()),
    now=st.integers(0, 100).map(float),
    machine_record=st.none() | machine_records,
    save_error=st.sampled_from(["", "", "/var is full"]),
    device_plugins=st.none() | st.frozensets(names),
)


@given(nodes, inputs)
def test_after_a_plan_is_carried_out_there_is_nothing_more_to_do(document: dict[str, Any], inputs: Facts) -> None:
    plan = make_plan(node_state(document), inputs)
    withdrawn = apply_patch(document, make_withdrawal(node_state(document), inputs).write.patch)
    written = apply_patch(document, plan.write.patch)
    machine_record = inputs.machine_record
    if machine_record is not None and machine_record.node_uid != UID:
        assert _capacity(withdrawn) == _capacity(document), "the record confirms nothing on this Node"
        machine_record = None
    if plan.write.recorded is not None:
        machine_record = recorded(plan.write.recorded)
    again = make_plan(node_state(written), replace(inputs, machine_record=machine_record))
    assert again.write.patch == ()


def _capacity(document: dict[str, Any]) -> dict[str, str]:
    capacity: dict[str, str] = document["status"].get("capacity", {})
    return capacity
