"""The service's metrics, in Prometheus' text format. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capacityd import __version__
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Action
from capacityd.model.reading import Absent, Quantity, ReadingOutcome, Unknown, outcome_of
from capacityd.schema.config import Config
from capacityd.worker.pass_memory import Counters
from capacityd.worker.pass_state import PassStatus

_NODE_LABEL = "capacityd_node"
"""The label with the Node's name, on each series. Prometheus' label `instance` is an address, which another machine may
get later. A label `node` could clash with one from relabelling: Prometheus would rename ours to exported_node."""


@dataclass(frozen=True, slots=True)
class PassMetrics:
    """One reconcile pass and its results."""

    config: Config
    status: PassStatus
    counters: Counters
    """The counters after this pass."""
    durations: Mapping[str, float] = field(default_factory=dict)
    """Resource -> seconds that its detector ran (Discovery.durations)."""
    configuration_errors: int = 0


def count_pass(counters: Counters, config: Config, status: PassStatus, lost: int, *, succeeded: bool) -> Counters:
    """The counters after a pass; all are 0 if no metrics file is configured. counters: those before it.

    lost: passes without a result since the last one that ended. succeeded: whether this pass ended without an error.
    """
    if not config.settings.textfile:
        return Counters()
    has_written = status.written_at == status.at  # this pass wrote the Node, not an earlier one
    is_as_desired = succeeded and not _withheld(status)
    return Counters(
        reconciles=counters.reconciles + 1 + lost,
        succeeded=counters.succeeded + int(succeeded),
        writes=counters.writes + int(has_written),
        last_success=status.at if is_as_desired else counters.last_success,
    )


def exposition(metrics: PassMetrics, duration: float) -> bytes:
    """The file's content in Prometheus' text format. Raises ImportError if the Prometheus library is missing.

    duration: of the pass, in seconds.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    counters = metrics.counters
    node_label = {_NODE_LABEL: metrics.status.node} if metrics.status.node else {}  # label -> value

    class PassCollector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            for name, about, labels, values in _gauges(metrics, duration):
                gauge = GaugeMetricFamily(f"capacityd_{name}", about, labels=[*node_label, *labels])
                for label_values, value in values.items():
                    gauge.add_metric([*node_label.values(), *label_values], value)
                yield gauge
            for name, about, count in (
                ("reconciles", "Reconcile passes that were started.", counters.reconciles),
                (
                    "reconcile_errors",
                    "Reconcile passes that ended with an error or did not end.",
                    counters.reconciles - counters.succeeded,
                ),
                ("writes", "Writes of the Node's capacity.", counters.writes),
            ):
                counter = CounterMetricFamily(f"capacityd_{name}", about, labels=[*node_label])
                counter.add_metric([*node_label.values()], count)
                yield counter

    registry = CollectorRegistry()
    registry.register(PassCollector())  # type: ignore[arg-type]  # duck-typed
    content: bytes = generate_latest(registry)
    return content


_Gauge = tuple[str, str, Sequence[str], Mapping[tuple[str, ...], float]]
"""Name, help, names of labels, and the value for each combination of the labels' values."""


def _gauges(metrics: PassMetrics, duration: float) -> Iterator[_Gauge]:
    yield from _resources(metrics)
    yield from _detectors(metrics)
    config = metrics.config
    status = metrics.status
    for name, about, value in (
        ("last_reconcile_timestamp_seconds", "Time of the last reconcile pass.", status.at),
        (
            "last_success_timestamp_seconds",
            "When the Node was last as desired; 0: not yet. Does not change while observe mode withholds a change.",
            metrics.counters.last_success,
        ),
        ("last_write_timestamp_seconds", "Time of the last write to the Node.", status.written_at),
        ("last_reconcile_duration_seconds", "Duration of the last reconcile pass.", duration),
        (
            "resync_period_seconds",
            "Period of the passes that read the Node without an event.",
            config.settings.resync,
        ),
        ("observe", "1 while observe mode is on: nothing is written to the Node.", config.settings.observe),
        ("configuration_errors", "Errors in the configuration.", metrics.configuration_errors),
    ):
        series: dict[tuple[str, ...], float] = {} if value is None else {(): float(value)}  # (): without labels
        yield name, about, (), series
    condition = status.condition
    reason_and_status = {
        "reason": condition.reason if condition else "",
        "status": condition.status if condition else "",
    }
    yield _info("configuration_info", "The hash of the configuration.", {"hash": config.digest})
    yield _info("condition", "The Node condition CapacityPublished.", reason_and_status)
    yield _info("build_info", "The version of capacityd.", {"version": __version__})


