"""Labels: the same published number in a second place, with the same ownership."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from capacityd.model.errors import NodeConflict
from capacityd.model.node import ANNOTATION, CONDITION
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.reconcile.events import events
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import make_plan, make_withdrawal
from capacityd.reconcile.timing import BURST, WriteTimes
from capacityd.schema.config import Config, Resource, Settings
from tests.support.configs import loaded
from tests.support.nodes import UID, apply_patch, node

NAME, LABEL = "example.com/dongle", "label example.com/dongle"
FOUR, ABSENT, UNKNOWN = Quantity(4), Absent("none"), Unknown("busy")
LABELLED = Config((Resource(NAME, "static", (), label=True), Resource("example.com/other", "static", ())))


def state(
    capacity: str | None = None, label: str | None = None, annotated: Mapping[str, int] | None = None
) -> dict[str, Any]:
    document = node({} if capacity is None else {NAME: capacity}, annotated)
    document["metadata"]["labels"] = {"theirs": "x", **({} if label is None else {NAME: label})}
    return document


def planned(
    document: dict[str, Any],
    reading: Reading | None,
    *,
    record: Mapping[str, int] | None = None,
    config: Config = LABELLED,
    **more: Any,
) -> Plan:
    """record: the machine record; None: what the annotation lists."""
    if record is None:
        record = json.loads(document["metadata"]["annotations"].get(ANNOTATION, "{}"))
    readings: dict[str, Reading] = {"example.com/other": ABSENT} | ({} if reading is None else {NAME: reading})
    facts = Facts(readings, config, machine_record=MachineRecord(record, node_uid=UID), uptime=1e4, **more)
    return make_plan(node_state(document), facts)


def after(document: dict[str, Any], plan: Plan) -> tuple[str | None, str | None, dict[str, int], str]:
    """The capacity, the label, the annotation and the condition's reason after the write."""
    written = apply_patch(document, plan.write.patch)
    metadata, status = written["metadata"], written["status"]
    assert {**metadata.get("labels", {}), NAME: ""} == {**document["metadata"].get("labels", {}), NAME: ""}
    annotation = json.loads(metadata["annotations"].get(ANNOTATION, "{}"))
    reason = next((c["reason"] for c in status["conditions"] if c["type"] == CONDITION), "")
    return status["capacity"].get(NAME), metadata.get("labels", {}).get(NAME), annotation, reason


BOTH = {NAME: 4, LABEL: 4}
ONE = {NAME: 4}


@pytest.mark.parametrize(
    ("reading", "capacity", "label", "annotated", "expected"),
    [
        (FOUR, None, None, {}, ("4", "4", BOTH, "Published")),
        (FOUR, "4", "4", BOTH, ("4", "4", BOTH, "Published")),
        (FOUR, "4", None, ONE, ("4", "4", BOTH, "Published")),  # label = true was added
        (FOUR, "3", "3", {NAME: 3, LABEL: 3}, ("4", "4", BOTH, "Published")),
        (FOUR, "4", None, BOTH, ("4", "4", BOTH, "Published")),  # another writer removed it
        (FOUR, "4", "7", BOTH, ("4", "4", BOTH, "Published")),  # another writer changed it
        (FOUR, "4", "0", BOTH, ("4", "4", BOTH, "Published")),
        (FOUR, "0", "4", BOTH, ("4", "4", BOTH, "Published")),  # a kubelet does not write labels
        # The label of another writer, whatever its value. The resource is still published.
        (FOUR, None, "4", {}, ("4", "4", ONE, "Refused")),
        (FOUR, None, "0", {}, ("4", "0", ONE, "Refused")),
        (FOUR, None, "yes", {}, ("4", "yes", ONE, "Refused")),
        (FOUR, "4", "yes", ONE, ("4", "yes", ONE, "Refused")),
        # The resource of another writer: nothing is published, so there is no label.
        (FOUR, "4", None, {}, ("4", None, {}, "Refused")),
        (FOUR, "9", None, {}, ("9", None, {}, "Refused")),
        (ABSENT, "4", "4", BOTH, (None, None, {}, "Published")),
        (ABSENT, "4", "7", BOTH, (None, "7", {}, "Published")),
        (ABSENT, "4", "0", BOTH, (None, "0", {}, "Published")),  # no kubelet has written this 0
        (ABSENT, None, "4", {}, (None, "4", {}, "Published")),
        (UNKNOWN, "4", "4", BOTH, ("4", "4", BOTH, "Unknown")),
        (UNKNOWN, "4", None, BOTH, ("4", "4", BOTH, "Unknown")),
        (UNKNOWN, "4", "7", BOTH, ("4", "7", BOTH, "Unknown")),
        (UNKNOWN, "4", "0", BOTH, ("4", "0", BOTH, "Unknown")),
        (UNKNOWN, "4", None, ONE, ("4", None, ONE, "Unknown")),
        (None, "4", "4", BOTH, (None, None, {}, "Published")),
    ],
)
def test_the_label_follows_the_resource_in_every_case(
    reading: Reading | None, capacity: str | None, label: str | None, annotated: dict[str, int], expected: object
) -> None:
    document = state(capacity, label, annotated)
    assert after(document, planned(document, reading)) == expected


