"""Which runs `make matrix` makes, and what it reports of one that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import matrix
from tests.cluster.matrix import Run
from tests.cluster.test_binaries import program


def test_runs_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    results = {"1.30": "FAILED", "1.31": "flaky"}
    monkeypatch.setattr(matrix, "suite", lambda run: results.get(run.name, "passed"))
    assert matrix.main(["1.31", "1.32"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["1.31: flaky, 0 s", "1.32: passed, 0 s"]
    assert matrix.main([]) == 1
    assert matrix.main(["1.29"]) == 2
    assert "no run is called 1.29: 1.30 1.31" in capsys.readouterr().err


def test_a_failed_run_is_repeated_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def result(script: str) -> str:
        monkeypatch.setattr("sys.executable", str(program(tmp_path / "python", script)))
        return matrix.suite(Run("x", dict))

    assert [result("exit 0"), result("exit 1")] == ["passed", "FAILED"]
    assert result('case "$*" in *--last-failed*) exit 0;; esac; exit 1') == "flaky"
