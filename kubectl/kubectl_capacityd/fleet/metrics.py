"""The report about a fleet as Prometheus metrics, for alerts that need the whole fleet."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.model.gauge import Gauge, exposition
from capacityd.model.node import ConditionReason
from kubectl_capacityd.fleet.assess import FleetReport
from kubectl_capacityd.fleet.findings import Reason, nodes_by_reason


def metrics_text(report: FleetReport, context: str | None) -> bytes:
    """Returns the report in Prometheus' text format. Raises ImportError without python3-prometheus-client.

    context: the value of the label `context` of each series, for a node_exporter that reads files of several clusters.
    None: the series have no such label.
    """
    return exposition(gauges(report), {} if context is None else {"context": context})


def gauges(report: FleetReport) -> list[Gauge]:
    """All metrics of a report."""
    return [
        Gauge(
            "capacityd_fleet_findings",
            "Nodes with this finding of `fleet`; 1 for `DeviceClass`",
            {(reason,): float(count) for reason, count in _nodes_with(report).items()},
            labels=("reason",),
        ),
        Gauge("capacityd_fleet_timestamp_seconds", "when the Nodes were read", {(): report.as_of}),
        _of_resources(
            "capacityd_fleet_resource_free",
            "what is allocatable and not requested; no series without the right to list pods",
            {resource.name: resource.free for resource in report.resources},
        ),
        _of_resources(
            "capacityd_fleet_resource_waiting",
            "pods that request it and are not bound to a Node",
            {resource.name: resource.waiting for resource in report.resources},
        ),
    ]


def _of_resources(name: str, about: str, numbers: Mapping[str, int | None]) -> Gauge:
    """A metric with a series for each resource. numbers: name of the resource -> number; None if it is not known."""
    series: dict[tuple[str, ...], float] = {
        (resource,): float(number) for resource, number in numbers.items() if number is not None
    }
    return Gauge(name, about, series, labels=("resource",))


def _nodes_with(report: FleetReport) -> dict[str, int]:
    """Reason -> number of Nodes, 0 for a reason that no Node has. The cluster as a whole counts as 1."""
    # A Node whose condition says Published is healthy.
    known = [reason.value for reason in (*Reason, *ConditionReason) if reason is not ConditionReason.PUBLISHED]
    counts = {reason: len(names) for reason, names in nodes_by_reason(report.findings).items()}
    return dict.fromkeys(known, 0) | counts
