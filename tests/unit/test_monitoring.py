"""The page on monitoring names what there is: every metric, every kind of entry."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from capacityd import metrics
from capacityd.journal import MESSAGE_IDS
from capacityd.metrics import Tally
from tests.unit.test_metrics import FIGURES

PAGE = (Path(__file__).parents[2] / "docs/how-to/monitoring.md").read_text()


def test_every_metric_is_named() -> None:
    families = text_string_to_metric_families(metrics.text(FIGURES, Tally()).decode())
    there = {f"{f.name}_total" if f.type == "counter" else f.name for f in families}
    assert set(re.findall(r"`(capacityd_\w+)`", PAGE)) == there


def test_every_kind_of_entry_is_named() -> None:
    assert set(re.findall(r"`([0-9a-f]{32})`", PAGE)) == set(MESSAGE_IDS.values())
