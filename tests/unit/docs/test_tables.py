"""The tables of the documentation list every metric, path and kind of journal entry in the program."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from capacityd.linux.systemd import EntryKind
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from capacityd.worker import metrics
from kubectl_capacityd.fleet.assess import FleetReport, ResourceSummary
from kubectl_capacityd.fleet.metrics import metrics_text
from tests import ROOT
from tests.unit.worker.test_metrics import CONFIG, NODE, STATUS

MONITORING = (ROOT / "docs/monitoring.md").read_text()


def rows(page: str, pattern: str) -> list[tuple[str, ...]]:
    """Returns the pattern's groups for each matching row of the page's tables."""
    return re.findall(rf"^\| {pattern} ?\|$", (ROOT / "docs" / page).read_text(), re.MULTILINE)


def test_the_page_on_installation_has_every_path_of_a_kubeconfig() -> None:
    assert [path for _, path in rows("install.md", "(.*) \\| `(/.*)`")] == [*KUBECONFIG_PATHS]


def test_the_page_on_monitoring_has_every_metric_with_its_labels() -> None:
    resource = ResourceSummary("example.com/dongle", 1, 4, 4, 4, requested=3, free=1, waiting=0)
    of_fleet = metrics_text(FleetReport(1, (resource,), ()), context=None)
    texts = metrics.exposition(CONFIG, STATUS), of_fleet
    families = [family for text in texts for family in text_string_to_metric_families(text.decode())]
    exported = {
        f"{f.name}_total" if f.type == "counter" else f.name: {label for s in f.samples for label in s.labels} - {NODE}
        for f in families
    }
    table_rows = rows("monitoring.md", r"`(capacityd_\w+)` \| (.*?) ?\| (?:.+)")
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in table_rows} == exported
    assert set(re.findall(r"\b(capacityd_\w+)", MONITORING)) == {*exported, NODE}, "one sentence names this label"


def test_the_page_on_monitoring_has_every_kind_of_entry() -> None:
    assert set(re.findall(r"`([0-9a-f]{32})`", MONITORING)) == {kind.value for kind in EntryKind}
