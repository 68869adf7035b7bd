"""Every sentence of the security model on attackers has a test, and that test is there."""

from __future__ import annotations

import re

from tests import ROOT

_TEST = re.compile(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`")


def rows() -> list[tuple[str, str]]:
    """Each sentence of tests/security.md, with the cell that names its tests."""
    return re.findall(r"^\| (.+?) \| (`.+) \|$", (ROOT / "tests/security.md").read_text(), re.MULTILINE)


def sentences() -> list[str]:
    """Each item of the lists in the sections on attackers."""
    page = (ROOT / "docs/security.md").read_text()
    sections = re.findall(r"^## An attacker .*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    return [" ".join(item.split()) for section in sections for item in re.findall(r"^- (.+(?:\n  .+)*)", section, re.M)]


def test_every_sentence_has_a_test() -> None:
    assert len(rows()) > 15
    assert [sentence for sentence, _ in rows()] == sentences()
    for sentence, tests in rows():
        named = _TEST.findall(tests)
        assert named, sentence
        for file, test in named:
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{test}"