def test_a_label_that_only_looks_like_the_number_is_rewritten() -> None:
    """A selector for 4000 does not match 4k."""
    document = state("4k", "4k", {NAME: 4000, LABEL: 4000})
    assert after(document, planned(document, Quantity(4000)))[:2] == ("4k", "4000")
    document = state("4", "04", BOTH)
    assert after(document, planned(document, FOUR))[:2] == ("4", "4")


def test_a_node_without_labels_gets_one() -> None:
    document = node()
    assert after(document, planned(document, FOUR)) == ("4", "4", BOTH, "Published")
    document = node({NAME: "4"}, BOTH)
    assert after(document, planned(document, ABSENT)) == (None, None, {}, "Published")


def test_a_label_that_is_no_longer_configured_is_removed() -> None:
    without = Config(tuple(replace(resource, label=False) for resource in LABELLED.resources))
    document = state("4", "4", BOTH)
    assert after(document, planned(document, FOUR, config=without)) == ("4", None, ONE, "Published")
    assert after(document, planned(document, UNKNOWN, config=without)) == ("4", "4", BOTH, "Unknown")
    incomplete = replace(without, complete=False)
    assert after(document, planned(document, FOUR, config=incomplete))[:3] == ("4", "4", BOTH)


def test_a_resource_with_an_error_keeps_its_label() -> None:
    """Its keys can't be read, so the label may be configured."""
    broken = Config(LABELLED.resources[1:], broken={NAME: "an error"})
    document = state("4", "4", BOTH)
    assert after(document, planned(document, UNKNOWN, config=broken))[:3] == ("4", "4", BOTH)


def test_without_any_resource_labels_stay() -> None:
    document = state("4", "4", BOTH)
    facts = Facts(machine_record=MachineRecord(BOTH, node_uid=UID))
    plan = make_plan(node_state(document), facts)
    assert after(document, plan) == ("4", "4", BOTH, "NotConfigured")


def test_adopt_takes_over_the_label_as_well() -> None:
    adopting = Config(tuple(replace(resource, adopt=True) for resource in LABELLED.resources))
    document = state("9", "yes")
    assert after(document, planned(document, FOUR, config=adopting)) == ("4", "4", BOTH, "Published")
    plan = planned(document, FOUR, config=adopting, device_plugins=None)
    assert after(document, plan)[:3] == ("9", "yes", {}), "while device plugins are unknown, nothing is adopted"


def test_a_device_plugin_takes_the_name_and_the_label_goes() -> None:
    document = state("4", "4", BOTH)
    plan = planned(document, FOUR, device_plugins={NAME})
    assert after(document, plan) == ("4", None, {}, "Refused")


def test_unknown_device_plugins_do_not_concern_the_label() -> None:
    document = state("4", "7", BOTH)
    assert after(document, planned(document, FOUR, device_plugins=None))[:3] == ("4", "4", BOTH)


def test_the_label_is_lowered_together_with_the_resource() -> None:
    """Not before, and without a delay of its own."""
    document = state("4", "4", BOTH)
    held = planned(document, Quantity(2), lower_after=10.0)
    assert (held.changed_names, [*held.lower_since]) == ((), [NAME])
    due = planned(document, Quantity(2), lower_after=10.0, memory=Memory(lower_since={NAME: 9e3}))
    assert after(document, due)[:3] == ("2", "2", {NAME: 2, LABEL: 2})


def test_a_denied_label_does_not_block_the_resource() -> None:
    document = state("3", "3", {NAME: 3, LABEL: 3})
    plan = planned(document, FOUR, denied={LABEL: "no"})
    assert after(document, plan) == ("4", "3", {NAME: 4, LABEL: 3}, "Denied")
    assert plan.health.denied == {LABEL: "no"}


