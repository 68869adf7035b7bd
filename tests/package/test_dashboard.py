"""The dashboard's queries, by Prometheus itself, on a made-up fleet that has each fault once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.dashboard import Panel, Query, document, panels
from tests.support.prometheus import Prometheus, serving
from tests.support.scrapes import (
    DONGLE,
    GPU,
    SEATS,
    NodeAt,
    PodAt,
    Scrape,
    kube_allocatable,
    kube_pod,
    openmetrics,
    scrape,
)

PANELS = panels()
NOW = 1_768_464_000.0  # seconds since the epoch
LESS = {DONGLE: 3, SEATS: 10}
SLOW = {DONGLE: 10.0, SEATS: 0.01}
AGO = {age: NOW - age for age in (60, 120, 180, 9000)}
NODES = {
    "node-1": NodeAt(AGO[60], NOW),
    "node-2": NodeAt(AGO[120], NOW, readings=LESS, published=LESS, condition=("BelowExpected", "False")),
    "node-3": NodeAt(
        AGO[180], NOW, readings={DONGLE: "timeout", SEATS: 10}, durations=SLOW, condition=("Unknown", "False")
    ),
    "node-4": NodeAt(
        AGO[9000], NOW, readings={DONGLE: 4, SEATS: 10, GPU: 2}, denied=(GPU,), condition=("Denied", "False")
    ),
    "node-5": NodeAt(AGO[60], 0.0, observe=True, published={}, hash="c41b07aa"),
}
PODS = (
    PodAt("placed", "node-1", {"main": 2}),
    PodAt("with-a-sidecar", "node-2", {"main": 1}, sidecars={"proxy": 1}, init_containers={"migrate": 3}),
    PodAt("done", "node-3", {"main": 4}, phase="Succeeded"),
    PodAt("waiting", "", {"main": 4}, phase="Pending"),
    PodAt("seated", "node-1", {"one": 1, "two": 2}, resource=SEATS),
    PodAt("too-many", "node-4", {"main": 5}),  # bound by somebody who names the node in the pod
)

EXPECTED = {
    "Nodes": {"": 5},
    "Condition False": {"": 3},
    "Unknown": {"": 1},
    "Denied": {"": 1},
    "Observe mode": {"": 1},
    "Published and expected": {DONGLE: 15, SEATS: 40, f"{DONGLE} expected": 20},
    "Unknown and denied": {f"{DONGLE} unknown": 1, f"{GPU} denied": 1},
    "Condition": {"Published": 2, "BelowExpected": 1, "Unknown": 1, "Denied": 1},
    "Age of the last reconcile pass": {
        "node-1": 60,
        "node-2": 120,
        "node-3": 180,
        "node-4": 9000,
        "node-5": 60,
        "twice the resync period": 7200,
    },
    "Duration of detectors": {"usb": 10, "file": 0.01},
    "Requested and free": {
        "example_com_dongle requested": 9,
        "example_com_dongle free": 6,
        "example_com_seats requested": 3,
        "example_com_seats free": 37,
    },
    "Free, by node": {
        **{f"node-{n} example_com_dongle": free for n, free in enumerate((2, 1, 4, -1), 1)},
        **{f"node-{n} example_com_seats": free for n, free in enumerate((7, 10, 10, 10), 1)},
    },
    "Configuration": {"5d0c8e1f": 4, "c41b07aa": 1},
}
# In observe mode nothing is published, so that node has none of four.
BELOW = {"stat": {"": 2}, "timeseries": {f"node-2 {DONGLE}": 1, f"node-5 {DONGLE}": 4}}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    samples: dict[str, float] = {}
    for name, node in NODES.items():
        samples |= {**scrape(name, node), **kube_allocatable(name, node.published)}
    for pod in PODS:
        samples |= kube_pod(pod)
    scrapes: list[tuple[float, Scrape]] = [(NOW, samples)]
    with serving(tmp_path_factory.mktemp("prometheus"), openmetrics(scrapes)) as server:
        yield server


@pytest.mark.parametrize(
    "query", [pytest.param(q, id=f"{p.number}-{p.title}-{n}") for p in PANELS for n, q in enumerate(p.queries)]
)
def test_each_query_has_series_with_distinct_names(prometheus: Prometheus, query: Query) -> None:
    names = [query.name(series.labels) for series in prometheus.query(query.expr, NOW, NOW, 60)]
    assert names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: f"{panel.number}-{panel.title}")
def test_the_values_are_right(prometheus: Prometheus, panel: Panel) -> None:
    shown = {
        query.name(series.labels): round(series.values[0][1], 3)
        for query in panel.queries
        for series in prometheus.query(query.expr, NOW, NOW, 60)
    }
    if panel.title == "Published and expected, by node":
        assert shown.items() >= {f"node-2 {DONGLE}": 3, f"node-2 {DONGLE} expected": 4, f"node-1 {SEATS}": 10}.items()
    else:
        assert shown == (BELOW[panel.kind] if panel.title == "Below expected" else EXPECTED[panel.title])


def test_each_variable_offers_what_there_is(prometheus: Prometheus) -> None:
    for variable in document()["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((\w+(?:{.*})?), (\w+)\)", variable["query"]["query"])
            assert match, variable["name"]
            values = {s.labels[match[2]] for s in prometheus.query(match[1], NOW, NOW, 60)}
            assert len(values) > 1
