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
"""The label with the Node's name, in each series. Prometheus' label `instance` is not enough: it contains an address,
which another machine may get later. The name is not `node`, because relabelling may add a label `node`, and Prometheus
would then rename this one to `exported_node`."""


def metrics_text(config: Config, status: PassStatus) -> bytes:
    """The content of the metrics file after a pass. Raises ImportError if the Prometheus library is missing."""
    common_labels = {_NODE_LABEL: status.node} if status.node else {}
    return exposition(gauges(config, status), common_labels)


def gauges(config: Config, status: PassStatus) -> list[Gauge]:
    """All metrics of a pass."""
    condition = status.condition
    return [
        Gauge(
            "capacityd_resource_published",
            "quantity that is published on the Node",
            _series_of_resources(status.published),
            label_names=("resource",),
        ),
        Gauge(
            "capacityd_resource_expected",
            "`expect`, on machines that the resource applies to",
            _series_of_resources(_expected_quantities(config, status)),
            label_names=("resource",),
        ),
        Gauge(
            "capacityd_resource_trouble",
            "1 for each reason why a resource is not as configured",
            dict.fromkeys(sorted(_trouble_labels(status)), 1.0),
            label_names=("resource", "reason"),
        ),
        Gauge(
            "capacityd_condition",
            "1 for the reason and the status of the condition; no series with `condition = false`",
            {(condition.reason, condition.status): 1.0} if condition else {},
            label_names=("reason", "status"),
        ),
        _unlabelled("capacityd_last_reconcile_timestamp_seconds", "time of the last pass", status.at),
        _unlabelled(
            "capacityd_last_success_timestamp_seconds",
            "time of the last pass without an error; 0 if there was none since the start",
            status.succeeded_at or 0.0,
        ),
        _unlabelled("capacityd_resync_period_seconds", "`resync`", config.settings.resync),
        _unlabelled("capacityd_observe", "1 while nothing is written, because of `observe`", config.settings.observe),
        Gauge(
            "capacityd_configuration_info",
            "1 for the hash of the configuration",
            {(config.digest,): 1.0} if config.digest else {},
            label_names=("hash",),
        ),
        Gauge(
            "capacityd_build_info", "1 for the version of capacityd", {(__version__,): 1.0}, label_names=("version",)
        ),
    ]


def _unlabelled(name: str, about: str, number: float) -> Gauge:
    """A metric without labels."""
    return Gauge(name, about, {(): float(number)})


def _series_of_resources(numbers: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    """A series for each resource. numbers: name of the resource -> number."""
    return {(resource,): float(numbers[resource]) for resource in sorted(numbers)}


def _expected_quantities(config: Config, status: PassStatus) -> dict[str, int]:
    """Resource -> expected quantity. Resources that do not apply to this machine are left out."""
    expected = config.expectations()
    for name, reading in status.readings.items():
        if isinstance(reading, Absent) and not reading.applies:
            expected.pop(name, None)
    return expected


def _trouble_labels(status: PassStatus) -> set[tuple[str, str]]:
    """Pairs of a resource or label, and a reason of the condition.

    Unknown readings are those of this pass. All other troubles come from the last pass that has read the Node.
    """
    pairs: set[tuple[str, str]] = set()
    for trouble in status.troubles:
        if trouble.key and trouble.reason is not ConditionReason.UNKNOWN:
            pairs.add((str(trouble.key), trouble.reason.value))
    for name, reading in status.readings.items():
        if isinstance(reading, Unknown):
            pairs.add((name, ConditionReason.UNKNOWN.value))
    return pairs
