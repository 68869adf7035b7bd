"""How long a worker waits for a Node, and how often it asks."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import pytest

from capacityd.host.live import LiveHost
from capacityd.model.config import Config
from capacityd.model.errors import NodeError, NodeMissing, NodeUnreachable
from capacityd.worker import await_node
from tests.unit.reconcile.doubles import MemoryNode


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses so far. Only they advance the clock, and each is the longest that the jitter allows."""
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept))
    monkeypatch.setattr("capacityd.worker.await_node.time", clock)
    monkeypatch.setattr("capacityd.worker.await_node.random", SimpleNamespace(uniform=lambda low, high: high))
    return slept


@pytest.mark.parametrize("error", [None, NodeUnreachable("no answer")])
def test_it_ends_when_there_is_a_node_or_another_error(pauses: list[float], error: NodeError | None) -> None:
    node = MemoryNode(*[NodeMissing("none")] * 100, error)
    assert await_node.await_node(node, 600.0)
    assert node.reads == 101


def test_requests_are_at_most_four_seconds_apart_and_few(pauses: list[float]) -> None:
    node = MemoryNode(*[NodeMissing("none")] * 1000)
    assert not await_node.await_node(node, 600.0)
    assert pauses[0] == 1.0
    assert max(pauses) == 4.0
    assert 150 < node.reads < 170


@pytest.mark.parametrize(
    ("kubeconfig_age", "uptime", "expected"),
    [(None, 5000.0, 0.0), (100.0, 5000.0, 500.0), (700.0, 5000.0, 0.0), (700.0, 30.0, 570.0), (-100.0, 5000.0, 0.0)],
)
def test_a_node_is_expected_for_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubeconfig_age: float | None, uptime: float, expected: float
) -> None:
    """The ten minutes begin when the kubeconfig appears or the machine boots; a future kubeconfig does not count."""
    kubeconfig = tmp_path / "kubeconfig"
    if kubeconfig_age is not None:
        kubeconfig.touch()
        now = kubeconfig.stat().st_ctime + kubeconfig_age
        monkeypatch.setattr("capacityd.worker.await_node.time", SimpleNamespace(time=lambda: now))
    monkeypatch.setattr(await_node, "uptime", lambda: uptime)
    monkeypatch.setattr(await_node, "kubelet_started_at", lambda host: None)
    options = argparse.Namespace(kubeconfig=str(kubeconfig), node_file=None)
    assert await_node.registration_expected(Config(()), LiveHost(), options) == pytest.approx(expected)
    options.node_file = "n1.json"
    assert await_node.registration_expected(Config(()), LiveHost(), options) == 0.0
