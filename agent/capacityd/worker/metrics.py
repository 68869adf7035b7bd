"""Metrics of the service: a file for node_exporter's textfile collector, if one is configured.

The file is replaced after each reconcile pass, so series of removed resources disappear. An error here does not fail
the pass: it is logged once, and the time stamps in the file show its age.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from capacityd import __version__
from capacityd.linux.atomic_file import replace_file
from capacityd.model.config import Config
from capacityd.model.errors import CapacitydError
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.reconcile.reconcile import expectations
from capacityd.worker import runtime_files

_COUNTERS = "metrics.json"
_HINTS = {
    errno.ENOENT: "make the folder (prometheus-node-exporter brings /var/lib/prometheus/node-exporter), then restart",
    errno.EROFS: "the service's sandbox keeps it from there: a folder that is not Debian's own needs ReadWritePaths= in"
    " a drop-in of the unit, and one that was made later a restart of the service",
    errno.EACCES: "the folder must belong to root, for the service has no right to other users' files",
}
"""What to do about an error of the file."""
_OUTCOMES = {"quantity": Quantity, "absent": Absent, "unknown": Unknown}


@dataclass(frozen=True, slots=True)
class Counters:
    """What is counted while the service runs, over all its workers."""

    reconciles: int = 0
    """Passes that were started."""
    succeeded: int = 0
    """Passes that ended without an error."""
    writes: int = 0
    """Writes of the Node's capacity."""
    last_success: float = 0.0
    """When the Node last was as desired, in seconds since the epoch; 0: not yet."""
    path: str = ""
    """The file that was written last."""
    error: str = ""
    """Why it could not be written, as it was logged."""
    advice: str = ""
    """What to do about that."""


@dataclass(frozen=True, slots=True)
class PassMetrics:
    """One reconcile pass and its results."""

    config: Config
    readings: Mapping[str, Reading]
    """Resource -> its reading."""
    status: Mapping[str, Any]
    """The content of status.json."""
    duration: float
    """Seconds that the pass took."""
    durations: Mapping[str, float] = field(default_factory=dict)
    """Resource -> seconds that its detector ran (Discovery.durations)."""
    configuration_errors: int = 0


def begin(where: str, config: Config) -> None:
    """Counts a pass that starts, so that one that never ends counts as failed. where: the runtime directory."""
    if config.settings.textfile:
        counters = saved_counters(where)
        _save(where, replace(counters, reconciles=counters.reconciles + 1))


def finish(where: str, metrics: PassMetrics, succeeded: bool, writes: int) -> tuple[str, bool]:
    """Counts a pass that has ended, and writes the file.

    succeeded: it ended without an error. writes: how often it wrote to the Node.
    Returns a message to log, "" if there is none, and whether it is an error. A previous file that is no longer
    configured is removed.
    """
    path, before = metrics.config.settings.textfile or "", saved_counters(where)
    if before.path and before.path != path:
        with suppress(OSError):
            os.unlink(before.path)
    if not path:
        if before != Counters():
            _save(where, Counters())
        return "", False
    counters = Counters(
        reconciles=before.reconciles,
        succeeded=before.succeeded + succeeded,
        writes=before.writes + writes,
        last_success=time.time() if succeeded and not _withheld(metrics) else before.last_success,
    )
    error = advice = ""
    try:
        # node_exporter runs as another user. It does not read the unfinished file, whose name ends with .new.
        replace_file(path, text(metrics, counters), 0o644)
    except ImportError as e:
        error, advice = f"{path} is not written: {e}", "it needs the package python3-prometheus-client"
    except OSError as e:
        error, advice = f"{path} could not be written: {os.strerror(e.errno or 0)}", _HINTS.get(e.errno or 0, "")
    saved = _save(where, replace(counters, path=before.path if error else path, error=error, advice=advice))
    if error == before.error or not saved:  # what can't be remembered would be logged after each pass
        return "", False
    return "; ".join(filter(None, (error, advice))) or f"{path} is written again", bool(error)


