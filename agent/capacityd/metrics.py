"""The service's figures as a file for node_exporter's textfile collector, if one is configured.

The file is written anew as a whole after each look, so what no longer is configured is gone from it. Nothing that goes
wrong here touches the look: it is a message, and the file stays as old as its time stamps say.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from capacityd import __version__, state
from capacityd.errors import CapacitydError
from capacityd.model import Absent, Config, Quantity, Reading, Unknown

_TALLY = "metrics.json"
_OUTCOMES = {"quantity": Quantity, "absent": Absent, "unknown": Unknown}
_HINTS = {
    errno.ENOENT: "make the folder (prometheus-node-exporter brings /var/lib/prometheus/node-exporter), then restart",
    errno.EROFS: "the service's sandbox keeps it from there: a folder that is not Debian's own needs ReadWritePaths= in"
    " a drop-in of the unit, and one that was made later a restart of the service",
    errno.EACCES: "the folder must belong to root, for the service has no right to other users' files",
}


@dataclass(frozen=True, slots=True)
class Tally:
    """What is counted while the service runs, over all its children. succeeded: looks after which the Node was right.

    success: when the last of them was. path: the file that was written last; trouble: what has been told of it.
    """

    looks: int = 0
    succeeded: int = 0
    writes: int = 0
    success: float = 0.0
    path: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one look adds. status: what it left for the command status. mistakes: in the configuration."""

    readings: Mapping[str, Reading]
    status: Mapping[str, Any]
    duration: float
    recheck: float
    mistakes: int


def begin(where: str, config: Config) -> None:
    """Counts a look that begins, so that one that never ends counts as failed. where: the state folder."""
    if config.settings.textfile:
        tally = kept_tally(where)
        _keep(where, Tally(**{**asdict(tally), "looks": tally.looks + 1}))


def finish(where: str, config: Config, figures: Figures, succeeded: bool, wrote: int) -> tuple[str, bool]:
    """Counts a look that has ended, and writes the file. wrote: how often it wrote to the Node.

    Returns what is to be told, "" if nothing is, and whether that is bad news. A file of before that is not configured
    any more is removed.
    """
    path, before = config.settings.textfile or "", kept_tally(where)
    if before.path and before.path != path:
        with suppress(OSError):
            os.unlink(before.path)
    if not path:
        if before != Tally():
            _keep(where, Tally())
        return "", False
    tally = Tally(
        looks=before.looks,
        succeeded=before.succeeded + succeeded,
        writes=before.writes + wrote,
        success=time.time() if succeeded else before.success,
    )
    trouble = ""
    try:
        _replace(path, text(figures, tally))
    except ImportError as e:
        trouble = f"{path} is not written: {e}; it needs the package python3-prometheus-client"
    except OSError as e:
        hint = f"; {_HINTS[e.errno]}" if e.errno in _HINTS else ""
        trouble = f"{path} could not be written: {os.strerror(e.errno or 0)}{hint}"
    kept = _keep(where, Tally(**{**asdict(tally), "path": before.path if trouble else path, "trouble": trouble}))
    if trouble == before.trouble or not kept:  # what can't be remembered would be told after each look
        return "", False
    return trouble or f"{path} is written again", bool(trouble)


def text(figures: Figures, tally: Tally) -> bytes:
    """The file: Prometheus' text format. Raises ImportError without the library that knows it."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class Look:  # a Collector by its method: older libraries have no such class
        def collect(self) -> Iterator[Any]:
            for name, about, labels, values in _gauges(figures, tally):
                gauge = GaugeMetricFamily(f"capacityd_{name}", about, labels=labels)
                for at, value in values.items():
                    gauge.add_metric(at, value)
                yield gauge
            for name, about, count in (
                ("looks", "Looks at the machine that were begun.", tally.looks),
                ("look_failures", "Looks after which the Node was not as it should be.", tally.looks - tally.succeeded),
                ("writes", "Times that the Node's capacity was written.", tally.writes),
            ):
                yield CounterMetricFamily(f"capacityd_{name}", about, value=count)

    registry = CollectorRegistry()
    registry.register(Look())  # type: ignore[arg-type]  # see above
    found: bytes = generate_latest(registry)
    return found


def kept_tally(where: str) -> Tally:
    """What has been counted. A damaged file is as none: counters may begin anew."""
    found = state.read(where, _TALLY)
    try:
        return Tally(
            looks=int(found["looks"]),
            succeeded=int(found["succeeded"]),
            writes=int(found["writes"]),
            success=float(found["success"]),
            path=str(found["path"]),
            trouble=str(found["trouble"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return Tally()


_Gauge = tuple[str, str, Sequence[str], Mapping[tuple[str, ...], float]]


def _gauges(figures: Figures, tally: Tally) -> Iterator[_Gauge]:
    """name, help, names of labels, and by their values the gauge's."""
    readings, status = figures.readings, figures.status
    published, held = status.get("published", {}), status.get("held", {})
    changes = state.listed(status.get("plan"), "changes", "name", "action")
    refused = {c["name"] for c in changes if c["action"] == "refuse"}
    names = sorted({*readings, *published})
    one = ("resource",)
    yield (
        "resource_quantity",
        "What the machine has of an extended resource, as last read; no series for one that is absent or unknown.",
        one,
        {(name,): r.value for name, r in sorted(readings.items()) if isinstance(r, Quantity)},
    )
    yield (
        "resource_outcome",
        "1 for what the last reading of an extended resource was: quantity, absent or unknown.",
        ("resource", "outcome"),
        {(n, o): float(isinstance(r, c)) for n, r in sorted(readings.items()) for o, c in _OUTCOMES.items()},
    )
    yield "resource_published", "What is published on the Node.", one, {(n,): published[n] for n in sorted(published)}
    yield "resource_held_back", "1 while a change is held back.", one, {(n,): float(n in held) for n in names}
    about = "1 if the Node's key is somebody else's and so left alone."
    yield "resource_refused", about, one, {(n,): float(n in refused) for n in names}
    for name, about, value in (
        ("last_look_timestamp_seconds", "When it last looked.", status.get("looked")),
        ("last_success_timestamp_seconds", "When the Node was last as it should be; 0: not yet.", tally.success),
        ("last_write_timestamp_seconds", "When it last wrote to the Node.", status.get("wrote")),
        ("last_look_duration_seconds", "How long the last look took.", figures.duration),
        ("recheck_interval_seconds", "How often it looks although nothing has changed.", figures.recheck),
        ("configuration_mistakes", "Mistakes in the configuration.", figures.mistakes),
    ):
        yield name, about, (), {} if value is None else {(): float(value)}
    yield "build_info", "The version that runs.", ("version",), {(__version__,): 1.0}


def _replace(path: str, content: bytes) -> None:
    """Replaces a file as a whole, readable for everybody: node_exporter is another user. Raises OSError."""
    unfinished = f"{path}.new"  # not *.prom, so that nobody reads it
    # O_NONBLOCK: the folder may be another user's, who could put a pipe there for which it would wait.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(unfinished, flags, 0o644), "wb") as f:
        os.fchmod(f.fileno(), 0o644)
        f.write(content)
    os.replace(unfinished, path)


def _keep(where: str, tally: Tally) -> bool:
    with suppress(CapacitydError):  # a full /run has been told of already
        state.write(where, _TALLY, asdict(tally))
        return True
    return False
