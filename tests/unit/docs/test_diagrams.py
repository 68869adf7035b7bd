"""The diagrams in docs/diagrams are drawn from the sources beside them, and can be read on a phone and in the dark."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests import ROOT

SOURCES = sorted((ROOT / "docs/diagrams").glob("*.dot"))
source_sum = runpy.run_path(str(ROOT / "packaging/diagrams"), run_name="packaging.diagrams")["source_sum"]


def test_every_diagram_is_drawn() -> None:
    assert {path.stem for path in SOURCES} == {"outcomes", "processes", "writers"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_diagram_is_current(source: Path) -> None:
    drawn = source.with_suffix(".svg").read_text()
    assert f"<!-- source: {source_sum(source)} -->" in drawn, "make diagrams draws it anew"
    assert "prefers-color-scheme: dark" in drawn
    attributes = ET.fromstring(drawn).attrib
    assert [attributes["width"], attributes["height"]] == attributes["viewBox"].split()[2:], "in pixels, without a unit"
    assert float(attributes["width"]) <= 470, "a font of 13 px has at least 9 px on a phone that is 360 px wide"
