"""The changelog: the newest version is the program's, and versions fall from top to bottom."""

from __future__ import annotations

import re

import capacityd
from tests import ROOT

PAGE = (ROOT / "CHANGELOG.md").read_text()


def test_the_newest_version_is_the_programs() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)( \(unreleased\)| \d{4}-\d\d-\d\d)$", PAGE, re.MULTILINE)
    numbers = [tuple(map(int, number.split("."))) for number, _ in versions]
    assert len(numbers) == PAGE.count("\n## "), "a heading is not VERSION (unreleased) or VERSION DATE"
    assert versions[0][0] == capacityd.__version__
    assert numbers == sorted(numbers, reverse=True)


def test_sections_have_the_names_of_the_policy() -> None:
    assert set(re.findall(r"^### (.*)$", PAGE, re.MULTILINE)) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed"}
