"""A kubelet of the tests is one of its own: it neither knows another one nor changes the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import STATE, Kubelet
from tests.cluster.kubelet import kubelet as kubelet_of
from tests.cluster.processes import PATIENCE, wait_until

pytestmark = pytest.mark.protocol

DONGLE, CARD = "example.com/dongle", "example.com/card"


def test_two_nodes_and_the_machine_know_nothing_of_each_other(cluster: Cluster) -> None:
    parameters = [Path("/proc/sys", name) for name in ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")]
    folders = [STATE / "device-plugins", Path("/var/log/containers"), Path("/usr/libexec/kubernetes")]
    before = [path.read_text() for path in parameters], [path.exists() for path in folders]
    with kubelet_of(cluster) as one, kubelet_of(cluster) as two:
        one.start()
        two.start()
        publish(cluster, one, "1")
        publish(cluster, two, "2")
        with one.device_plugin(CARD, 1):
            assert CARD in one.checkpoint.read_text()
            assert not two.checkpoint.exists() or CARD not in two.checkpoint.read_text()
        assert ([path.read_text() for path in parameters], [path.exists() for path in folders]) == before


def publish(cluster: Cluster, kubelet: Kubelet, quantity: str) -> None:
    """Write the capacity and wait for the kubelet to take it over."""
    cluster.set_capacity(kubelet.name, {DONGLE: quantity})
    wait_until(lambda: cluster.allocatable(kubelet.name).get(DONGLE) == quantity, PATIENCE, "allocatable follows")
