"""Two agents with the same credentials write one Node: neither says that all is well, and each writes once a minute."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from capacityd.model.errors import NodeRejected, NodeUnreachable
from capacityd.model.node import CONDITION, NodeState
from capacityd.model.reading import Absent, Quantity
from tests.unit.reconcile.doubles import EPOCH, UNKNOWN, A, MemoryNode, Service, WithoutConditions

FOUR, SIX = Quantity(4), Quantity(6)
TEXT = "another capacityd, on another machine or in a container, also writes this Node"
OTHER_WRITER = ("False", "OtherWriter", TEXT)


class DenyingNode(MemoryNode):
    """A Node on an API server that denies writes of capacity, or whose answers get lost, from a time on."""

    denies = False
    loses_answers = False

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        if self.denies and any(o["op"] != "test" and str(o["path"]).startswith("/status/capacity") for o in patch):
            raise NodeRejected("no", "no")
        state = super().write(patch)
        if self.loses_answers:
            raise NodeUnreachable("the response was lost")
        return state


def agents() -> tuple[Service, Service, DenyingNode]:
    """Two services with one Node."""
    one, two, node = Service(), Service(), DenyingNode()
    for service in (one, two):
        service.node, service.watched = node, True
    return one, two, node


def set_condition(node: MemoryNode, at: float, status: str, reason: str) -> None:
    """Another agent writes the condition at this time, by its own clock."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH + at))
    (condition,) = (c for c in node.document["status"]["conditions"] if c["type"] == CONDITION)
    condition |= {"status": status, "reason": reason, "message": TEXT, "lastHeartbeatTime": stamp}


def test_while_two_agents_publish_different_numbers_the_condition_is_false() -> None:
    one, two, node = agents()
    one.reconcile(1000.0, a=FOUR)
    two.reconcile(1001.0, a=SIX)
    writes = []
    for second in range(2, 600):
        for service, reading in ((one, FOUR), (two, SIX)):
            before = node.writes
            service.reconcile(1000.0 + second, {"node"}, a=reading)
            writes += [(second, reading)] * (node.writes - before)
            assert node.our_condition == OTHER_WRITER
    for reading in (FOUR, SIX):
        times = [second for second, written in writes if written == reading]
        assert len(times) <= 11
        assert all(later - earlier >= 60 for earlier, later in pairwise(times))


def test_the_condition_becomes_true_once_the_other_agent_is_gone() -> None:
    one, two, node = agents()
    one.reconcile(1000.0, a=FOUR)
    two.reconcile(1001.0, a=SIX)
    one.reconcile(1002.0, {"node"}, a=FOUR)
    two.reconcile(1003.0, {"node"}, a=SIX)
    at, result = 1004.0, one.reconcile(1004.0, {"node"}, a=FOUR)
    while result.requeue_after is not None:
        assert node.our_condition == OTHER_WRITER
        at += result.requeue_after
        result = one.reconcile(at, {"requeue"}, a=FOUR)
    assert node.our_condition[0] == "True"
    assert one.capacity == {A: "4"}
    assert at - 1003.0 <= 75.0


def test_the_own_condition_is_no_sign_of_another_agent() -> None:
    """The answer to the other agent is the first write with a condition: until then, a webhook has removed it."""
    one, two, node = Service(), Service(), WithoutConditions()
    for service in (one, two):
        service.node, service.watched = node, True
    one.reconcile(1000.0, a=FOUR)
    two.reconcile(1001.0, a=SIX)
    at, result = 1002.0, one.reconcile(1002.0, {"node"}, a=FOUR)
    node.removes = False
    while result.requeue_after is not None:
        at += result.requeue_after
        result = one.reconcile(at, {"requeue"}, a=FOUR)
    assert one.capacity == {A: "4"}
    assert node.our_condition[0] == "True"
    assert at - 1001.0 <= 75.0


def test_an_agent_that_writes_only_the_condition_is_not_gone() -> None:
    """A limit may hold back its number, but its condition says that it has noticed this one."""
    one, two, node = agents()
    one.reconcile(1000.0, a=FOUR)
    two.reconcile(1001.0, a=SIX)
    one.reconcile(1002.0, {"node"}, a=FOUR)
    for said_at in range(1003, 1300, 60):
        set_condition(node, said_at, "False", "OtherWriter")
        one.reconcile(said_at + 1.0, {"node"}, a=FOUR)
        one.reconcile(said_at + 59.0, {"requeue"}, a=FOUR)
        assert node.our_condition == OTHER_WRITER
    at, result = 1302.0, one.reconcile(1302.0, {"requeue"}, a=FOUR)
    while result.requeue_after is not None:
        at += result.requeue_after
        result = one.reconcile(at, {"requeue"}, a=FOUR)
    assert node.our_condition[0] == "True"
    assert at - 1244.0 <= 75.0


@pytest.mark.parametrize("skew", [0.0, 30.0])
def test_a_condition_that_contradicts_this_agents_is_another_agents(skew: float) -> None:
    """Its clock may be ahead. Once, it may have been a command on this machine."""
    one, _, node = agents()
    one.reconcile(1000.0, a=FOUR)
    set_condition(node, 1001.0 + skew, "False", "Unknown")
    one.reconcile(1002.0, {"node"}, a=FOUR)
    assert node.our_condition[0] == "True"
    set_condition(node, 1002.0 + skew, "False", "Unknown")
    one.reconcile(1002.5, {"node"}, a=FOUR)
    assert node.our_condition == OTHER_WRITER
    set_condition(node, 1060.0 + skew, "False", "OtherWriter")
    one.reconcile(1061.0, {"node"}, a=FOUR)
    one.reconcile(1129.0, {"requeue"}, a=FOUR)
    assert node.our_condition == OTHER_WRITER
    one.reconcile(1131.5, {"requeue"}, a=FOUR)
    assert node.our_condition[0] == "True"


