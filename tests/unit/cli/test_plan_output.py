"""The last line of a plan, and the patch for kubectl."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from capacityd.cli.output.plan import print_patch, print_plan
from capacityd.model.errors import NodeError
from capacityd.model.node import NodeState
from capacityd.model.plan import Plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import make_plan
from capacityd.schema.config import Config
from tests.support.nodes import UID, node

A, B = "example.com/a", "example.com/b"
READINGS: dict[str, Reading] = {A: Quantity(4), B: Absent("none")}


def plan_for(state: NodeState, readings: Mapping[str, Reading], configuration: str = "first") -> Plan:
    """The plan of a pass with these readings. configuration: the hash of the configuration."""
    return make_plan(state, (), Memory(uid=state.uid), Inputs(Config((), digest=configuration), readings))


def published_node() -> NodeState:
    """The Node after a first pass, which has published 4 of A."""
    patch = plan_for(node_state(node()), READINGS).patch
    assert patch
    return node_state(node()).after(patch)


@pytest.mark.parametrize(
    ("readings", "configuration", "applied", "text"),
    [
        (READINGS, "first", False, "2 unchanged; nothing to write"),
        (READINGS, "second", False, "2 unchanged; only annotations or the condition to write; nothing was written"),
        (READINGS | {B: Unknown("busy")}, "first", True, "1 unknown, 1 unchanged; written"),
        (READINGS | {B: Quantity(1)}, "second", False, "1 to set, 1 unchanged; nothing was written"),
        ({A: Absent("none"), B: Quantity(1)}, "first", True, "1 set, 1 removed; written"),
    ],
)
def test_the_last_line_sums_up_the_plan(
    capsys: pytest.CaptureFixture[str], readings: Mapping[str, Reading], configuration: str, applied: bool, text: str
) -> None:
    print_plan(plan_for(published_node(), readings, configuration), {}, applied=applied)
    assert text in capsys.readouterr().out.splitlines()[-1]


def test_the_patch_is_a_guarded_strategic_merge_patch(capsys: pytest.CaptureFixture[str]) -> None:
    state = node_state(node({B: "1"}, {B: 1}))
    print_patch(plan_for(state, READINGS))
    document = json.loads(capsys.readouterr().out)
    (condition,) = document["status"].pop("conditions")
    assert (condition["type"], condition["status"]) == ("CapacityPublished", "True")
    assert document == {
        "metadata": {
            "uid": UID,
            "resourceVersion": "7",
            "annotations": {"capacityd/published": f'{{"{A}":4}}', "capacityd/configuration": "first"},
        },
        "status": {"capacity": {A: "4", B: None}, "allocatable": {A: "4", B: None}},
    }


def test_nothing_to_write_is_an_empty_patch(capsys: pytest.CaptureFixture[str]) -> None:
    print_patch(plan_for(published_node(), READINGS))
    assert capsys.readouterr().out == "{}\n"


@pytest.mark.parametrize("guard", ["uid", "resourceVersion"])
def test_a_patch_without_a_guard_is_not_printed(guard: str) -> None:
    document = node()
    del document["metadata"][guard]
    with pytest.raises(NodeError, match="the Node has no uid or no resourceVersion"):
        print_patch(plan_for(node_state(document), READINGS))
