"""The example alerts in Prometheus' own engine. For each fault, exactly the expected alerts fire, with their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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

# Labels of series: those of the target, those of capacityd's metrics, and those of kube-state-metrics.
ADDRESS = {"instance": "n1", "job": "node"}
MACHINE = {**ADDRESS, "capacityd_node": "n1"}
KUBE = {"node": "n1", "condition": CONDITION}


def healthy(minute: int) -> NodeAt:
    """A healthy node at this minute. It makes a pass once in a resync period."""
    passes = minute * 60 // RESYNC
    last = passes * RESYNC
    return NodeAt(last_reconcile=last, last_success=last + 0.5)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong in a fleet, and the alerts that must fire."""

    node: Callable[[NodeAt], NodeAt | None] = lambda node: node
    """Returns the node with the fault. None: its metrics file is gone."""
    alerts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The alerts, each with its labels besides those of the rule."""
    value: str = ""
    """The value in the alerts' texts."""
    condition: str | None = "true"
    """The condition's status in kube-state-metrics. None: the Node has no such condition."""
    fleet: Mapping[str, int] | None = None
    """The findings of `fleet` by reason. None: no findings. Empty: `fleet` no longer updates its metrics."""
    restarts: bool = False
    """Whether kube-state-metrics lacks its series in two of every ten minutes."""
    gone: bool = False
    """Whether the machine is down, and its Node is deleted."""
    begin: int = BEGIN
    fixed: int | None = None
    """The minute at which the fault ends. None: it never ends."""
    end: int = END
    """The minute at which the test compares the alerts."""

    def scrapes(self) -> list[Scrape]:
        """The scrapes of each minute."""
        return [self._scrape(minute) for minute in range(self.end + 1)]

    def _scrape(self, minute: int) -> Scrape:
        is_faulty = self.begin <= minute and (self.fixed is None or minute < self.fixed)
        if is_faulty and self.gone:
            return {series("up", **ADDRESS): 0.0}
        node = self.node(healthy(minute)) if is_faulty else healthy(minute)
        is_old_report = is_faulty and self.fleet == {}
        report = fleet_report(self.begin - 1 if is_old_report else minute, self.fleet if is_faulty else {})
        is_away = self.restarts and minute % 10 < 2
        kube = {} if is_away else kube_state("n1", self.condition if is_faulty else "true")
        return {**scrape("n1", node), **kube, **report}


def fleet_report(minute: int, counts: Mapping[str, int] | None) -> Scrape:
    """The metrics that `fleet` has written at this minute."""
    findings = {"DeviceClass": 0, "Overcommitted": 0, **(counts or {})}
    samples = {series("capacityd_fleet_findings", reason=reason, **ADDRESS): float(n) for reason, n in findings.items()}
    return {**samples, series("capacityd_fleet_timestamp_seconds", **ADDRESS): 60.0 * minute}


def condition_labels(reason: ConditionReason) -> dict[str, str]:
    """The labels of an alert about a condition that is False."""
    return MACHINE | {"reason": reason.value, "status": "False"}


def with_condition(reason: ConditionReason, **changes: Any) -> Callable[[NodeAt], NodeAt]:
    """A function that makes the condition of a node False, and makes further changes."""
    return lambda node: replace(node, condition=(reason.value, "False"), **changes)


def publishing(published: Mapping[str, int]) -> Callable[[NodeAt], NodeAt]:
    """A function that makes a node publish these numbers."""
    return lambda node: replace(node, published=published)


def resource_labels(resource: str, **more: str) -> dict[str, str]:
    """The labels of an alert about a resource."""
    return MACHINE | {"resource": resource} | more


