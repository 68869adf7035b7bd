"""The exit status and the last line of a lane. A lane is a part of the tests that CI runs as one job (tests/lanes)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lanes import __main__ as lanes
from tests.lanes import parts
from tests.lanes.parts import Part

Run = Callable[..., tuple[int, list[str]]]

pytestmark = pytest.mark.slow

_TESTS = """
import os
def test_passes(): pass
def test_fails(): assert not os.path.exists("fails"), "the reason"
def test_fails_once():
    if not os.path.exists("again"):
        open("again", "w").close()
        raise AssertionError("only once")
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a lane with a tool and three tests, and returns the exit status and the printed lines."""
    (tmp_path / "test_three.py").write_text(_TESTS)
    monkeypatch.setattr("tests.lanes.job._FOLDER", tmp_path / "lanes")
    # pytest runs in the temporary folder, because the tests leave files in their current folder.
    pytest_there = ("env", "-C", str(tmp_path), sys.executable, "-m", "pytest", "-q")

    def run_lane(*options: str, missing: str | None = None, tool: str = "true") -> tuple[int, list[str]]:
        three = Part("three-of-a-test", ((*pytest_there, "test_three.py"),), pytest=True)
        other = Part("tool-of-a-test", ((tool,),), needs=(lambda: missing,))
        monkeypatch.setitem(parts.LANES, "check", [three, other])
        return lanes.main([*options, "check"]), capsys.readouterr().out.splitlines()

    return run_lane


def test_a_flaky_test_passes_and_is_named(run: Run) -> None:
    status, lines = run()
    assert (status, lines[-1]) == (0, "4 passed, 0 failed")  # three tests, and the tool
    assert any("only once" in line for line in lines), "the failure is shown"
    assert any(re.fullmatch("flaky: .*test_three.py::test_fails_once", line) for line in lines)


def test_a_failing_test_makes_the_lane_fail(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fails").touch()
    status, lines = run()
    assert (status, lines[-1]) == (1, "3 passed, 1 failed")
    assert any("the reason" in line for line in lines)
    assert any(re.fullmatch("FAILED .*test_three.py::test_fails", line) for line in lines)


def test_a_failing_tool_makes_the_lane_fail(run: Run) -> None:
    status, lines = run(tool="false")
    assert (status, lines[-1]) == (1, "3 passed, 1 failed")


def test_tests_that_are_left_out_are_named_with_the_remedy(run: Run) -> None:
    status, lines = run(missing="no tool: install it")
    assert (status, lines[-1]) == (0, "3 passed, 0 failed")
    assert "left out: tool-of-a-test: no tool: install it" in lines[0]
    assert lines[-3:-1] == ["left out: tool-of-a-test: no tool: install it", "The result is partial."]
    assert run("--complete", missing="no tool: install it")[0] == 1
