"""A metric, and its output in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric with its series."""

    name: str
    about: str
    """The meaning of the metric, for its HELP line and the documentation."""
    series: Mapping[tuple[str, ...], float]
    """Values of the labels -> the number. The key of a metric without labels is ()."""
    labels: tuple[str, ...] = ()
    """The names of the labels."""


def exposition(gauges: Iterable[Gauge], labels: Mapping[str, str]) -> bytes:
    """The metrics in Prometheus' text format.

    labels: name -> value of labels that all series get in addition. Raises ImportError without
    python3-prometheus-client.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    class Collector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            for gauge in gauges:
                family = GaugeMetricFamily(gauge.name, gauge.about, labels=[*labels, *gauge.labels])
                for values, number in gauge.series.items():
                    family.add_metric([*labels.values(), *values], number)
                yield family

    registry = CollectorRegistry()  # by default, register() does not call collect()
    registry.register(Collector())  # type: ignore[arg-type]  # duck-typed
    content: bytes = generate_latest(registry)
    return content
