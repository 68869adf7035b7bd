"""What a pass leaves for `status`."""

from __future__ import annotations

from capacityd.cli.commands.status import _resources
from capacityd.model.plan import Action, Change
from capacityd.node.documents.node import node_state
from capacityd.reconcile.memory import remembered
from capacityd.worker.pass_state import PassStatus
from tests.support.nodes import node

A = "example.com/a"


def test_of_the_node_the_status_has_only_what_is_in_the_plan() -> None:
    document = node(capacity={A: "4", "cpu": "8"})
    document["status"]["allocatable"] = {A: "3", "cpu": "7"}
    last_pass = PassStatus(1.0, changes=(Change(A, Action.KEEP, "4", "4", "unchanged"),), read_at=1.0)
    (row,) = _resources(last_pass, remembered(node_state(document)))
    assert (row.name, row.capacity, row.allocatable) == (A, "4", "3")
