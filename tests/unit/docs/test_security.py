"""Every sentence of the security model has a test, and that test is there."""

from __future__ import annotations

import re

from tests import ROOT

_TEST = re.compile(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`")


def test_every_sentence_has_a_test() -> None:
    rows = [line for line in (ROOT / "docs/security.md").read_text().splitlines() if line.startswith("| ")]
    sentences = [row for row in rows if row != "| | shown by |"]
    assert len(sentences) > 15
    for row in sentences:
        named = _TEST.findall(row.split(" | ")[1])
        assert named, row
        for file, test in named:
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{test}"
