"""The demo shows what it promises, and notices when it doesn't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.cluster import demo
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster


def test_the_demo(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "tests.cluster.demo"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert said.returncode == 0, said.stdout + said.stderr
    words = [line.split() for line in said.stdout.splitlines()]
    assert [line for line in words if line[:1] == ["n1"]] == [["n1", "4", "4"], ["n1", "3", "3"]]
    assert f"Insufficient {DONGLE}" in said.stdout
    assert [line[1:] for line in words if line[:1] and line[0].startswith("pod-")] == [
        ["3", "Running"],
        ["3", "Running"],
        ["2", "Pending"],
        ["2", "Running"],
    ]
    assert said.stdout.endswith("All was as said.\n")


def test_a_demo_that_goes_wrong_fails(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(demo.Wrong, match="four dongles are written"):
        demo.story(cluster, dongles=3)
    assert "+  example.com/dongle  3" in capsys.readouterr().out


def test_it_tells_of_the_build_when_something_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "kube-apiserver" in demo.missing()
