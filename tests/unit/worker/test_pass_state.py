"""What a pass leaves of the Node for `status`: the condition as it was stored, and who else publishes resources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capacityd.model.plan import MachineRecord, Outcome
from capacityd.model.reading import Quantity
from capacityd.model.waits import Wait, WaitReason
from capacityd.node.documents.node import node_state
from capacityd.reconcile.facts import Facts, PassContext, Policy
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import make_plan
from capacityd.reconcile.timing import WriteTimes
from capacityd.worker.pass_state import OtherWriter, is_condition_not_stored, other_writers
from tests.support.nodes import apply_patch, node

A, PLUGIN, THEIRS = "example.com/a", "nvidia.com/gpu", "example.com/theirs"
TIMES = (95.0, 96.0, 97.0, 98.0, 99.0, 100.0)
PUBLISHED = {A: Quantity(4)}


def inputs(**more: object) -> Facts:
    return replace(Facts(PUBLISHED, Policy(), PassContext(machine_record=MachineRecord())), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [None, "True"], ids=["no condition", "an old condition"])
@pytest.mark.parametrize("policy", ["drops it", "keeps the old one", "sets it to True", "does nothing"])
def test_a_condition_that_a_policy_changes(found: str | None, policy: str) -> None:
    before = node(condition=found)
    given = inputs(readings={A: Quantity(4)}, policy=Policy(expect={A: 5}))
    plan = make_plan(node_state(before), given)
    stored = apply_patch(before, plan.write.patch)
    written = stored["status"]["conditions"]
    others = [condition for condition in written if condition["type"] == "Ready"]
    if policy == "drops it":
        stored["status"]["conditions"] = others
    elif policy == "keeps the old one":
        stored["status"]["conditions"] = before["status"]["conditions"]
    elif policy == "sets it to True":
        for condition in written:
            condition["status"] = "True"
    outcome = Outcome(plan, node_state(stored), applied=True)
    assert is_condition_not_stored(outcome) is (policy != "does nothing")


def test_while_the_next_attempt_is_held_back() -> None:
    published = node({A: "4"}, {A: 4})
    context = PassContext(uptime=100.0, machine_record=MachineRecord({A: 4}))
    busy = inputs(context=context, memory=Memory(write_times=WriteTimes(metadata=TIMES)))
    plan = make_plan(node_state(published), busy)
    assert plan.waits == (Wait(160.0, WaitReason.RATE_LIMIT),)
    assert is_condition_not_stored(Outcome(plan, node_state(published), applied=False))


@pytest.mark.parametrize("mode", ["observe", "condition = false", "nothing is configured"])
def test_where_none_is_written(mode: str) -> None:
    state = node_state(node())
    given = inputs(
        readings={} if mode == "nothing is configured" else PUBLISHED,
        policy=Policy(condition=mode != "condition = false", observe=mode == "observe"),
    )
    assert not is_condition_not_stored(Outcome(make_plan(state, given), state, applied=False))


def test_the_writers_of_other_resources() -> None:
    before = node({"cpu": "2", "hugepages-2Mi": "0", PLUGIN: "3", THEIRS: "7"})
    plan = make_plan(node_state(before), inputs(device_plugins=frozenset({PLUGIN})))
    after = node_state(apply_patch(before, plan.write.patch))
    assert other_writers(after, plan.write.annotated, {PLUGIN}) == {
        PLUGIN: OtherWriter.DEVICE_PLUGIN,
        THEIRS: OtherWriter.UNKNOWN,
    }
