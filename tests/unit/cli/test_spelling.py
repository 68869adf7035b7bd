"""The API server writes 1000 as "1k", and other writers use any notation. People and scripts always see 1000."""

from __future__ import annotations

import itertools
import json

import pytest

from capacityd.cli.output.plan import print_plan
from capacityd.cli.output.resource_rows import resource_rows
from capacityd.model.plan import Plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.reconcile.events import events
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan
from capacityd.worker.pass_state import PassStatus
from tests.support.configs import config_with
from tests.support.nodes import node, recorded

NAME, OTHER = "example.com/nic-mbps", "example.com/other"
PLAIN, SPELLINGS = "1000", ("1k", "1e3", "1E3", "+1000", "1000.0", "1000000m", "0.001M")

READINGS: tuple[Reading | None, ...] = (Quantity(1000), Quantity(2000), Absent("none"), Unknown("it is busy"), None)
CASES = [*itertools.product(READINGS, (None, 1000, 5), (False, True), ((), (NAME,), None))]


def planned(stored: str, case: tuple[Reading | None, int | None, bool, tuple[str, ...] | None]) -> Plan:
    reading, annotated, adopt, plugins = case
    record = {} if annotated is None else {NAME: annotated}
    document = node(capacity={NAME: stored}, annotated=record)
    document["status"]["allocatable"] = {NAME: stored}
    readings: dict[str, Reading] = {OTHER: Absent("")} | ({NAME: reading} if reading else {})
    config = config_with({NAME} if adopt else ())
    facts = Facts(readings, config, machine_record=recorded(record), device_plugins=plugins)
    return make_plan(node_state(document), facts)


def shown(plan: Plan, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """All output about a plan."""
    print_plan(plan, {NAME: "Mbit/s"})
    as_json = {key: value for key, value in plan.as_dict().items() if key != "patch"}  # the patch has the stored text
    messages = [event.message for event in events(plan, applied=True)]
    return [capsys.readouterr().out, json.dumps(as_json), str(plan.health), *messages]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_plan_is_the_same_for_any_notation_of_quantities(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    for case in CASES:
        output = shown(planned(spelling, case), capsys)
        assert output == shown(planned(PLAIN, case), capsys), case
        assert not any(spelling in text for text in output), case


def test_a_plan_names_the_unit(capsys: pytest.CaptureFixture[str]) -> None:
    text, *_ = shown(planned("1k", (Quantity(2000), 1000, False, ())), capsys)
    (row,) = (line for line in text.splitlines() if NAME in line)
    assert row.split()[:5] == ["~", NAME, "1000", "2000", "Mbit/s"]


@pytest.mark.parametrize("spelling", [PLAIN, *SPELLINGS])
def test_the_status_is_the_same_for_any_notation_of_quantities(spelling: str) -> None:
    last_pass = PassStatus(1.0, readings={NAME: Quantity(1000)})
    (row,) = resource_rows(last_pass, node_state(node(capacity={NAME: spelling})), now=0.0, uptime=0.0)
    assert (row.capacity, row.allocatable) == (PLAIN, PLAIN)
