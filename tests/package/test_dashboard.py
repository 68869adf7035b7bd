"""The dashboard's queries, by Prometheus itself, on six made-up hours of a fleet that has each fault once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support import fleet_day
from tests.support.dashboard import Panel, Query, document, panels
from tests.support.fleet_day import MINUTES, START, STEP
from tests.support.prometheus import Prometheus, serving

PANELS = panels()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with serving(tmp_path_factory.mktemp("prometheus"), fleet_day.samples()) as server:
        yield server


@pytest.mark.parametrize(
    "query", [pytest.param(q, id=f"{p.number}-{p.title}-{n}") for p in PANELS for n, q in enumerate(p.queries)]
)
def test_each_query_has_series_with_distinct_names(prometheus: Prometheus, query: Query) -> None:
    samples = prometheus.query(query.expr, START, START + MINUTES * STEP, STEP)
    assert samples
    names = [query.name(series.labels) for series in samples]
    assert len(set(names)) == len(names)


def at(prometheus: Prometheus, panel: Panel, minute: int) -> dict[str, float]:
    """The values that a panel shows at a minute."""
    time = START + minute * STEP
    return {
        query.name(series.labels): round(series.values[0][1], 3)
        for query in panel.queries
        for series in prometheus.query(query.expr, time, time, STEP)
    }


@pytest.mark.parametrize(
    ("minute", "nodes", "false", "unknown", "denied", "below", "observe"),
    [
        (30, 4, 0, 0, 0, 1, 1),  # in observe mode nothing is published, so that node has none of four
        (100, 4, 0, 0, 0, 0, 0),
        (130, 4, 1, 0, 0, 1, 0),
        (200, 4, 3, 1, 1, 1, 0),
        (340, 4, 1, 0, 1, 0, 0),
    ],
)
def test_the_numbers_are_right(
    prometheus: Prometheus, minute: int, nodes: int, false: int, unknown: int, denied: int, below: int, observe: int
) -> None:
    expected = {
        "Nodes": nodes,
        "Condition False": false,
        "Unknown": unknown,
        "Denied": denied,
        "Below expected": below,
        "Observe mode": observe,
    }
    numbers = [panel for panel in PANELS if panel.kind == "stat"]
    assert {panel.title: at(prometheus, panel, minute)[""] for panel in numbers} == expected


@pytest.mark.parametrize(
    ("title", "minute", "expected"),
    [
        (
            "Published and expected",
            200,
            {"example.com/dongle": 15, "example.com/seats": 40, "example.com/dongle expected": 16},
        ),
        ("Below expected", 200, {"node-2 example.com/dongle": 1}),
        ("Below expected", 30, {"node-4 example.com/dongle": 4}),
        ("Below expected", 340, {}),
        ("Unknown and denied", 200, {"example.com/dongle unknown": 1, "example.com/gpu denied": 1}),
        ("Condition", 200, {"Published": 1, "BelowExpected": 1, "Unknown": 1, "Denied": 1}),
        (
            "Age of the last reconcile pass",
            340,
            {"node-1": 2400, "node-2": 1740, "node-3": 1080, "node-4": 11220, "twice the resync period": 7200},
        ),
        ("Duration of detectors", 200, {"usb": 10, "file": 0.01}),
        (
            "Requested and free",
            30,
            {
                "example_com_dongle requested": 4,
                "example_com_dongle free": 8,
                "example_com_seats requested": 3,
                "example_com_seats free": 27,
            },
        ),
        (
            "Free, by node",
            200,
            {
                "node-1 example_com_dongle": 2,
                "node-1 example_com_seats": 7,
                "node-2 example_com_dongle": 1,
                "node-2 example_com_seats": 10,
                "node-3 example_com_dongle": 4,
                "node-3 example_com_seats": 10,
                "node-4 example_com_dongle": -1,
                "node-4 example_com_seats": 10,
            },
        ),
        ("Configuration", 75, {"5d0c8e1f": 2, "c41b07aa": 2}),
    ],
)
def test_the_lines_are_right(prometheus: Prometheus, title: str, minute: int, expected: dict[str, float]) -> None:
    (panel,) = (panel for panel in PANELS if (panel.title, panel.kind) == (title, "timeseries"))
    assert at(prometheus, panel, minute) == expected


def test_each_variable_offers_what_there_is(prometheus: Prometheus) -> None:
    for variable in document()["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((\w+(?:{.*})?), (\w+)\)", variable["query"]["query"])
            assert match, variable["name"]
            values = {s.labels[match[2]] for s in prometheus.query(match[1], START, START, STEP)}
            assert len(values) > 1