def text(metrics: PassMetrics, counters: Counters) -> bytes:
    """The file, in Prometheus' text format. Raises ImportError without its library."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class PassCollector:  # a Collector by its method: older libraries have no such class
        def collect(self) -> Iterator[Any]:
            for name, about, labels, values in _gauges(metrics, counters):
                gauge = GaugeMetricFamily(f"capacityd_{name}", about, labels=labels)
                for at, value in values.items():
                    gauge.add_metric(at, value)
                yield gauge
            for name, about, count in (
                ("reconciles", "Reconcile passes that were started.", counters.reconciles),
                (
                    "reconcile_errors",
                    "Reconcile passes that ended with an error, or did not end.",
                    counters.reconciles - counters.succeeded,
                ),
                ("writes", "Writes of the Node's capacity.", counters.writes),
            ):
                yield CounterMetricFamily(f"capacityd_{name}", about, value=count)

    registry = CollectorRegistry()
    registry.register(PassCollector())  # type: ignore[arg-type]  # see above
    found: bytes = generate_latest(registry)
    return found


def saved_counters(where: str) -> Counters:
    """The counters; all 0 if the file is missing."""
    return Counters(**runtime_files.read(where, _COUNTERS))


_Gauge = tuple[str, str, Sequence[str], Mapping[tuple[str, ...], float]]


def _gauges(metrics: PassMetrics, counters: Counters) -> Iterator[_Gauge]:
    """Name, help, names of labels, and the value for each combination of the labels' values."""
    yield from _resources(metrics)
    yield from _detectors(metrics)
    config, status = metrics.config, metrics.status
    for name, about, value in (
        ("last_reconcile_timestamp_seconds", "Time of the last reconcile pass.", status.get("last_reconcile")),
        (
            "last_success_timestamp_seconds",
            "When the Node was last as desired; 0: not yet. It stays while observe mode withholds a change.",
            counters.last_success,
        ),
        ("last_write_timestamp_seconds", "Time of the last write to the Node.", status.get("last_write")),
        ("last_reconcile_duration_seconds", "Duration of the last reconcile pass.", metrics.duration),
        (
            "resync_period_seconds",
            "Period of the passes that read the Node although no event came.",
            config.settings.resync,
        ),
        ("observe", "1 while observe mode is on: nothing is written to the Node.", config.settings.observe),
        ("configuration_errors", "Errors in the configuration.", metrics.configuration_errors),
    ):
        yield name, about, (), {} if value is None else {(): float(value)}
    infos: tuple[tuple[str, str, Sequence[str], Sequence[str] | None], ...] = (
        ("configuration_info", "The hash of the configuration.", ("hash",), (config.digest,)),
        ("condition", "The Node condition CapacityPublished.", ("reason", "status"), status.get("condition")),
        ("build_info", "The version of capacityd.", ("version",), (__version__,)),
    )
    for name, about, labels, values in infos:
        yield name, about, labels, {tuple(values): 1.0} if values and all(values) else {}


def _resources(metrics: PassMetrics) -> Iterator[_Gauge]:
    readings = metrics.readings
    published, held, denied = (metrics.status.get(key, {}) for key in ("published", "held_until", "denied"))
    refused = {c["name"] for c in _changes(metrics) if c["action"] == "refuse"}
    yield (
        "resource_outcome",
        "1 for the outcome of the last reading of an extended resource: quantity, absent or unknown.",
        ("resource", "outcome"),
        {(n, o): float(isinstance(r, c)) for n, r in sorted(readings.items()) for o, c in _OUTCOMES.items()},
    )
    quantities = {name: r.value for name, r in readings.items() if isinstance(r, Quantity)}
    elsewhere = {name for name, r in readings.items() if isinstance(r, Absent) and not r.applies}
    expected = {n: quantity for n, quantity in expectations(metrics.config).items() if n not in elsewhere}
    names = {*readings, *published, *denied}
    families: tuple[tuple[str, str, Mapping[str, float]], ...] = (
        ("quantity", "Quantity in the last reading; no series if it is absent or unknown.", quantities),
        ("published", "Quantity that is published on the Node.", published),
        ("expected", "Quantity that is expected (`expect`), on machines that the resource applies to.", expected),
        ("held_back", "1 while a change is held back (lower_after).", {n: n in held for n in names}),
        ("refused", "1 if the key belongs to another writer and is not changed.", {n: n in refused for n in names}),
        ("denied", "1 if the API server, a policy or a webhook denies the write.", {n: n in denied for n in names}),
    )
    for name, about, values in families:
        yield f"resource_{name}", about, ("resource",), {(n,): float(values[n]) for n in sorted(values)}


def _detectors(metrics: PassMetrics) -> Iterator[_Gauge]:
    """Of several resources with the same detector, the slowest counts: each may take the detector's deadline."""
    seconds: dict[tuple[str, ...], float] = {}
    success: dict[tuple[str, ...], float] = {}
    for r in sorted(metrics.config.resources, key=lambda r: r.detector):
        at = (r.detector,)
        if r.name in metrics.durations:
            seconds[at] = max(metrics.durations[r.name], seconds.get(at, 0.0))
        if r.name in metrics.readings:
            success[at] = min(float(not isinstance(metrics.readings[r.name], Unknown)), success.get(at, 1.0))
    about = "Time that a detector took in the last pass, for the slowest of its resources."
    yield "detector_duration_seconds", about, ("detector",), seconds
    about = "1 if every resource of a detector was read in the last pass, 0 if one is unknown."
    yield "detector_success", about, ("detector",), success


def _changes(metrics: PassMetrics) -> Sequence[Mapping[str, str]]:
    """The changes in the last plan, as Plan.as_dict has them."""
    changes: Sequence[Mapping[str, str]] = metrics.status.get("plan", {}).get("changes", [])
    return changes


def _withheld(metrics: PassMetrics) -> bool:
    """Whether observe mode withholds a change, so that the Node is not as desired although the pass succeeded."""
    actions = {change["action"] for change in _changes(metrics)}
    return metrics.config.settings.observe and not actions.isdisjoint(("set", "remove", "hold"))


def _save(where: str, counters: Counters) -> bool:
    with suppress(CapacitydError):  # a full /run is reported elsewhere
        runtime_files.write(where, _COUNTERS, asdict(counters))
        return True
    return False
