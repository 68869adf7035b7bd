"""Some pages name tests as proof. Each of these tests exists, and no mark skips it."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests import ROOT

PAGES = ("tests/reports.md", "tests/security.md", "tests/corpus/pitfalls.md", "tests/cluster/versions.md")
NEVER_RUN = {"skip", "xfail"}

NAMED = sorted(
    {
        (page, *named)
        for page in PAGES
        for named in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / page).read_text())
    }
)


@cache
def marks_by_test(path: str) -> dict[str, set[str]]:
    """The marks of each test function in the file."""
    functions = (node for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef))
    return {
        function.name: {
            part.attr for line in function.decorator_list for part in ast.walk(line) if isinstance(part, ast.Attribute)
        }
        for function in functions
        if function.name.startswith("test_")
    }


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
        assert re.fullmatch(r"\[[\w.-]+/[\w.-]+#\d+\]\(https://\S+\)|\[[^\]]+\]\(https://\S+\)", report), row
        assert situation, row
        assert behaviour, row
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", shown_by), row
