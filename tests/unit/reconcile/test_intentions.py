"""What the machine record keeps of a write that was not carried out, or whose response was lost.

Another writer's key of the intended quantity stays that writer's. A key that was written stays this machine's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from capacityd.model.errors import NodeConflict, NodeRejected, NodeUnreachable
from capacityd.model.node import NodeState
from capacityd.model.plan import MachineRecord, Outcome, Plan
from capacityd.reconcile import machine_record
from capacityd.reconcile.apply import RecordFile, Retries, Start, apply
from capacityd.reconcile.attempt import Denied
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan, make_withdrawal
from tests.support.nodes import UID, apply_patch
from tests.unit.reconcile.doubles import FOUR, A, B, MemoryNode, Service

C = "example.com/c"


def changes(patch: Sequence[Mapping[str, object]], name: str) -> bool:
    """Whether a patch changes the capacity of this name."""
    path = f"/status/capacity/{name.replace('/', '~1')}"
    return any(operation["op"] != "test" and operation["path"] == path for operation in patch)


def publish_elsewhere(node: MemoryNode, name: str, quantity: str) -> None:
    """Another writer sets the key."""
    for part in ("capacity", "allocatable"):
        node.document["status"][part][name] = quantity


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("published", [{}, {B: 4}])
@pytest.mark.parametrize("between", [False, True])
def test_an_earlier_intention_makes_no_key_of_another_writer_ours(
    watched: bool, published: dict[str, int], between: bool
) -> None:
    """The earlier write did not arrive. Another writer publishes the same before the next pass, or before its write."""
    service = Service()
    service.watched = watched
    if published:
        service.reconcile(1000.0, b=FOUR)
    service.record = MachineRecord(published, {**published, A: 4}, node_uid=UID)
    if between:
        service.node.between = lambda: publish_elsewhere(service.node, A, "4")
    else:
        publish_elsewhere(service.node, A, "4")
    for at in (1100.0, 1200.0):
        service.reconcile(at, a=FOUR, b=FOUR)
        assert service.node.our_condition[1] == "Refused"
    assert service.record.published == {B: 4}
    service.reconcile(1300.0, b=FOUR)
    assert service.capacity == {A: "4", B: "4"}, "another writer's key stays"


class Webhook(MemoryNode):
    """The API server stores 3 of B, and another writer comes before the second patch of a pass."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = 0

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        self.patches += 1
        if self.patches == 2:
            raise NodeConflict("another writer", "HTTP 422")
        super().write(patch)
        if self.patches == 1:
            self.document["status"]["capacity"][B] = "3"
        return self.state()


def test_a_key_of_a_first_patch_stays_ours_after_a_conflict_of_the_next_one() -> None:
    service = Service()
    service.reconcile(1000.0, c=FOUR)
    document, service.node = service.node.document, Webhook()
    service.node.document = document
    for at in (1100.0, 1300.0):
        service.reconcile(at, {"config"}, a=FOUR, b=FOUR, c=FOUR)
    assert (service.capacity, service.condition) == ({A: "4", B: "4", C: "4"}, "True")


class DeniedTogether(MemoryNode):
    """The API server denies C. Another writer publishes B just before the patch of B alone."""

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        if changes(patch, C):
            raise NodeRejected("no", "no")
        if changes(patch, B) and not changes(patch, A):
            publish_elsewhere(self, B, "4")
            self.document["metadata"]["resourceVersion"] = "2"
        return super().write(patch)


def test_a_key_that_another_writer_publishes_before_a_later_patch_is_not_ours() -> None:
    service = Service()
    service.node = DeniedTogether()
    service.node.document["metadata"]["resourceVersion"] = "1"
    for at in (1000.0, 1100.0):
        service.reconcile(at, a=FOUR, b=FOUR, c=FOUR)
    assert service.record is not None
    assert service.record.has(A)
    assert not service.record.has(B)
    service.reconcile(1200.0, {"config"}, a=FOUR)
    assert service.capacity == {A: "4", B: "4"}


class Late(MemoryNode):
    """The first write gets no response, and arrives only just before the second one."""

    late: Sequence[Mapping[str, object]] | None = None

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        if self.writes == 0 and self.late is None:
            self.late = patch
            raise NodeUnreachable("no response", retry_after=0.0)
        if self.late is not None:
            self.document, self.late = apply_patch(self.document, self.late), None
        return super().write(patch)


def publish(state: NodeState, record: MachineRecord | None, denied: Denied, _: Plan | None) -> Plan:
    return make_plan(state, Facts({A: FOUR}, machine_record=record, denied=denied))


def withdraw(state: NodeState, record: MachineRecord | None, denied: Denied, _: Plan | None) -> Plan:
    return make_withdrawal(state, Facts(machine_record=record, denied=denied))


class Commands:
    """Runs commands on a Node, with the machine record in this folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    @property
    def record(self) -> MachineRecord | None:
        return machine_record.read(self._folder)

    def carry_out(self, node: MemoryNode, plan: Callable[..., Plan]) -> Outcome:
        folder = self._folder
        record_file = RecordFile(partial(machine_record.intend, folder), partial(machine_record.replace, folder))
        outcome = apply(node, plan, Start(self.record), record_file, Retries(60.0))
        machine_record.confirm(self._folder, outcome.plan)
        return outcome


@pytest.mark.parametrize("record", [None, MachineRecord(node_uid=UID)])
def test_a_write_that_arrives_late_is_ours(tmp_path: Path, record: MachineRecord | None) -> None:
    commands, node = Commands(tmp_path), Late()
    if record:
        machine_record.write(str(tmp_path), record)
    for _ in range(2):
        outcome = commands.carry_out(node, publish)
        assert (outcome.plan.refused, node.our_condition[0]) == ((), "True")
    assert commands.record == MachineRecord({A: 4}, node_uid=UID)


def test_a_withdrawal_whose_request_was_lost_removes_the_keys_at_the_next_attempt(tmp_path: Path) -> None:
    commands, node = Commands(tmp_path), MemoryNode()
    commands.carry_out(node, publish)
    node.errors = [None, NodeUnreachable("lost", retry_after=0.0)]
    commands.carry_out(node, withdraw)
    assert node.document["status"]["capacity"] == {}
