"""The example alerts, by Prometheus itself: they fire when they should, and only then."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from capacityd import metrics
from capacityd.capacity import CONDITION
from capacityd.metrics import Figures, Tally
from capacityd.model import Quantity
from tests import ROOT
from tests.package.promtool import promtool

RULES = ROOT / "conf/prometheus/capacityd-rules.yaml"
OURS = 'instance="n1"'
DONGLE = f'{OURS},resource="example.com/dongle"'
CONDITION_OF = f'kube_node_status_condition{{node="n1",condition="{CONDITION}",status="false"}}'

# Alert -> series with their values, one a minute, that make it fire; and that do not.
CASES: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "CapacityNotPublished": ({CONDITION_OF: "1x200"}, {CONDITION_OF: "0x200"}),
    "CapacityUnknown": (
        {f'capacityd_resource_outcome{{{DONGLE},outcome="unknown"}}': "1x200"},
        {
            f'capacityd_resource_outcome{{{DONGLE},outcome="unknown"}}': "0x100 1x10 0x90",
            f'capacityd_resource_outcome{{{DONGLE},outcome="absent"}}': "1x200",
        },
    ),
    "CapacityRefused": (
        {f"capacityd_resource_refused{{{DONGLE}}}": "1x200"},
        {f"capacityd_resource_refused{{{DONGLE}}}": "0x200"},
    ),
    "CapacityLowered": (
        {f"capacityd_resource_published{{{DONGLE}}}": "4x170 3x30"},
        {f"capacityd_resource_published{{{DONGLE}}}": "3x170 4x30"},
    ),
    "CapacityWithdrawn": (
        {f"capacityd_resource_published{{{DONGLE}}}": "4x170 _x30"},
        {f"capacityd_resource_published{{{DONGLE}}}": "4x50 _x150"},
    ),
    "CapacityLooksFail": (
        {
            f"capacityd_last_success_timestamp_seconds{{{OURS}}}": "0x200",
            f"capacityd_last_look_timestamp_seconds{{{OURS}}}": "0+60x200",
        },
        {
            f"capacityd_last_success_timestamp_seconds{{{OURS}}}": "60.5x200",
            f"capacityd_last_look_timestamp_seconds{{{OURS}}}": "60x200",
        },
    ),
    "CapacityNotLookedAt": (
        {
            f"capacityd_last_look_timestamp_seconds{{{OURS}}}": "0x200",
            f"capacityd_recheck_interval_seconds{{{OURS}}}": "3600x200",
        },
        {
            f"capacityd_last_look_timestamp_seconds{{{OURS}}}": "0x80 7200x120",
            f"capacityd_recheck_interval_seconds{{{OURS}}}": "3600x200",
        },
    ),
    "CapacityMisconfigured": (
        {f"capacityd_configuration_mistakes{{{OURS}}}": "2x200"},
        {f"capacityd_configuration_mistakes{{{OURS}}}": "0x200"},
    ),
}


def rules() -> dict[str, Any]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_each_alert_has_a_case() -> None:
    assert set(rules()) == set(CASES)


def test_they_ask_for_series_that_there_are() -> None:
    figures = Figures({"example.com/dongle": Quantity(4)}, {"published": {"example.com/dongle": 4}}, 0.1, 3600.0, 0)
    said = metrics.text(figures, Tally()).decode()
    ours = {sample.name for family in text_string_to_metric_families(said) for sample in family.samples}
    ours |= {family.name for family in text_string_to_metric_families(said)}  # also those that have no series just now
    for rule in rules().values():
        asked = set(re.findall(r"\bcapacityd_\w+", rule["expr"]))
        assert asked <= ours, rule
        assert asked or CONDITION in rule["expr"]


@pytest.mark.parametrize("alert", CASES)
def test_it_fires_when_it_should(alert: str, tmp_path: Path) -> None:
    """After 190 minutes; Prometheus compares the whole list of what fires, texts included."""
    rule = rules()[alert]
    tests = []
    for fires, series in zip((True, False), CASES[alert], strict=True):
        resource = "example.com/dongle"
        labels = {"node": "n1"} if "kube_" in rule["expr"] else {"instance": "n1"}
        if "capacityd_resource" in rule["expr"]:
            labels["resource"] = resource
        if "outcome=" in rule["expr"]:
            labels["outcome"] = "unknown"
        if "kube_" in rule["expr"]:
            labels |= {"condition": CONDITION, "status": "false"}
        wanted = {"exp_labels": labels | rule["labels"], "exp_annotations": _texts(alert, rule)}
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": "190m", "alertname": alert, "exp_alerts": [wanted] if fires else []},
                ],
            }
        )
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    result = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def _texts(alert: str, rule: Mapping[str, Any]) -> dict[str, str]:
    """The annotations of the case that fires, filled in by hand."""
    values = {"CapacityLowered": "3", "CapacityWithdrawn": "4", "CapacityMisconfigured": "2"}
    filled = {
        "{{ $labels.node }}": "n1",
        "{{ $labels.instance }}": "n1",
        "{{ $labels.resource }}": "example.com/dongle",
        "{{ $value }}": values.get(alert, ""),
        "{{ $value | humanizeDuration }}": "3h 10m 0s",
    }
    found = {}
    for name, text in rule["annotations"].items():
        for template, value in filled.items():
            text = text.replace(template, value)
        assert "{{" not in text
        found[name] = text
    return found
