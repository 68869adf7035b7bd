"""The report about a fleet as Prometheus metrics, for alerts that need the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from capacityd.cli.fleet.assess import FleetReport
from capacityd.cli.fleet.findings import Reason
from capacityd.model.node import ConditionReason

_QUANTITIES = {  # field of ResourceSummary, and the metric's name after resource_ -> the metric's help
    "capacity": "total capacity on the Nodes that publish the resource",
    "allocatable": "total allocatable on these Nodes",
    "requested": "total requested by pods on these Nodes; no series without the right to list pods",
    "free": "total of allocatable minus requested",
    "waiting": "pods that request the resource and are not bound to a Node",
}

_Family: TypeAlias = tuple[str, str, tuple[str, ...], Mapping[tuple[str, ...], float]]
"""A metric: name, help, the names of its labels (none or one), and the values of these labels -> the metric's value."""


def metrics_text(report: FleetReport, context: str | None = None) -> bytes:
    """Returns the report in Prometheus' text format. Raises ImportError without python3-prometheus-client.

    context: for the label `context` of each series, so that one node_exporter can read the files of several clusters.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    cluster = {} if context is None else {"context": context}

    class FleetCollector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            for name, about, labels, values in _families(report):
                family = GaugeMetricFamily(f"capacityd_fleet_{name}", about, labels=[*cluster, *labels])
                for label_values, value in values.items():
                    family.add_metric([*cluster.values(), *label_values], value)
                yield family

    registry = CollectorRegistry()
    registry.register(FleetCollector())  # type: ignore[arg-type]
    return bytes(generate_latest(registry))


def _families(report: FleetReport) -> Iterator[_Family]:
    yield "timestamp_seconds", "when the Nodes were read", (), {(): report.as_of}
    yield "nodes", "Nodes that were read", (), {(): report.nodes}
    findings: dict[tuple[str, ...], float] = {(reason,): float(count) for reason, count in _findings(report).items()}
    yield "findings", "Nodes that need attention, by reason", ("reason",), findings
    for name, about in _QUANTITIES.items():
        values: dict[tuple[str, ...], float | None] = {
            (resource.name,): getattr(resource, name) for resource in report.resources
        }
        known = {label_values: value for label_values, value in values.items() if value is not None}
        yield f"resource_{name}", about, ("resource",), known


def _findings(report: FleetReport) -> dict[str, int]:
    """Reason -> number of Nodes, 0 for a reason that no Node has. The cluster as a whole counts as 1."""
    known = [reason.value for reason in (*Reason, *ConditionReason) if reason is not ConditionReason.PUBLISHED]
    counts = dict.fromkeys(known, 0)
    for attention in report.attention:
        for reason in attention.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return counts
