"""The example alerts in Prometheus' own engine: for each fault exactly the expected alerts fire, with their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacityd.model.node import CONDITION, ConditionReason
from tests import ROOT
from tests.support.prometheus import check_rules, promtool
from tests.support.scrapes import DONGLE, GPU, RESYNC, SEATS, NodeAt, Scrape, kube_state, scrape, series, text_of

RULES = ROOT / "conf/prometheus/capacityd-rules.yaml"
BEGIN, END = 60, 200
"""The minute at which the fault begins, and the minute at which the test compares the alerts."""

MACHINE = {"instance": "n1", "job": "node"}
KUBE = {"node": "n1", "condition": CONDITION}


def healthy(minute: int) -> NodeAt:
    """A node that reconciles once in a resync period."""
    last = minute * 60 // RESYNC * RESYNC
    return NodeAt(last_reconcile=last, last_success=last + 0.5)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, and the alerts that fire for it."""

    node: Callable[[NodeAt], NodeAt | None] = lambda node: node
    """Returns the node with the fault; None if its metrics file is gone."""
    alerts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Alert -> its labels, besides those of the rule."""
    value: str = ""
    """The value in the alerts' texts."""
    condition: str | None = "true"
    """The condition's status in kube-state-metrics; None: the Node has no such condition."""
    fleet: Mapping[str, int] | None = None
    """The findings of `fleet` by reason. None: no findings. Empty: `fleet` no longer updates its metrics."""
    gone: bool = False
    """The machine is down, and its Node is deleted."""
    begin: int = BEGIN
    fixed: int | None = None
    """The minute at which the fault ends; None: never."""
    end: int = END
    """The minute at which the test compares the alerts."""

    def scrapes(self) -> list[Scrape]:
        """The scrapes of each minute."""
        results: list[Scrape] = []
        seen: list[tuple[NodeAt | None, Scrape]] = []  # few scrapes differ, and each takes milliseconds
        for minute in range(self.end + 1):
            faulty = self.begin <= minute and (self.fixed is None or minute < self.fixed)
            if faulty and self.gone:
                results.append({series("up", **MACHINE): 0.0})
                continue
            node = self.node(healthy(minute)) if faulty else healthy(minute)
            if not seen or seen[-1][0] != node:
                seen.append((node, scrape("n1", node)))
            report = fleet_report(
                self.begin - 1 if faulty and self.fleet == {} else minute, self.fleet if faulty else {}
            )
            results.append({**seen[-1][1], **kube_state("n1", self.condition if faulty else "true"), **report})
        return results


def fleet_report(minute: int, counts: Mapping[str, int] | None) -> Scrape:
    """The metrics of `fleet` on some machine, written at this minute."""
    findings = {"DeviceClass": 0, "Overcommitted": 0, **(counts or {})}
    samples = {series("capacityd_fleet_findings", reason=reason, **MACHINE): float(n) for reason, n in findings.items()}
    return {**samples, series("capacityd_fleet_timestamp_seconds", **MACHINE): 60.0 * minute}


def condition(reason: ConditionReason) -> dict[str, str]:
    return MACHINE | {"reason": reason.value, "status": "False"}


def with_condition(reason: ConditionReason, **changes: Any) -> Callable[[NodeAt], NodeAt]:
    return lambda node: replace(node, condition=(reason.value, "False"), **changes)


def publishing(published: Mapping[str, int]) -> Callable[[NodeAt], NodeAt]:
    return lambda node: replace(node, published=published)


def of(resource: str, **more: str) -> dict[str, str]:
    return MACHINE | {"resource": resource} | more


def rules() -> dict[str, Any]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def reasons_alone() -> list[ConditionReason]:
    """Returns the reasons whose alert uses only the condition."""
    expressions = {rule["expr"] for rule in rules().values()}
    alone = 'capacityd_condition{{reason="{}", status="False"}} == 1'
    return [reason for reason in ConditionReason if alone.format(reason.value) in expressions]


