"""Which runs `make matrix` and `make pythons` make, and what they say of one that fails or cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import pythons
from tests.cluster import matrix
from tests.cluster.binaries import BuildError
from tests.cluster.matrix import Run
from tests.cluster.test_binaries import program


def test_a_kubelet_may_be_three_versions_older() -> None:
    names = [run.name for run in matrix.runs()]
    assert names[0] == "1.30"
    skewed = [tuple(map(float, name.split("-kubelet-"))) for name in names if "-kubelet-" in name]
    assert [round(100 * (server - kubelet)) for server, kubelet in skewed] == [3, 3, 3]
    assert len(set(names)) == len(names)


def test_runs_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    results = {"1.30": "FAILED", "1.31": "flaky"}
    monkeypatch.setattr(matrix, "suite", lambda run: results.get(run.name, "passed"))
    assert matrix.main(["1.31", "1.32"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["1.31: flaky, 0 s", "1.32: passed, 0 s"]
    assert matrix.main([]) == 1
    assert matrix.main(["1.29"]) == 2
    assert "no run is called 1.29: 1.30 1.31" in capsys.readouterr().err


def test_a_run_that_cannot_be_prepared_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> dict[str, str]:
        raise BuildError("no network")

    assert matrix.suite(Run("x", fails)) == "FAILED"
    assert capsys.readouterr().err == "no network\n"


def test_what_failed_is_run_once_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def result(script: str) -> str:
        monkeypatch.setattr("sys.executable", str(program(tmp_path / "python", script)))
        return matrix.suite(Run("x", dict))

    assert [result("exit 0"), result("exit 1")] == ["passed", "FAILED"]
    assert result('case "$*" in *--last-failed*) exit 0;; esac; exit 1') == "flaky"


def test_a_python_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of them is a shim of a version manager, which runs nothing."""
    program(tmp_path / "python3.8", "exit 127")
    program(tmp_path / "python3.9")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("install", "types", "unit"):
        monkeypatch.setattr(pythons, name, lambda *_: True)
    assert pythons.main(["3.7", "3.8", "3.9"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "Python 3.7: not run: no python3.7 on the PATH",
        "Python 3.8: not run: no python3.8 on the PATH",
        "Python 3.9: passed",
    ]
    monkeypatch.setattr(pythons, "unit", lambda *_: False)
    assert pythons.main(["3.9"]) == 1
