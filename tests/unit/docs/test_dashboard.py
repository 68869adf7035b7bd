"""The dashboard's file. What its queries return is tested with the package."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from capacityd.worker import metrics
from tests.support.dashboard import document, panels
from tests.unit.worker.test_metrics import FIGURES

KUBE_STATE_METRICS = {
    *("kube_node_status_allocatable", "kube_pod_container_resource_requests", "kube_pod_status_phase"),
    *("kube_pod_init_container_resource_requests", "kube_pod_init_container_info"),
}
"""As its documentation has them: docs/metrics/cluster/node-metrics.md and docs/metrics/workload/pod-metrics.md."""


def test_panels_have_places_and_texts_of_their_own() -> None:
    drawn = panels()
    assert len({panel.number for panel in drawn}) == len(drawn)
    assert all(panel.title and panel.description and panel.queries for panel in drawn)
    cells = [
        (x, y)
        for panel in drawn
        for x in range(panel.x, panel.x + panel.width)
        for y in range(panel.y, panel.y + panel.height)
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert {x for x, _ in cells} == set(range(24))


def test_every_query_can_be_narrowed_and_uses_the_chosen_data_source() -> None:
    for panel in document()["panels"]:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            expr = target["expr"]
            assert expr.count("capacityd_") == expr.count('instance=~"$instance"'), expr
            assert expr.count("kube_node_status_allocatable") + expr.count("_resource_requests") == expr.count(
                'resource=~"$kube_resource"'
            ), expr
            assert expr.count("capacityd_resource_") == expr.count('resource=~"$resource"'), expr


def test_every_query_uses_existing_metrics() -> None:
    families = text_string_to_metric_families(metrics.text(FIGURES, 0.25).decode())
    exported = {sample.name for family in families for sample in family.samples} | KUBE_STATE_METRICS
    for panel in panels():
        for query in panel.queries:
            names = set(re.findall(r"\b(?:capacityd|kube)_\w+(?={)", query.expr))
            assert names
            assert names <= exported, panel.title
