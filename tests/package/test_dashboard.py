"""The dashboard's queries in Prometheus' own engine, on a simulated fleet with one Node for each fault."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from capacityd.model.node import ConditionReason
from tests import ROOT
from tests.support.prometheus import check_rules
from tests.support.scrapes import DONGLE, GPU, SEATS, NodeAt, PodAt, kube_allocatable, kube_pod, scrape, series

DASHBOARD = json.loads((ROOT / "conf/grafana/capacityd-dashboard.json").read_text())
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
NOW = 12_000.0  # seconds since the epoch
FEWER = {DONGLE: 3, SEATS: 10}  # than the four dongles that the configuration expects
SHORTAGE = {DONGLE: ConditionReason.BELOW_EXPECTED}
AGO = {age: NOW - age for age in (60, 120, 180, 9000)}
NODES = {  # NodeAt(TIME OF THE LAST PASS, TIME OF THE LAST SUCCESSFUL PASS, …)
    "node-1": NodeAt(NOW, AGO[60]),
    "node-2": NodeAt(
        NOW, AGO[120], readings=FEWER, published=FEWER, troubles=SHORTAGE, condition=("BelowExpected", "False")
    ),
    "node-3": NodeAt(NOW, AGO[180], readings={DONGLE: "timeout", SEATS: 10}, condition=("Unknown", "False")),
    "node-4": NodeAt(
        NOW,
        AGO[9000],
        readings={DONGLE: 4, SEATS: 10, GPU: 2},
        troubles={GPU: ConditionReason.DENIED},
        condition=("Denied", "False"),
    ),
    "node-5": NodeAt(NOW, AGO[60], observe=True, published={}, hash="c41b07aa"),
}
PODS = (  # PodAt(NAME, NODE, DONGLES BY CONTAINER, …)
    PodAt("placed", "node-1", {"main": 2}),
    PodAt("with-a-sidecar", "node-2", {"main": 1}, sidecars={"proxy": 1}, init_containers={"migrate": 3}),
    PodAt("done", "node-3", {"main": 4}, phase="Succeeded"),
    PodAt("waiting", "", {"main": 4}, phase="Pending"),
    PodAt("seated", "node-1", {"one": 1, "two": 2}, resource=SEATS, phase="Unknown"),
    PodAt("too-many", "node-4", {"main": 5}),  # a user named the node in the pod
)
EXPECTED: dict[str, Mapping[str, float]] = {  # the values by panel and legend
    "Nodes": {"": 5},
    "Condition False": {"": 3},
    "Unknown": {"": 1},
    "Denied": {"": 1},
    "Below expected": {"": 1},
    "Observe mode": {"": 1},
    "Published and expected": {DONGLE: 15, SEATS: 40, f"{DONGLE} expected": 20},
    "Published and expected, by node": {
        **{f"node-{n} {DONGLE}": dongles for n, dongles in enumerate((4, 3, 4, 4), 1)},
        **{f"node-{n} {SEATS}": 10 for n in range(1, 5)},
        **{f"node-{n} {DONGLE} expected": 4 for n in range(1, 6)},
    },
    "Resources in trouble": {f"{DONGLE} Unknown": 1, f"{GPU} Denied": 1, f"{DONGLE} BelowExpected": 1},
    "Condition": {"Published": 2, "BelowExpected": 1, "Unknown": 1, "Denied": 1},
    "Age of the last successful pass": {
        "node-1": 60,
        "node-2": 120,
        "node-3": 180,
        "node-4": 9000,
        "node-5": 60,
        "twice the resync period": 7200,
    },
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


def test_each_panel_shows_the_right_values(tmp_path: Path) -> None:
    """The test also checks the values of variables. A second cluster has Nodes and pods of the same names."""
    samples: dict[str, float] = {}
    for cluster, nodes in {"a": NODES, "b": {**NODES, "node-6": NODES["node-1"]}}.items():
        of_cluster: dict[str, float] = {}
        for name, node in nodes.items():
            address = f"192.0.2.1{name[-1]}:9100"
            of_cluster |= {**scrape(address, replace(node, name=name)), **kube_allocatable(name, node.published)}
        for pod in PODS:
            of_cluster |= kube_pod(pod)
        samples |= {name.replace("{", f'{{cluster="{cluster}",', 1): value for name, value in of_cluster.items()}
    tests = [test for panel in DASHBOARD["panels"] for test in of_panel(panel, cluster="a")]
    for name, number in {"node": 5, "resource": 2, "kube_resource": 2}.items():
        query = filled(VARIABLES[name]["query"]["query"], cluster="a")
        values = re.fullmatch(r"label_values\((\w+(?:{.*})?), (\w+)\)", query)  # label_values(SERIES, LABEL)
        assert values, name
        tests.append(of_query(f"count(count by ({values[2]}) ({values[1]}))", "", {"": number}))
    check_rules(tmp_path, [{}, samples], f"{NOW:.0f}s", promql_expr_test=tests)


def of_panel(panel: Mapping[str, Any], **chosen: str) -> list[dict[str, Any]]:
    """A promtool test for each query of a panel. The query must return the expected series that match its legend."""
    expected = EXPECTED[panel["title"]]
    return [of_query(filled(target["expr"], **chosen), target["legendFormat"], expected) for target in panel["targets"]]


def of_query(expr: str, legend: str, expected: Mapping[str, float]) -> dict[str, Any]:
    """A promtool test of a query. It adds up series with the same legend, so that a duplicate makes it fail."""
    pattern = re.sub(r"{{(\w+)}}", r"(?P<\1>\\S+)", legend)  # "{{node}} free" becomes r"(?P<node>\S+) free"
    matches = {match: value for name, value in expected.items() if (match := re.fullmatch(pattern, name))}
    assert matches, legend
    samples = [{"labels": series("", **match.groupdict()), "value": value} for match, value in matches.items()]
    by = ", ".join(re.findall(r"{{(\w+)}}", legend))
    return {"expr": f"sum by ({by}) ({expr})", "eval_time": f"{NOW:.0f}s", "exp_samples": samples}


def filled(expr: str, **chosen: str) -> str:
    """The query with these values of variables. All other variables have the value "All"."""
    result = re.sub(r"\$(\w+)\b", lambda match: chosen.get(match[1]) or str(VARIABLES[match[1]]["allValue"]), expr)
    assert "$" not in result, expr
    return result


def test_every_query_can_be_narrowed() -> None:
    """Each selector of a metric has the filters for the chosen cluster, and for the Node or the resource."""
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            expr = target["expr"]
            kube_selectors = expr.count("kube_node_status_allocatable") + expr.count("_resource_requests")
            own_selectors = re.findall(r"\bcapacityd_\w+{", expr)
            assert len(own_selectors) == expr.count('capacityd_node=~"$node"'), expr
            assert len(re.findall(r"\b(?:capacityd|kube)_\w+{", expr)) == expr.count('cluster=~"$cluster"'), expr
            assert expr.count("capacityd_resource_") == expr.count('resource=~"$resource"'), expr
            assert kube_selectors == expr.count('resource=~"$kube_resource"'), expr
