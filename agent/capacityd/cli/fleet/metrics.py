"""The report about a fleet as Prometheus metrics, for alerts that need the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from capacityd.cli.fleet.assess import FleetReport
from capacityd.cli.fleet.findings import Reason
from capacityd.model.node import ConditionReason

_QUANTITIES = {
    "capacity": "total capacity on the Nodes that publish the resource",
    "allocatable": "total allocatable on these Nodes",
    "requested": "total requested by pods on these Nodes; no series without the right to list pods",
    "free": "total of allocatable minus requested",
    "waiting": "pods that request the resource and are not bound to a Node",
}


def metrics_text(report: FleetReport) -> bytes:
    """Returns the report in Prometheus' text format. Raises ImportError without python3-prometheus-client."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    class FleetCollector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            yield GaugeMetricFamily("capacityd_fleet_timestamp_seconds", "when the Nodes were read", report.as_of)
            yield GaugeMetricFamily("capacityd_fleet_nodes", "Nodes that were read", report.nodes)
            findings = GaugeMetricFamily(
                "capacityd_fleet_findings", "Nodes that need attention, by reason", labels=["reason"]
            )
            for reason, count in _findings(report).items():
                findings.add_metric([reason], count)
            yield findings
            for name, about in _QUANTITIES.items():
                family = GaugeMetricFamily(f"capacityd_fleet_resource_{name}", about, labels=["resource"])
                for resource in report.resources:
                    if (value := getattr(resource, name)) is not None:
                        family.add_metric([resource.name], value)
                yield family

    registry = CollectorRegistry()
    registry.register(FleetCollector())  # type: ignore[arg-type]
    return bytes(generate_latest(registry))


def _findings(report: FleetReport) -> dict[str, int]:
    """Reason -> number of Nodes, 0 for a reason that no Node has. The cluster as a whole counts as 1."""
    known = [reason.value for reason in (*Reason, *ConditionReason) if reason is not ConditionReason.PUBLISHED]
    counts = dict.fromkeys(known, 0)
    for attention in report.attention:
        for reason in attention.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return counts
