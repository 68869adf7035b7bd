"""The metrics of a pass."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd import __version__
from capacityd.model.gauge import Gauge, exposition
from capacityd.model.node import ConditionReason
from capacityd.model.reading import Absent, Unknown
from capacityd.schema.config import Config
from capacityd.worker.pass_state import PassStatus

_NODE_LABEL = "capacityd_node"
"""The label with the Node's name, in each series. Prometheus' label `instance` can't replace it, because it contains an
address, which another machine may get later. A label `node` may also come from relabelling, so that ours would become
`exported_node`."""


def metrics_text(config: Config, status: PassStatus) -> bytes:
    """The content of the metrics file after a pass. Raises ImportError if the Prometheus library is missing."""
    return exposition(gauges(config, status), {_NODE_LABEL: status.node} if status.node else {})


def gauges(config: Config, status: PassStatus) -> list[Gauge]:
    """All metrics of a pass."""
    condition = status.condition
    return [
        _of_resources("capacityd_resource_published", "quantity that is published on the Node", status.published),
        _of_resources(
            "capacityd_resource_expected",
            "`expect`, on machines that the resource applies to",
            _expected(config, status),
        ),
        Gauge(
            "capacityd_resource_trouble",
            "1 for each reason why a resource is not as configured",
            dict.fromkeys(sorted(_troubles(status)), 1.0),
            labels=("resource", "reason"),
        ),
        _info(
            "capacityd_condition",
            "1 for the reason and the status of the condition; no series with `condition = false`",
            {"reason": condition.reason if condition else "", "status": condition.status if condition else ""},
        ),
        _number("capacityd_last_reconcile_timestamp_seconds", "time of the last pass", status.at),
        _number(
            "capacityd_last_success_timestamp_seconds",
            "time of the last pass without an error; 0 if there was none since the start",
            status.succeeded_at or 0.0,
        ),
        _number("capacityd_resync_period_seconds", "`resync`", config.settings.resync),
        _number("capacityd_observe", "1 while nothing is written, because of `observe`", config.settings.observe),
        _info("capacityd_configuration_info", "1 for the hash of the configuration", {"hash": config.digest}),
        _info("capacityd_build_info", "1 for the version of capacityd", {"version": __version__}),
    ]


def _number(name: str, about: str, number: float) -> Gauge:
    return Gauge(name, about, {(): float(number)})


def _info(name: str, about: str, labels: Mapping[str, str]) -> Gauge:
    """A metric with one series, whose labels carry the information. If a label is "", the metric has no series."""
    values = tuple(labels.values())
    return Gauge(name, about, {values: 1.0} if all(values) else {}, labels=tuple(labels))


def _of_resources(name: str, about: str, numbers: Mapping[str, float]) -> Gauge:
    """A metric with a series for each resource. numbers: name of the resource -> number."""
    series: dict[tuple[str, ...], float] = {(resource,): float(numbers[resource]) for resource in sorted(numbers)}
    return Gauge(name, about, series, labels=("resource",))


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