def rules() -> dict[str, Any]:
    """The rules of the example alerts, by name."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def false_condition(reason: ConditionReason, resource: str = "", **changes: Any) -> Fault:
    """A fault for which the condition is False. resource: the resource with the fault. changes: of the node."""
    alerts: dict[str, Mapping[str, str]] = {"CapacityConditionFalse": condition_labels(reason)}
    if resource:
        alerts["CapacityResourceTrouble"] = resource_labels(resource, reason=reason.value)
        changes.setdefault("troubles", {resource: reason})
    return Fault(with_condition(reason, **changes), alerts)


def fleet_finding(reason: str, count: int = 1) -> Fault:
    """A finding of `fleet`."""
    alert = {"CapacityFleetFinding": ADDRESS | {"reason": reason}}
    return Fault(alerts=alert, value=str(count), fleet={reason: count})


def restarting_kube_state(condition: str | None) -> Fault:
    """kube-state-metrics restarts every ten minutes, and is away for two."""
    alerts = {"CapacityConditionMissing": {"node": "n1"}} if condition is None else not_published(condition)
    return Fault(alerts=alerts, condition=condition, restarts=True)


def not_published(status: str) -> dict[str, Mapping[str, str]]:
    """The alert about a condition with this status, according to kube-state-metrics."""
    return {"CapacityNotPublished": KUBE | {"status": status}}


UNKNOWN_DONGLES = {DONGLE: "timeout", SEATS: 10}
LOWERED = {"CapacityLowered": resource_labels(SEATS)}
OVERDUE = {"CapacityReconcileOverdue": MACHINE}
FAULTS: Mapping[str, Fault] = {  # Fault(THE NODE WITH THE FAULT, THE ALERTS, …)
    "none": Fault(),
    "configuration": false_condition(ConditionReason.CONFIGURATION_REJECTED),
    "overwritten": false_condition(ConditionReason.OVERWRITTEN),
    "denied": false_condition(ConditionReason.DENIED, GPU),
    "refused": false_condition(ConditionReason.REFUSED, SEATS),
    "below expected": false_condition(ConditionReason.BELOW_EXPECTED, DONGLE),
    "unknown": false_condition(ConditionReason.UNKNOWN, DONGLE, readings=UNKNOWN_DONGLES, troubles={}),
    "unknown, but not for long": Fault(
        with_condition(ConditionReason.UNKNOWN, readings=UNKNOWN_DONGLES), fixed=BEGIN + 10
    ),
    "unknown, and the condition has a more urgent reason": Fault(
        with_condition(ConditionReason.CONFIGURATION_REJECTED, readings=UNKNOWN_DONGLES),
        {
            "CapacityConditionFalse": condition_labels(ConditionReason.CONFIGURATION_REJECTED),
            "CapacityResourceTrouble": resource_labels(DONGLE, reason="Unknown"),
        },
    ),
    "errors": Fault(lambda node: replace(node, last_success=0.0), OVERDUE),
    "errors since the boot, and a dongle is expected": Fault(
        lambda node: replace(node, last_success=0.0, published={}), OVERDUE
    ),
    # The only pass was at the beginning, and succeeded after half a second, as in healthy().
    "no pass": Fault(lambda node: replace(node, last_reconcile=0.0, last_success=0.5), OVERDUE),
    "no file": Fault(lambda _: None, {"CapacityMetricsMissing": ADDRESS}, begin=END - 30),
    "no machine": Fault(gone=True, begin=END - 30),
    "observe mode": Fault(lambda node: replace(node, observe=True, published={})),
    "false": Fault(alerts=not_published("false"), condition="false"),
    "stopped": Fault(alerts=not_published("unknown"), condition="unknown"),
    "false, and kube-state-metrics restarts": restarting_kube_state("false"),
    "no condition, and kube-state-metrics restarts": restarting_kube_state(None),
    "lowered": Fault(publishing({DONGLE: 4, SEATS: 9}), LOWERED, value="10", begin=END - 30),
    "raised": Fault(publishing({DONGLE: 4, SEATS: 11}), begin=END - 30),
    "removed": Fault(publishing({DONGLE: 4}), LOWERED, value="10", begin=END - 30),
    "lowered long ago": Fault(publishing({DONGLE: 4, SEATS: 9})),
    "removed long ago": Fault(publishing({DONGLE: 4})),
    "clash of names": fleet_finding("DeviceClass"),
    "overcommitted": fleet_finding("Overcommitted", 2),
    "a suspicion": Fault(fleet={"QuantityDiffers": 3}),
    # The last report is from minute 59, and the test compares the alerts in minute 200.
    "old report": Fault(alerts={"CapacityFleetReportOld": ADDRESS}, value="2h 21m 0s", fleet={}, begin=60),
    "no condition": Fault(alerts={"CapacityConditionMissing": {"node": "n1"}}, condition=None),
}


def test_each_alert_has_a_fault_that_it_fires_for() -> None:
    assert set(rules()) == {alert for fault in FAULTS.values() for alert in fault.alerts}


def test_the_rules_are_valid() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES)


def test_the_metrics_are_named_as_prometheus_wants_them() -> None:
    promtool("check", "metrics", text=text_of(healthy(0)))


def labelled(samples: Scrape, **labels: str) -> Scrape:
    """The series with these labels, which Prometheus adds to all series of a target."""
    more = "".join(f'{name}="{value}",' for name, value in labels.items())
    return {name.replace("{", "{" + more, 1): value for name, value in samples.items()}


def by_node(samples: Scrape) -> Scrape:
    """The series with the target labels that relabelling often sets. Prometheus then renames the metrics' own ones."""
    results = {}
    for name, value in samples.items():
        if name.startswith("kube_"):
            results[name] = value
            continue
        renamed = re.sub(r"\b(node|nodename|kubernetes_node)=", r"exported_\1=", name)
        results |= labelled({renamed: value}, node="the-node", nodename="the-node", kubernetes_node="the-node")
    return results


