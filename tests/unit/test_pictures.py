"""The pictures show what the commands print today."""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.unit.pictures import FOLDER, PICTURES, drawn, words


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_current(name: str) -> None:
    kept = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert words(kept) == words(drawn(name)), "make pictures draws it anew"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_the_same_each_time_and_fetches_nothing(name: str) -> None:
    svg = drawn(name)
    assert svg == drawn(name)
    assert svg.count("http") == svg.count("http://www.w3.org/") + svg.count("https://www.textualize.io")


def test_the_readme_shows_them() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in PICTURES:
        assert f"(docs/pictures/{name}.svg)" in readme
