"""Links in pages that are copied into the package and onto the site."""

from __future__ import annotations

import runpy

import pytest

from tests import ROOT

relocate = runpy.run_path(str(ROOT / "packaging/pages/links.py"))["relocate"]
PLACES = {"README.md": "index.md", "docs/a.md": "a.md", "docs/how-to/b.md": "how-to/b.md", "docs/p.svg": "p.svg"}


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("README.md", "[a](docs/a.md#x) [b](docs/how-to/b.md)", "[a](a.md#x) [b](how-to/b.md)"),
        ("docs/how-to/b.md", "[a](../a.md) [r](../../README.md#y)", "[a](../a.md) [r](../index.md#y)"),
        ("docs/how-to/b.md", "![picture](../p.svg)", "![picture](../p.svg)"),
        ("docs/a.md", "[up](../conf/x.toml#L3)", "[up](https://project/conf/x.toml#L3)"),
        ("docs/a.md", "[web](https://example.com/a.md) [here](#x)", "[web](https://example.com/a.md) [here](#x)"),
        ("README.md", "`[a](docs/a.md)`, then [a](docs/a.md)", "`[a](docs/a.md)`, then [a](a.md)"),
        ("README.md", "```text\n[a](docs/a.md)\n```\n[a](docs/a.md)", "```text\n[a](docs/a.md)\n```\n[a](a.md)"),
        ("README.md", "a ` alone\n\n[a](docs/a.md) and ` alone", "a ` alone\n\n[a](a.md) and ` alone"),
    ],
)
def test_a_link_is_right_in_its_new_place(page: str, text: str, expected: str) -> None:
    assert relocate(text, page, PLACES, "https://project") == expected