def test_a_label_has_a_rate_limit_of_its_own() -> None:
    times = WriteTimes({LABEL: (9_990.0,) * BURST})
    document = state("4", "7", BOTH)
    plan = planned(document, FOUR, memory=Memory(write_times=times))
    assert [(wait.name, wait.until) for wait in plan.waits] == [(LABEL, 10_050.0)]


def test_the_patch_is_guarded() -> None:
    """If another writer sets the label meanwhile, nothing is written."""
    document = state("3", "3", {NAME: 3, LABEL: 3})
    plan = planned(document, FOUR)
    document["metadata"]["labels"][NAME] = "7"
    with pytest.raises(NodeConflict):
        apply_patch(document, plan.write.patch)
    document = state("4", "4", BOTH)
    true = planned(document, FOUR)
    assert after(document, true)[3] == "Published"
    document["metadata"]["labels"][NAME] = "7"
    with pytest.raises(NodeConflict):
        apply_patch(document, true.write.patch)


def test_the_same_label_is_recorded_only_if_it_stays() -> None:
    """The machine record may confirm a label that the annotation has lost."""
    document = state("4", "4", ONE)
    plan = planned(document, FOUR, record=BOTH)
    assert after(document, plan)[:3] == ("4", "4", BOTH)
    document["metadata"]["labels"][NAME] = "7"
    with pytest.raises(NodeConflict):
        apply_patch(document, plan.write.patch)


def test_events_name_the_label() -> None:
    document = state()
    plan = planned(document, FOUR)
    changed, *_ = events(plan, applied=True)
    assert changed.message == f"{NAME}: none → 4 (found); {LABEL}: none → 4 (found)"
    document = state("4", "7", {NAME: 4})
    refused = [e for e in events(planned(document, FOUR), applied=True) if e.reason == "CapacityRefused"]
    assert refused[0].message == f"{LABEL}: not published by capacityd; adopt = true takes it over"


def test_a_withdrawal_removes_our_labels_only() -> None:
    document = state("4", "4", BOTH)
    facts = Facts(machine_record=MachineRecord(BOTH, node_uid=UID))
    assert after(document, make_withdrawal(node_state(document), facts)) == (None, None, {}, "")
    document = state("4", "7", BOTH)
    assert after(document, make_withdrawal(node_state(document), facts)) == (None, "7", {}, "")
    document = state("4", "4", ONE)
    unlisted = Facts(machine_record=MachineRecord(ONE, node_uid=UID))
    assert after(document, make_withdrawal(node_state(document), unlisted)) == (None, "4", {}, "")


def test_without_a_condition_the_label_is_written() -> None:
    config = replace(LABELLED, settings=Settings(condition=False))
    document = state()
    assert after(document, planned(document, FOUR, config=config)) == ("4", "4", BOTH, "")


@pytest.mark.parametrize(
    ("domain", "allowed"), [("example.com", True), ("k8s.io", False), ("a.k8s.io", False), ("k8s.io.example", True)]
)
def test_a_label_that_a_kubelet_may_not_set_is_an_error(domain: str, allowed: bool) -> None:
    problems = loaded(f'[resources."{domain}/x"]\nstatic = {{ quantity = 1 }}\nlabel = true\n').problems
    assert [p for p in problems if "a kubelet may not set labels in the domains of Kubernetes" in p.unlocated()] == [
        *problems
    ]
    assert (not problems) is allowed


def test_the_state_that_everybody_may_read_has_no_label_of_others() -> None:
    stored = node_state(state("4", "4", BOTH))
    assert stored.with_labels_of([NAME]).labels == stored.with_labels_of([LABEL]).labels == {NAME: "4"}
    assert node_state(node()).with_labels_of([NAME]).labels is None


@pytest.mark.parametrize("reading", [FOUR, ABSENT, UNKNOWN, None])
@pytest.mark.parametrize("label", ["4", "0", "yes"])
def test_a_forged_annotation_makes_no_label_ours(reading: Reading | None, label: str) -> None:
    """Another writer has set the label, and lists it in the annotation. The machine record does not."""
    document = state("4", label, BOTH)
    plan = planned(document, reading, record=ONE)
    assert after(document, plan)[1] == label
    facts = Facts(machine_record=MachineRecord(ONE, node_uid=UID))
    assert after(document, make_withdrawal(node_state(document), facts))[1] == label
