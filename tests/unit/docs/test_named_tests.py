"""Some pages name tests as proof. Each of these tests exists, and no mark skips it."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests import ROOT

PAGES = ("tests/reports.md", "tests/security.md", "tests/corpus/pitfalls.md", "tests/cluster/versions.md")
NEVER_RUN = {"skip", "xfail"}


def named_in(page: str) -> set[tuple[str, str]]:
    """The path and the test ("" for all) of each `tests/unit/test_x.py::test_y` or `tests/unit/test_x.py` in a page."""
    return {*re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / page).read_text())}


NAMED = sorted((page, path, test) for page in PAGES for path, test in named_in(page))


@cache
def marks_by_test(path: str) -> dict[str, set[str]]:
    """The names in the decorators of each test in the file, such as {"test_x": {"mark", "slow"}}."""
    marks = {}
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            parts = [part for decorator in node.decorator_list for part in ast.walk(decorator)]
            marks[node.name] = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return marks


@pytest.mark.parametrize(("page", "path", "test"), NAMED)
def test_each_named_test_exists_and_runs(page: str, path: str, test: str) -> None:
    assert (ROOT / path).exists(), f"{page} names {path}"
    tests = marks_by_test(path)
    assert tests
    for name in [test] if test else tests:
        assert name in tests, f"{page} names {path}::{name}"
        assert not tests[name] & NEVER_RUN


def test_each_report_names_an_address_and_a_test() -> None:
    rows = re.findall(r"^\| (?!report )(.*) \|$", (ROOT / "tests/reports.md").read_text(), re.MULTILINE)
    for row in rows:
        report, situation, behaviour, shown_by = row.split(" | ")
        # such as [owner/project#12](https://...) or [a title](https://...)
        assert re.fullmatch(r"\[[\w.-]+/[\w.-]+#\d+\]\(https://\S+\)|\[[^\]]+\]\(https://\S+\)", report), row
        assert situation, row
        assert behaviour, row
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", shown_by), row
