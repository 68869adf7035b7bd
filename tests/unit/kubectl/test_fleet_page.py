"""The page on operations shows what `fleet` prints for a list of Nodes and pods with one of each finding."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.node import CONDITION, CONFIGURATION_ANNOTATION
from kubectl_capacityd.__main__ import run
from kubectl_capacityd.commands.source import INSTANCE_TYPE
from tests import ROOT
from tests.support.nodes import node
from tests.support.pages import blocks

DONGLE, NIC = "example.com/dongle", "example.com/nic-mbps"
NOW = 1_768_464_000  # 2026-01-15 08:00:00 UTC, as on the page
HOUR = 3600
FEWER = {"reason": "BelowExpected", "message": f"below expected: {DONGLE}: 3 of 4"}
REFUSED = {"reason": "Refused", "message": "refused: example.com/gpu"}


def stamp(age: float) -> str:
    """The time this many seconds ago, as in a Node."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW - age))


def worker(
    name: str,
    dongles: int = 4,
    *,
    trouble: Mapping[str, str] | None = None,
    age: float = 0,
    ready: bool = True,
    cordoned: bool = False,
) -> dict[str, Any]:
    """A Node on which capacityd has published. age: of the heartbeats, in seconds."""
    big = name.startswith("big")
    numbers = {DONGLE: dongles, NIC: 25_000 if big else 10_000}
    document = node({key: str(number) for key, number in numbers.items()}, numbers)
    document["metadata"] |= {"name": name, "labels": {INSTANCE_TYPE: "m5.metal" if big else "m5.large"}}
    document["metadata"]["annotations"][CONFIGURATION_ANNOTATION] = "4f1c2a907b1e"
    document["spec"] = {"unschedulable": cordoned}
    published = {"type": CONDITION, "status": str(trouble is None), **(trouble or {"reason": "Published"})}
    kubelets = {"type": "Ready", "status": str(ready)}
    document["status"]["conditions"] = [
        published | {"lastHeartbeatTime": stamp(age), "lastTransitionTime": stamp(24 * HOUR)},
        kubelets | {"lastHeartbeatTime": stamp(age), "lastTransitionTime": stamp(4 * HOUR)},
    ]
    return document


def pod(name: str, resource: str, quantity: int, node: str = "") -> dict[str, Any]:
    """A pod that requests this quantity. node: where the pod runs; "": it waits."""
    containers = [{"name": "main", "resources": {"requests": {resource: str(quantity)}}}]
    spec = {"containers": containers} | ({"nodeName": node} if node else {})
    phase = "Running" if node else "Pending"
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}}


def fleet() -> list[dict[str, Any]]:
    """Healthy Nodes, and at least one Node for each thing that can be wrong."""
    bare = worker("worker-16")
    del bare["metadata"]["annotations"]
    bare["status"] |= {"capacity": {}, "allocatable": {}, "conditions": bare["status"]["conditions"][1:]}
    zeroed = worker("big-5", 8)
    zeroed["status"]["capacity"][DONGLE] = zeroed["status"]["allocatable"][DONGLE] = "0"
    configured = worker("big-6", 8)
    configured["metadata"]["annotations"][CONFIGURATION_ANNOTATION] = "0b77e1d34a90"
    return [
        *(worker(f"worker-{number:02}") for number in (*range(1, 9), *range(17, 21))),
        *(worker(f"worker-{number:02}", 3, trouble=FEWER) for number in range(9, 12)),
        worker("worker-12", trouble=REFUSED),
        worker("worker-13", age=3 * HOUR, ready=False),
        worker("worker-14", age=5 * HOUR, ready=False, cordoned=True),
        worker("worker-15", age=3 * HOUR),
        bare,
        *(worker(f"big-{number}", 8) for number in range(1, 5)),
        zeroed,
        configured,
        pod("a", DONGLE, 6, "big-1"),
        pod("b", DONGLE, 3, "big-1"),
        pod("c", DONGLE, 4, "worker-01"),
        pod("d", DONGLE, 1, "worker-02"),
        pod("e", DONGLE, 2),
        pod("f", NIC, 5_000, "worker-01"),
    ]


def test_fleet_prints_each_line_that_the_page_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"kind": "List", "items": fleet()}))
    assert run(["fleet", "--node-file", str(file)]) == 4
    printed = capsys.readouterr().out.splitlines()
    (shown,) = (block.text for block in blocks((ROOT / "docs/operations.md").read_text()) if block.kind == "text")
    assert [line for line in shown.splitlines() if line not in (*printed, "…")] == [], "\n".join(printed)