def test_two_agents_that_find_different_things_wrong_recognize_each_other() -> None:
    """Neither says that all is well, so only their messages differ. Later, one of them finds nothing wrong any more."""
    one, two, node = agents()
    for second in range(3):
        one.reconcile(1000.0 + second, {"node"}, a=FOUR, b=UNKNOWN)
        two.reconcile(1000.5 + second, {"node"}, a=UNKNOWN, b=Absent("none"))
    one.reconcile(1062.0, {"node"}, a=FOUR, b=Absent("none"))
    assert node.our_condition[:2] == ("False", "OtherWriter")


def test_the_restoration_of_a_number_that_both_agents_share_is_a_sign_of_the_other() -> None:
    """A kubelet has zeroed the number. The other agent restores it, and its condition is on the Node already."""
    one, two, node = agents()
    for second in range(3):
        one.reconcile(1000.0 + second, {"node"}, a=FOUR)
        two.reconcile(1000.5 + second, {"node"}, a=FOUR, b=UNKNOWN)
    one.reconcile(1030.0, {"node"}, a=FOUR)
    two.reconcile(1063.0, {"node"}, a=FOUR, b=UNKNOWN)
    one.reconcile(1063.1, {"node"}, a=FOUR)
    node.document["status"]["capacity"][A] = node.document["status"]["allocatable"][A] = "0"
    two.reconcile(1123.1, {"node"}, a=FOUR, b=UNKNOWN)
    assert one.capacity == {A: "4"}
    one.reconcile(1123.2, {"node"}, a=FOUR)
    one.reconcile(1140.0, {"requeue"}, a=FOUR)
    assert node.our_condition[:2] == ("False", "OtherWriter")


def test_the_other_agent_is_the_first_reason_of_the_condition() -> None:
    """By this reason, the other agent recognizes this one, even if this machine's clock is late and its disk full."""
    one, two, node = agents()
    one.reconcile(1000.0, a=FOUR)
    two.reconcile(1001.0, a=SIX)
    one.save_error = "no space left"
    one.reconcile(1002.0, {"node"}, a=FOUR)
    assert node.our_condition[:2] == ("False", "OtherWriter")
    assert node.our_condition[2].startswith(f"{TEXT}; ")


@pytest.mark.parametrize(("at", "reason"), [(999.0, "Unknown"), (1001.0, "Altered")])
def test_an_old_condition_and_a_webhooks_are_not_another_agents(at: float, reason: str) -> None:
    """An old one may come from a restored cluster."""
    one, _, node = agents()
    one.reconcile(1000.0, a=FOUR)
    set_condition(node, at, "False", reason)
    one.reconcile(1002.0, {"node"}, a=FOUR)
    assert node.our_condition[0] == "True"


def test_an_own_condition_whose_answer_was_lost_is_not_another_agents() -> None:
    one, _, node = agents()
    one.reconcile(1000.0, a=FOUR)
    node.loses_answers = True
    assert one.reconcile(1010.0, {"hardware"}, a=UNKNOWN).failure
    assert node.our_condition[1] == "Unknown"
    node.loses_answers = False
    one.reconcile(1015.0, {"retry"}, a=FOUR)
    assert node.our_condition[0] == "True"


def test_two_agents_with_the_same_numbers_do_not_disturb_each_other() -> None:
    one, two, node = agents()
    one.reconcile(1000.0, a=FOUR)
    for second in range(1, 100):
        two.reconcile(1000.0 + second, {"node"}, a=FOUR)
        one.reconcile(1000.0 + second, {"node"}, a=FOUR)
        assert node.our_condition[0] == "True"
    assert node.writes == 1


def test_an_own_write_that_could_not_be_recorded_is_not_another_agents() -> None:
    """The disk of the machine record is full while a raise is published, and then no longer."""
    one, _, node = agents()
    one.reconcile(1000.0, a=FOUR)
    one.full, recorded = "no space left", one.record
    one.reconcile(1010.0, {"file"}, a=SIX)
    one.full, one.record = "", recorded
    one.reconcile(1070.0, {"retry"}, a=SIX)
    assert (one.capacity, node.our_condition[0]) == ({A: "6"}, "True")


@pytest.mark.parametrize("held_by", ["observe", "lower_after", "denied"])
def test_an_agent_that_has_gone_causes_no_more_passes(held_by: str) -> None:
    """Its number stays on the Node, because this machine may not write its own."""
    one, two, node = agents()
    one.reconcile(1000.0, a=FOUR)
    two.reconcile(1001.0, a=SIX)
    lower_after = 610.0 if held_by == "lower_after" else 10.0
    one.settings = replace(one.settings, observe=held_by == "observe", lower_after=lower_after)
    node.denies = held_by == "denied"
    at, passes = 1002.0, 0
    while at < 1500.0:
        result = one.reconcile(at, {"requeue"}, a=FOUR)
        at, passes = at + (result.requeue_after or 1000.0), passes + 1
    assert passes <= 15
    assert result.memory.other_agent is None
    assert held_by == "observe" or node.our_condition[1] != "OtherWriter"
