"""The report about a fleet as Prometheus metrics, for alerts that need the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class _Metric:
    """A gauge: one number or, with a label, a number for each of the label's values."""

    name: str
    """The name after capacityd_fleet_."""
    help: str
    numbers: Mapping[str, float]
    """The label's value -> number; without a label, the only key is ""."""
    label: str = ""
    """The label's name; "" if there is none."""


def metrics_text(report: FleetReport, context: str | None) -> bytes:
    """Returns the report in Prometheus' text format. Raises ImportError without python3-prometheus-client.

    context: for the label `context` of each series, so that one node_exporter can read the files of several clusters;
    None: without this label.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    context_label = {} if context is None else {"context": context}

    class FleetCollector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            for metric in _metrics(report):
                own_label = [metric.label] if metric.label else []
                family = GaugeMetricFamily(
                    f"capacityd_fleet_{metric.name}", metric.help, labels=[*context_label, *own_label]
                )
                for label_value, number in metric.numbers.items():
                    own_value = [label_value] if metric.label else []
                    family.add_metric([*context_label.values(), *own_value], number)
                yield family

    registry = CollectorRegistry()
    registry.register(FleetCollector())  # type: ignore[arg-type]
    return bytes(generate_latest(registry))


def _metrics(report: FleetReport) -> Iterator[_Metric]:
    yield _Metric("timestamp_seconds", "when the Nodes were read", {"": report.as_of})
    yield _Metric("nodes", "Nodes that were read", {"": report.nodes})
    yield _Metric("findings", "Nodes that need attention, by reason", _nodes_by_reason(report), label="reason")
    for field, about in _QUANTITIES.items():
        quantities = {resource.name: getattr(resource, field) for resource in report.resources}
        known = {name: quantity for name, quantity in quantities.items() if quantity is not None}
        yield _Metric(f"resource_{field}", about, known, label="resource")


def _nodes_by_reason(report: FleetReport) -> dict[str, int]:
    """Reason -> number of Nodes, 0 for a reason that no Node has. The cluster as a whole counts as 1."""
    # A Node whose condition says Published is healthy.
    known = [reason.value for reason in (*Reason, *ConditionReason) if reason is not ConditionReason.PUBLISHED]
    counts = dict.fromkeys(known, 0)
    for attention in report.attention:
        for reason in attention.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return counts
