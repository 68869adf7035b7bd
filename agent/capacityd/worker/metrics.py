"""The service's metrics, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capacityd import __version__
from capacityd.model.node import ConditionReason
from capacityd.model.reading import Absent, Unknown
from capacityd.schema.config import Config
from capacityd.worker.pass_state import PassStatus

_NODE_LABEL = "capacityd_node"
"""The label of each series that contains the Node's name. Prometheus' label `instance` is an address, which another
machine may get later. A label `node` may clash with one from relabelling, and would then become exported_node."""


def exposition(config: Config, status: PassStatus) -> bytes:
    """The content of the metrics file after a pass. Raises ImportError if the Prometheus library is missing."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    node_label = {_NODE_LABEL: status.node} if status.node else {}  # label -> value

    class PassCollector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            for name, about, labels, values in _gauges(config, status):
                gauge = GaugeMetricFamily(f"capacityd_{name}", about, labels=[*node_label, *labels])
                for label_values, value in values.items():
                    gauge.add_metric([*node_label.values(), *label_values], value)
                yield gauge

    registry = CollectorRegistry()
    registry.register(PassCollector())  # type: ignore[arg-type]  # duck-typed
    content: bytes = generate_latest(registry)
    return content


_Gauge = tuple[str, str, Sequence[str], Mapping[tuple[str, ...], float]]
"""Name, help text, names of the labels, and the value for each combination of label values."""


def _gauges(config: Config, status: PassStatus) -> Iterator[_Gauge]:
    yield "resource_published", "Quantity published on the Node.", ("resource",), _by_resource(status.published)
    about = "Expected quantity (`expect`), on machines that the resource applies to."
    yield "resource_expected", about, ("resource",), _by_resource(_expected(config, status))
    about = "1 for each reason why a resource is not published as configured."
    yield "resource_trouble", about, ("resource", "reason"), dict.fromkeys(sorted(_troubles(status)), 1.0)
    for name, about, value in (
        ("last_reconcile_timestamp_seconds", "Time of the last reconcile pass.", status.at),
        (
            "last_success_timestamp_seconds",
            "Time of the last reconcile pass without an error; 0: there was none.",
            status.succeeded_at or 0.0,
        ),
        (
            "resync_period_seconds",
            "Period of the passes that read the Node without an event.",
            config.settings.resync,
        ),
        ("observe", "1 while observe mode is on: nothing is written to the Node.", config.settings.observe),
    ):
        yield name, about, (), {(): float(value)}  # the series has no labels
    condition = status.condition
    reason_and_status = {
        "reason": condition.reason if condition else "",
        "status": condition.status if condition else "",
    }
    yield _info("condition", "The Node condition CapacityPublished.", reason_and_status)
    yield _info("configuration_info", "The hash of the configuration.", {"hash": config.digest})
    yield _info("build_info", "The version of capacityd.", {"version": __version__})


def _info(name: str, about: str, labels: Mapping[str, str]) -> _Gauge:
    """A gauge with one series, whose labels carry the information. If a label is "", the gauge has no series."""
    values = tuple(labels.values())
    series = {values: 1.0} if all(values) else {}
    return name, about, tuple(labels), series


def _by_resource(numbers: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    return {(name,): float(numbers[name]) for name in sorted(numbers)}


def _expected(config: Config, status: PassStatus) -> dict[str, int]:
    """Resource -> expected quantity. Resources that do not apply to this machine are left out."""
    readings = status.readings
    elsewhere = {name for name, reading in readings.items() if isinstance(reading, Absent) and not reading.applies}
    return {name: quantity for name, quantity in config.expectations().items() if name not in elsewhere}


def _troubles(status: PassStatus) -> set[tuple[str, str]]:
    """Pairs of a resource or label, and a reason of the condition.

    Unknown readings are those of this pass. All other troubles come from the last pass that has read the Node.
    """
    found = {
        (str(trouble.key), trouble.reason.value)
        for trouble in status.troubles
        if trouble.key and trouble.reason is not ConditionReason.UNKNOWN
    }
    unknown = {name for name, reading in status.readings.items() if isinstance(reading, Unknown)}
    return found | {(name, ConditionReason.UNKNOWN.value) for name in unknown}
