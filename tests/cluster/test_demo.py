"""The demo has the results that it describes, and fails if one is different."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests import ROOT
from tests.cluster import demo
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster


def test_the_demo() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.demo"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert [line.split()[2] for line in lines if line.startswith("$ capacityd")] == ["probe", "run", "fleet"]
    assert [line for line in lines if line.startswith("capacityd:")] == [
        f"capacityd: {DONGLE}: none → 4 (found)",
        f"capacityd: {DONGLE}: 4 → 3: held back for 10 s more, in case it comes back (lower_after)",
        f"capacityd: {DONGLE}: 4 → 3 (the reading changed)",
        f"capacityd: {DONGLE}: 3, expected 4",
    ]
    words = [line.split() for line in lines]
    assert [line for line in words if line in (["4", "4"], ["3", "3"])] == [["4", "4"], ["3", "3"]]
    assert f"Insufficient {DONGLE}" in done.stdout
    assert [(line[0], line[2]) for line in words if line and line[0] in ("three-dongles", "two-dongles")] == [
        ("three-dongles", "Running"),
        ("two-dongles", "Pending"),
        ("two-dongles", "Running"),
    ]
    events = [line for line in words if line[1:2] in (["CapacityChanged"], ["CapacityBelowExpected"])]
    assert len(events) == 3
    assert [line[0] for line in events] == sorted(line[0] for line in events)
    assert [line[3:6] for line in events if line[1] == "CapacityChanged"] == [["none", "→", "4"], ["4", "→", "3"]]
    assert re.fullmatch(rf"!  BelowExpected  \d+ s +- +- +n1 +below expected: {DONGLE} is 3 of 4", lines[-3])
    assert lines[-2:] == ["", "Every step had the result described."]


def test_another_result_ends_it(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(demo.UnexpectedResult, match='exit status 0 of "capacityd probe"'):
        demo.run_demo(cluster, dongles=3)
    assert "less than expected" in capsys.readouterr().out
