"""tests/cluster/versions.md: tests show each row of what differs, and each version that it lists is tested."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests import ROOT
from tests.cluster import versions
from tests.cluster.clients import ALL
from tests.cluster.matrix import runs
from tests.cluster.releases import minor, releases

PAGE = versions.PAGE.read_text()
_MARK = re.compile(r"pytest\.mark\.(since|before)")


def marks() -> Iterator[tuple[str, str]]:
    """Each mark since and before of the cluster's tests, with the row that it names."""
    for path in (ROOT / "tests/cluster").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (mark := _MARK.fullmatch(ast.unparse(node.func))):
                (name,) = node.args
                assert isinstance(name, ast.Name), f"{path}: name the row by a constant of versions.py"
                yield mark[1], getattr(versions, name.id)


def test_each_row_is_shown_on_both_sides() -> None:
    rows = versions.differences()
    assert rows
    assert {(mark, row) for mark in ("since", "before") for row in rows} == set(marks())


def test_what_was_run_is_among_what_the_matrix_runs() -> None:
    shown = re.findall(r"^\| (\d+\.\d+\.\d+) \| (\d+\.\d+\.\d+) \|$", PAGE, re.MULTILINE)
    assert shown
    names = {
        minor(server) if server == kubelet else f"{minor(server)}-kubelet-{minor(kubelet)}" for server, kubelet in shown
    }
    assert {version for pair in shown for version in pair} <= set(releases())
    assert names <= {run.name for run in runs()}


def test_the_clients_that_were_run_are_among_those_of_the_matrix() -> None:
    shown = re.findall(r"^\| kubernetes (\S+) \| (\S+) \|$", PAGE, re.MULTILINE)
    assert shown
    assert set(shown) <= set(ALL)
