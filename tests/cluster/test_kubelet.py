"""The kubelet is a real one: it treats extended resources, pods and device plugins as on a node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import STATE, Kubelet
from tests.cluster.kubelet import kubelet as kubelet_of
from tests.cluster.pods import out_of, run_pod
from tests.cluster.processes import PATIENCE, wait_until

# They are about Kubernetes alone: only another version of it changes their outcome.
pytestmark = [pytest.mark.protocol, pytest.mark.whole]

DONGLE = "example.com/dongle"
CARD = "example.com/card"


def test_capacity_reaches_pods(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start()
    publish(cluster, kubelet, "1")
    first, second = run_pod(cluster, kubelet.name, DONGLE), cluster.create_pod(kubelet.name, {DONGLE: "1"})
    message = wait_until(lambda: cluster.unschedulable(second), PATIENCE, "the second pod is turned away")
    assert f"Insufficient {DONGLE}" in message
    cluster.delete_pod(first)
    wait_until(lambda: cluster.pod_phase(second) == "Running", PATIENCE, "the second pod takes its place")


def test_a_removed_key_leaves_allocatable(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start()
    publish(cluster, kubelet, "1")
    cluster.set_capacity(kubelet.name, {DONGLE: None})
    wait_until(lambda: DONGLE not in cluster.allocatable(kubelet.name), PATIENCE, "allocatable follows")


def test_a_plain_restart_changes_nothing(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start()
    publish(cluster, kubelet, "2")
    pod = run_pod(cluster, kubelet.name, DONGLE)
    before = kubelet.socket.stat().st_ctime_ns
    kubelet.restart()
    assert kubelet.socket.stat().st_ctime_ns > before, "it is a new kubelet"
    assert cluster.capacity(kubelet.name)[DONGLE] == cluster.allocatable(kubelet.name)[DONGLE] == "2"
    assert cluster.pod_phase(pod) == "Running"


def test_zeroing(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start()
    publish(cluster, kubelet, "2")
    pod = run_pod(cluster, kubelet.name, DONGLE)
    kubelet.restart(zeroing=True)
    assert cluster.capacity(kubelet.name)[DONGLE] == cluster.allocatable(kubelet.name)[DONGLE] == "0"
    # The reason is in an Event only: the phase is what the stopped containers make of it.
    wait_until(lambda: cluster.pod_phase(pod) in ("Succeeded", "Failed"), PATIENCE, "the pod is stopped")
    wait_until(lambda: out_of(cluster, pod, DONGLE), PATIENCE, "an Event has the reason")
    publish(cluster, kubelet, "2")
    run_pod(cluster, kubelet.name, DONGLE)


def test_device_plugin(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start()
    with kubelet.device_plugin(CARD, 3):
        data = json.loads(kubelet.checkpoint.read_text())["Data"]
        assert {name: sorted(ids) for name, ids in data["RegisteredDevices"].items()} == {
            CARD: ["device-0", "device-1", "device-2"]
        }
        wait_until(lambda: cluster.allocatable(kubelet.name).get(CARD) == "3", PATIENCE, "its devices are allocatable")
        pod = run_pod(cluster, kubelet.name, CARD)
        data = json.loads(kubelet.checkpoint.read_text())["Data"]
        assert [entry["ResourceName"] for entry in data["PodDeviceEntries"]] == [CARD]
        cluster.delete_pod(pod)
        kubelet.restart()
        wait_until(lambda: cluster.allocatable(kubelet.name).get(CARD) == "3", PATIENCE, "it has registered again")
        assert not cluster.unschedulable(run_pod(cluster, kubelet.name, CARD))
    assert not list(kubelet.device_plugins.glob("example*")), "its socket goes with it"


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