def _info(name: str, about: str, labels: Mapping[str, str]) -> _Gauge:
    """A series whose labels carry the information; its value is 1. There is no series if a label is ""."""
    values = tuple(labels.values())
    series = {values: 1.0} if all(values) else {}
    return name, about, tuple(labels), series


def _resources(metrics: PassMetrics) -> Iterator[_Gauge]:
    status = metrics.status
    readings = status.readings
    published = status.published
    held = {str(wait.key) for wait in status.waits if wait.holds_change}
    refused = _in_trouble(status, ConditionReason.REFUSED)
    denied = _in_trouble(status, ConditionReason.DENIED)
    yield (
        "resource_outcome",
        "1 for the outcome of the last reading of an extended resource: quantity, absent or unknown.",
        ("resource", "outcome"),
        {
            (name, outcome.value): float(outcome_of(reading) is outcome)
            for name, reading in sorted(readings.items())
            for outcome in ReadingOutcome
        },
    )
    quantities = {name: reading.value for name, reading in readings.items() if isinstance(reading, Quantity)}
    not_applicable = {name for name, reading in readings.items() if isinstance(reading, Absent) and not reading.applies}
    expected = {
        name: quantity for name, quantity in metrics.config.expectations().items() if name not in not_applicable
    }
    names = {*readings, *published, *denied}
    families: tuple[tuple[str, str, Mapping[str, float]], ...] = (
        ("quantity", "Quantity in the last reading; no series if it is absent or unknown.", quantities),
        ("published", "Quantity published on the Node.", published),
        ("expected", "Expected quantity (`expect`), on machines that the resource applies to.", expected),
        ("held_back", "1 while a change is held back (lower_after or rate limit).", _flags(names, held)),
        ("refused", "1 if the key belongs to another writer and is not changed.", _flags(names, refused)),
        ("denied", "1 if the API server, a policy or a webhook denies the write.", _flags(names, denied)),
    )
    for family, about, values in families:
        yield f"resource_{family}", about, ("resource",), {(name,): float(values[name]) for name in sorted(values)}


def _in_trouble(status: PassStatus, reason: ConditionReason) -> set[str]:
    """The resources and labels that are in trouble for this reason."""
    return {str(trouble.key) for trouble in status.troubles if trouble.key and trouble.reason is reason}


def _flags(names: Collection[str], set_for: Collection[str]) -> dict[str, float]:
    """Name -> 1 for these names, 0 for the others."""
    return {name: 1.0 if name in set_for else 0.0 for name in names}


def _detectors(metrics: PassMetrics) -> Iterator[_Gauge]:
    """The duration and the success of each detector.

    If several resources use the same detector, the slowest one is its duration, and one unknown reading is a failure.
    """
    seconds: dict[tuple[str, ...], float] = {}
    success: dict[tuple[str, ...], float] = {}
    for resource in sorted(metrics.config.resources, key=lambda resource: resource.detector):
        labels = (resource.detector,)
        if resource.name in metrics.durations:
            seconds[labels] = max(metrics.durations[resource.name], seconds.get(labels, 0.0))
        reading = metrics.status.readings.get(resource.name)
        if reading is not None:
            is_read = 0.0 if isinstance(reading, Unknown) else 1.0
            success[labels] = min(is_read, success.get(labels, 1.0))
    about = "Duration of a detector in the last pass, for the slowest of its resources."
    yield "detector_duration_seconds", about, ("detector",), seconds
    about = "1 if all of a detector's resources were read in the last pass, 0 if one is unknown."
    yield "detector_success", about, ("detector",), success


def _withheld(status: PassStatus) -> bool:
    """Whether observe mode withholds a change, so that the Node is not as desired although the pass succeeded."""
    actions = {change.action for change in status.changes}
    return status.observe and not actions.isdisjoint((Action.SET, Action.REMOVE, Action.HOLD))
