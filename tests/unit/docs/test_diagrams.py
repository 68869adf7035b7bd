"""The SVG files in docs/diagrams are current with their .dot sources."""

from __future__ import annotations

import runpy

from tests import ROOT

source_sum = runpy.run_path(str(ROOT / "packaging/diagrams"), run_name="packaging.diagrams")["source_sum"]


def test_every_diagram_is_current() -> None:
    sources = sorted((ROOT / "docs/diagrams").glob("*.dot"))
    assert sources
    for source in sources:
        drawn = source.with_suffix(".svg").read_text()
        assert f"<!-- source: {source_sum(source)} -->" in drawn, f"{source.name}: make diagrams draws it anew"
