"""The report about a fleet as Prometheus metrics, for alerts that need the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from capacityd.model.node import ConditionReason
from kubectl_capacityd.fleet.assess import FleetReport
from kubectl_capacityd.fleet.findings import Reason, nodes_by_reason

_QUANTITIES = {  # field of ResourceSummary, and the metric's name after resource_ -> the metric's help
    "free": "total of allocatable minus what pods request; no series without the right to list pods",
    "waiting": "pods that request the resource and are not bound to a Node",
}


def metrics_text(report: FleetReport, context: str | None) -> bytes:
    """Returns the report in Prometheus' text format. Raises ImportError without python3-prometheus-client.

    context: the value of the label `context` of each series, for a node_exporter that reads files of several clusters.
    None: the series have no such label.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    gauge = partial(_gauge, context)

    class FleetCollector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            yield gauge("timestamp_seconds", "when the Nodes were read", {"": report.as_of})
            yield gauge("findings", "Nodes that need attention, by reason", _nodes_with(report), label="reason")
            for field, about in _QUANTITIES.items():
                quantities = {resource.name: getattr(resource, field) for resource in report.resources}
                known = {name: quantity for name, quantity in quantities.items() if quantity is not None}
                yield gauge(f"resource_{field}", about, known, label="resource")

    registry = CollectorRegistry()
    registry.register(FleetCollector())  # type: ignore[arg-type]
    return bytes(generate_latest(registry))


def _gauge(context: str | None, name: str, about: str, numbers: Mapping[str, float], label: str = "") -> Any:
    """A metric with a series for each number.

    context: as in metrics_text(). name: the metric's name without the prefix. about: the metric's help. numbers: value
    of the label -> number. label: the label's name. "": the metric has one series, and the key in numbers is not used.
    """
    from prometheus_client.core import GaugeMetricFamily

    context_label = {} if context is None else {"context": context}
    own_labels = [label] if label else []
    family = GaugeMetricFamily(f"capacityd_fleet_{name}", about, labels=[*context_label, *own_labels])
    for label_value, number in numbers.items():
        own_values = [label_value] if label else []
        family.add_metric([*context_label.values(), *own_values], number)
    return family


def _nodes_with(report: FleetReport) -> dict[str, int]:
    """Reason -> number of Nodes, 0 for a reason that no Node has. The cluster as a whole counts as 1."""
    # A Node whose condition says Published is healthy.
    known = [reason.value for reason in (*Reason, *ConditionReason) if reason is not ConditionReason.PUBLISHED]
    counts = {reason: len(names) for reason, names in nodes_by_reason(report.findings).items()}
    return dict.fromkeys(known, 0) | counts
