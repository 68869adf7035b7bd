"""The page on monitoring names what there is: every metric, every kind of entry."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from capacityd.worker import metrics
from capacityd.worker.journal import MESSAGE_IDS
from capacityd.worker.metrics import Counters
from tests.unit.worker.test_metrics import FIGURES

PAGE = (Path(__file__).parents[3] / "docs/how-to/monitoring.md").read_text()


def test_every_metric_is_in_the_table_with_its_labels() -> None:
    families = list(text_string_to_metric_families(metrics.text(FIGURES, Counters()).decode()))
    exported = {
        f"{f.name}_total" if f.type == "counter" else f.name: {label for s in f.samples for label in s.labels}
        for f in families
    }
    rows = re.findall(r"^\| `(capacityd_\w+)` \| (.*?) ?\| .+ \|$", PAGE, re.MULTILINE)
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows} == exported
    assert set(re.findall(r"\b(capacityd_\w+)", PAGE)) == set(exported)


def test_every_kind_of_entry_is_named() -> None:
    assert set(re.findall(r"`([0-9a-f]{32})`", PAGE)) == set(MESSAGE_IDS.values())
