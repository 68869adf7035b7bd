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
    """The labels' values, in the order of label_names -> the number. The key of a metric without labels is ()."""
    label_names: tuple[str, ...] = ()


def exposition(gauges: Iterable[Gauge], common_labels: Mapping[str, str]) -> bytes:
    """The metrics in Prometheus' text format.

    common_labels: name -> value, for each label that all series have in addition to their own. Raises ImportError
    without python3-prometheus-client.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    class Collector:  # duck-typed: older versions of the library have no class Collector
        def collect(self) -> Iterator[Any]:
            for gauge in gauges:
                label_names = [*common_labels, *gauge.label_names]
                family = GaugeMetricFamily(gauge.name, gauge.about, labels=label_names)
                for values, number in gauge.series.items():
                    family.add_metric([*common_labels.values(), *values], number)
                yield family

    registry = CollectorRegistry()  # by default, register() does not call collect()
    registry.register(Collector())  # type: ignore[arg-type]  # duck-typed
    content: bytes = generate_latest(registry)
    return content