FAULTS: Mapping[str, Fault] = {
    "none": Fault(),
    **{r.value: Fault(with_condition(r), {f"Capacity{r.value}": condition(r)}) for r in reasons_alone()},
    "configuration": Fault(
        with_condition(ConditionReason.CONFIGURATION_REJECTED, errors=2),
        {"CapacityConfigurationRejected": MACHINE},
        "2",
    ),
    "denied": Fault(with_condition(ConditionReason.DENIED, denied=(GPU,)), {"CapacityDenied": of(GPU)}),
    "refused": Fault(
        with_condition(ConditionReason.REFUSED, refused=(SEATS,)),
        {"CapacityRefused": of(SEATS), "CapacityNotPublished": KUBE | {"status": "false"}},
        condition="false",
    ),
    "unknown": Fault(
        with_condition(ConditionReason.UNKNOWN, readings={DONGLE: "timeout", SEATS: 10}),
        {"CapacityUnknown": of(DONGLE, outcome="unknown")},
    ),
    "unknown, but not for long": Fault(
        with_condition(ConditionReason.UNKNOWN, readings={DONGLE: "timeout"}), fixed=BEGIN + 10
    ),
    "below expected": Fault(
        with_condition(
            ConditionReason.BELOW_EXPECTED, readings={DONGLE: 3, SEATS: 10}, published={DONGLE: 3, SEATS: 10}
        ),
        {"CapacityBelowExpected": of(DONGLE)},
        "3",
    ),
    "expected, not published": Fault(
        with_condition(ConditionReason.BELOW_EXPECTED, readings={DONGLE: None, SEATS: 10}, published={SEATS: 10}),
        {"CapacityBelowExpected": of(DONGLE)},
        "0",
    ),
    "errors": Fault(lambda node: replace(node, last_success=0.0), {"CapacityReconcileErrors": MACHINE}),
    "no pass": Fault(
        lambda node: replace(node, last_reconcile=0.0, last_success=0.5),
        {"CapacityReconcileOverdue": MACHINE},
        "3h 20m 0s",
    ),
    "no file": Fault(lambda _: None, {"CapacityMetricsMissing": MACHINE}, begin=END - 30),
    "no machine": Fault(gone=True, begin=END - 30),
    "observe mode": Fault(lambda node: replace(node, observe=True, published={}, last_success=0.0)),
    "observe mode, for long": Fault(
        lambda node: replace(node, observe=True, published={}, last_success=0.0),
        {"CapacityObserveMode": MACHINE},
        end=BEGIN + 25 * 60,
    ),
    "false": Fault(alerts={"CapacityNotPublished": KUBE | {"status": "false"}}, condition="false"),
    "stopped": Fault(alerts={"CapacityNotPublished": KUBE | {"status": "unknown"}}, condition="unknown"),
    "lowered": Fault(publishing({DONGLE: 4, SEATS: 9}), {"CapacityLowered": of(SEATS)}, "9", begin=END - 30),
    "raised": Fault(publishing({DONGLE: 4, SEATS: 11}), begin=END - 30),
    "removed": Fault(publishing({DONGLE: 4}), {"CapacityWithdrawn": of(SEATS)}, "10", begin=END - 30),
    "lowered long ago": Fault(publishing({DONGLE: 4, SEATS: 9})),
    "removed long ago": Fault(publishing({DONGLE: 4})),
    "clash of names": Fault(
        alerts={"CapacityDeviceClassClash": MACHINE | {"reason": "DeviceClass"}}, fleet={"DeviceClass": 1}
    ),
    "overcommitted": Fault(
        alerts={"CapacityOvercommitted": MACHINE | {"reason": "Overcommitted"}}, value="2", fleet={"Overcommitted": 2}
    ),
    "old report": Fault(alerts={"CapacityFleetReportOld": MACHINE}, value="2h 21m 0s", fleet={}, begin=60),
    "no condition": Fault(alerts={"CapacityConditionMissing": {"node": "n1"}}, condition=None),
}


def test_each_alert_has_a_fault_that_it_fires_for() -> None:
    assert set(rules()) == {alert for fault in FAULTS.values() for alert in fault.alerts}


def test_the_rules_are_valid() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES)


def test_the_metrics_are_named_as_prometheus_wants_them() -> None:
    promtool("check", "metrics", text=text_of(healthy(0)))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_exactly_these_fire(fault: Fault, tmp_path: Path) -> None:
    expected = [
        {
            "eval_time": f"{fault.end}m",
            "alertname": alert,
            "exp_alerts": [_alert(rule, fault.alerts[alert], fault.value)] if alert in fault.alerts else [],
        }
        for alert, rule in rules().items()
    ]
    check_rules(tmp_path, fault.scrapes(), "1m", rule_files=[str(RULES)], alert_rule_test=expected)


def _alert(rule: Mapping[str, Any], labels: Mapping[str, str], value: str) -> dict[str, Any]:
    """Returns the alert as Prometheus sends it, with the values in its texts."""
    values = {f"{{{{ $labels.{name} }}}}": text for name, text in labels.items()}
    values |= {"{{ $value }}": value, "{{ $value | humanizeDuration }}": value}
    texts = {}
    for name, text in rule["annotations"].items():
        for template, filled in values.items():
            text = text.replace(template, filled)
        assert "{{" not in text
        texts[name] = text
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": texts}
