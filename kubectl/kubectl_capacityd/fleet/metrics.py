"""The report about a fleet as Prometheus metrics, for alerts that need the whole fleet."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.model.gauge import Gauge, exposition
from capacityd.model.node import ConditionReason
from kubectl_capacityd.fleet.assess import FleetReport
from kubectl_capacityd.fleet.findings import Reason, count_by_reason


def metrics_text(report: FleetReport, context: str | None) -> bytes:
    """Returns the report in Prometheus' text format. Raises ImportError without python3-prometheus-client.

    context: the value of the label `context` of each series, for a node_exporter that reads files of several clusters.
    None: the series have no such label.
    """
    labels = {} if context is None else {"context": context}
    return exposition(gauges(report), labels)


def gauges(report: FleetReport) -> list[Gauge]:
    """All metrics of a report."""
    free = {resource.name: resource.free for resource in report.resources}
    waiting = {resource.name: resource.waiting for resource in report.resources}
    return [
        _gauge(
            "capacityd_fleet_findings",
            "Nodes with this finding of `fleet`; 1 for `DeviceClass`",
            label="reason",
            numbers=_findings_by_reason(report),
        ),
        Gauge("capacityd_fleet_timestamp_seconds", "when the Nodes were read", {(): report.as_of}),
        _gauge(
            "capacityd_fleet_resource_free",
            "what is allocatable and not requested; no series without the right to list pods",
            label="resource",
            numbers=free,
        ),
        _gauge(
            "capacityd_fleet_resource_waiting",
            "pods that request it and are not bound to a Node",
            label="resource",
            numbers=waiting,
        ),
    ]


def _gauge(name: str, about: str, label: str, numbers: Mapping[str, int | None]) -> Gauge:
    """A metric with one label. numbers: value of the label -> number; None for a series that is left out."""
    series: dict[tuple[str, ...], float] = {}
    for label_value, number in numbers.items():
        if number is not None:
            series[(label_value,)] = float(number)
    return Gauge(name, about, series, label_names=(label,))


def _findings_by_reason(report: FleetReport) -> dict[str, int]:
    """Reason -> number of Nodes, 0 for a reason that no Node has."""
    # A Node whose condition says Published is healthy.
    known = [reason.value for reason in (*Reason, *ConditionReason) if reason is not ConditionReason.PUBLISHED]
    return dict.fromkeys(known, 0) | count_by_reason(report.findings)
