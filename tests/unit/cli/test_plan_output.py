"""The last line of a plan: what the command writes or has written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from capacityd.cli.output.plan import print_plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan
from tests.support.configs import config_with
from tests.support.nodes import apply_patch, node, recorded

A, B = "example.com/a", "example.com/b"
PUBLISHED: dict[str, Reading] = {A: Quantity(4), B: Absent("none")}


@pytest.mark.parametrize(
    ("readings", "configuration", "applied", "expected"),
    [
        (PUBLISHED, "first", False, "2 unchanged; nothing to write"),
        (PUBLISHED, "second", False, "2 unchanged; annotations to write; nothing was written"),
        (PUBLISHED | {B: Unknown("busy")}, "first", True, "1 unknown, 1 unchanged; written: Node condition"),
        (PUBLISHED | {B: Unknown("busy")}, "second", True, "unchanged; written: annotations and Node condition"),
        (PUBLISHED | {B: Quantity(1)}, "second", False, "1 to set, 1 unchanged; nothing was written"),
        ({A: Absent("none"), B: Quantity(1)}, "first", True, "1 set, 1 removed; written"),
    ],
)
def test_the_last_line_sums_up_the_plan(
    capsys: pytest.CaptureFixture[str],
    readings: Mapping[str, Reading],
    configuration: str,
    applied: bool,
    expected: str,
) -> None:
    before = make_plan(
        node_state(node()), Facts(PUBLISHED, config_with(digest="first"), machine_record=recorded({A: 4}))
    )
    document = apply_patch(node(), before.write.patch)
    facts = Facts(readings, config_with(digest=configuration), machine_record=recorded({A: 4}))
    plan = make_plan(node_state(document), facts)
    print_plan(plan, {}, applied=applied)
    assert expected in capsys.readouterr().out.splitlines()[-1]
