"""The Grafana dashboard: its panels and their queries, with Grafana's variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests import ROOT

FILE = ROOT / "conf/grafana/capacityd-dashboard.json"


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel."""

    expr: str
    legend: str
    """The name of a series, with {{label}} for a label's value."""

    def name(self, labels: Mapping[str, str]) -> str:
        """The name of a series. Raises KeyError if it lacks a label."""
        return re.sub(r"{{(\w+)}}", lambda match: labels[match[1]], self.legend)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel, with its place in a grid of 24 columns."""

    number: int
    kind: str
    title: str
    description: str
    unit: str
    x: int
    y: int
    width: int
    height: int
    queries: tuple[Query, ...]
    dashed: str
    """A regular expression: the names of the series that are dashed; empty for none."""


def document() -> Any:
    """The dashboard as Grafana imports it."""
    return json.loads(FILE.read_text())


def panels() -> list[Panel]:
    """All panels."""
    drawn = []
    for panel in document()["panels"]:
        grid, config = panel["gridPos"], panel["fieldConfig"]
        queries = tuple(Query(_filled(t["expr"]), t["legendFormat"]) for t in panel["targets"])
        dashed = "|".join(override["matcher"]["options"] for override in config["overrides"])
        texts = (panel["type"], panel["title"], panel["description"], config["defaults"]["unit"])
        drawn.append(Panel(panel["id"], *texts, grid["x"], grid["y"], grid["w"], grid["h"], queries, dashed))
    return drawn


def _filled(expr: str) -> str:
    """With "All" chosen for each variable."""
    values = {variable["name"]: variable.get("allValue", "") for variable in document()["templating"]["list"]}
    filled = re.sub(r"\$(\w+)\b", lambda match: values[match[1]], expr)
    assert "$" not in filled, expr
    return filled
