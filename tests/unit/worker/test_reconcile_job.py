"""What a pass leaves for `status`."""

from __future__ import annotations

from capacityd.model.plan import Action, Change, Plan
from capacityd.node.documents.node import node_state
from capacityd.reconcile.writing import Outcome
from capacityd.worker.pass_state import NodeStatus
from tests.support.nodes import node

A = "example.com/a"


def test_of_the_node_the_status_has_only_what_is_in_the_plan() -> None:
    document = node(capacity={A: "4", "cpu": "8"})
    document["status"]["allocatable"] = {A: "3", "cpu": "7"}
    outcome = Outcome(
        Plan("n1", (Change(A, Action.KEEP, "4", "4", "unchanged"),), (), {}), False, node_state(document), ()
    )
    status = NodeStatus.of(outcome, 1.0)
    assert (status.capacity, status.allocatable) == ({A: "4"}, {A: "3"})