def check(folder: Path, scrapes: Sequence[Scrape], expected: Sequence[Mapping[str, Any]]) -> None:
    """Lets promtool test that exactly the expected alerts fire."""
    check_rules(folder, scrapes, "1m", rule_files=[str(RULES)], alert_rule_test=expected)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_exactly_the_expected_alerts_fire(fault: Fault, tmp_path: Path) -> None:
    check(tmp_path, fault.scrapes(), expected_alerts(fault))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_labels_of_targets_change_nothing(fault: Fault, tmp_path: Path) -> None:
    """The targets have the labels of kube-prometheus-stack and of relabelling. A second, healthy cluster has the same
    names and addresses. The pod of node_exporter is replaced every ten minutes, also when the fault begins."""
    scrapes = []
    for minute, (faulty, healthy) in enumerate(zip(fault.scrapes(), Fault(end=fault.end).scrapes(), strict=True)):
        pod = {"pod": f"exporter-{minute // 10}", "container": "exporter", "endpoint": "metrics", "service": "e"}
        both = {**labelled(faulty, cluster="b"), **labelled(healthy, cluster="a")}
        scrapes.append(labelled(by_node(both), **pod))
    check(tmp_path, scrapes, expected_alerts(fault, cluster="b"))


def expected_alerts(fault: Fault, **labels: str) -> list[dict[str, Any]]:
    """Exactly the alerts of this fault, with further labels."""
    expected = []
    for alert, rule in rules().items():
        fires = alert in fault.alerts
        fired = [_alert(rule, {**fault.alerts[alert], **labels}, fault.value)] if fires else []
        expected.append({"eval_time": f"{fault.end}m", "alertname": alert, "exp_alerts": fired})
    return expected


@pytest.mark.parametrize(
    ("seats", "later", "lowered_from"),  # lowered_from: the number in the alert's text (None: no alert)
    [(2, 2, None), (10, 10, None), (None, None, None), (20, 15, "20"), (3, None, "3")],
)
def test_a_machine_is_not_compared_with_another_that_had_its_address(
    tmp_path: Path, seats: int | None, later: int | None, lowered_from: str | None
) -> None:
    """n2 gets the address of n1. seats: what n2 then publishes. later: what n2 publishes ten minutes later."""

    def at(minute: int) -> NodeAt:
        number = seats if minute < END - 20 else later
        published = {DONGLE: 4} if number is None else {DONGLE: 4, SEATS: number}
        return healthy(minute) if minute < END - 30 else replace(healthy(minute), name="n2", published=published)

    alerts = {"CapacityLowered": ADDRESS | {"capacityd_node": "n2", "resource": SEATS}} if lowered_from else {}
    scrapes = [scrape("n1", at(minute)) for minute in range(END + 1)]
    check(tmp_path, scrapes, expected_alerts(Fault(alerts=alerts, value=lowered_from or "")))


def _alert(rule: Mapping[str, Any], labels: Mapping[str, str], value: str) -> dict[str, Any]:
    """The alert as Prometheus sends it, with the values in its texts."""
    values = {f"{{{{ $labels.{name} }}}}": text for name, text in labels.items()}
    values |= {"{{ $value }}": value, "{{ $value | humanizeDuration }}": value}
    texts = {}
    for name, text in rule["annotations"].items():
        for template, filled in values.items():
            text = text.replace(template, filled)
        assert "{{" not in text
        texts[name] = text
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": texts}
