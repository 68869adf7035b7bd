"""A name that capacityd and a device plugin use has only one writer in the end. `status` says which."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.agent import ANNOTATION, DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.pods import run_pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.support.machines import usb_device

GPU, CARD = "nvidia.com/gpu", "example.com/card"
GPUS = f'[resources."{GPU}"]\nstatic = {{ quantity = 4 }}\n'


@pytest.mark.protocol
def test_a_device_plugin_takes_a_name_over(cluster: Cluster, kubelet: Kubelet) -> None:
    """After the plugin has gone, and without a configuration, the kubelet keeps the key (0 after its next start)."""
    kubelet.start()
    with service(cluster, usb_device("1-1", "0403"), node=kubelet.name, around=kubelet.inside([])) as s:
        s.configure(DONGLES + GPUS)
        s.start()
        wait_quantities(s, "4", "4")
        assert "device plugins use names in nvidia.com (https://" in s.log()
        assert (row(s)["published"], row(s)["trouble"]) == (4, None)
        assert s.published()[GPU] == 4
        with kubelet.device_plugin(GPU, 3):
            wait_quantities(s, "3", "3")
            s.wait(lambda: GPU not in s.published(), PROMPT, "it is given up")
            assert (row(s)["published"], row(s)["trouble"]) == (None, "Refused")
            assert "a device plugin has this name, so the kubelet writes the key" in row(s)["note"]
            is_not_ours(s, 4, f"! {GPU}: refused: a device plugin has this name")
            assert s.condition()["message"].startswith(f"refused: {GPU}: ")
            forged = {"metadata": {"annotations": {ANNOTATION: json.dumps({GPU: 3, DONGLE: 1})}}}
            cluster.admin.patch(f"/api/v1/nodes/{kubelet.name}", forged)
            s.machine.plug("1-2")
            s.wait_capacity("2")
            assert len([event for event in s.events() if "a device plugin has this name" in event]) == 1
            s.configure(DONGLES)
            s.reload()
            is_not_ours(s, 0)
        wait_quantities(s, "3", "0")
        kubelet.restart()
        wait_quantities(s, "0", "0")
        is_not_ours(s, 0)
        # Five minutes after the plugin has gone, the kubelet forgets the registration.
        kubelet.stop()
        checkpoint = json.loads(kubelet.checkpoint.read_text())
        assert checkpoint["Data"]["RegisteredDevices"].pop(GPU) is not None
        kubelet.checkpoint.write_text(json.dumps(checkpoint))
        s.reload()  # status shows the Node as it was last read
        is_not_ours(s, 0)
        wait_quantities(s, "0", "0")


def wait_quantities(s: Service, capacity: str, allocatable: str) -> None:
    def has() -> bool:
        status = s.cluster.node(s.node)["status"]
        return (status["capacity"].get(GPU), status["allocatable"].get(GPU)) == (capacity, allocatable)

    wait_until(has, PROMPT + PATIENCE, f"{GPU} is {capacity}, allocatable {allocatable}")


def row(s: Service) -> Any:
    """The row of `capacityd status` for the name."""
    return next(row for row in s.status()["resources"] if row["name"] == GPU)


def is_not_ours(s: Service, exit_status: int, shown: str = "") -> None:
    """Asserts that the annotation does not contain the name, so that capacityd never writes the key."""
    text = s.cli("status")
    assert (text.returncode, shown in text.stdout) == (exit_status, True), text.stdout
    assert GPU not in s.published()


@pytest.mark.protocol
def test_the_name_of_a_device_plugin_is_refused(cluster: Cluster, kubelet: Kubelet) -> None:
    """The name is refused before the Node shows the plugin, and while pods hold devices of a plugin that has gone."""
    kubelet.start()
    with service(cluster, node=kubelet.name, around=kubelet.inside([])) as s:
        s.configure(f'[resources."{CARD}"]\nstatic = {{ quantity = 5 }}\nadopt = true\n')
        with kubelet.device_plugin(CARD, 3):
            wait_until(lambda: cluster.allocatable(s.node).get(CARD) == "3", PATIENCE, "its devices are allocatable")
            run_pod(cluster, s.node, CARD)
            kubelet.stop()
            cluster.set_capacity(s.node, {CARD: None})
            refused(s, None)
        # Five minutes later the kubelet has forgotten the registration, and only the pod shows the name.
        checkpoint = json.loads(kubelet.checkpoint.read_text())
        assert [entry["ResourceName"] for entry in checkpoint["Data"]["PodDeviceEntries"]] == [CARD]
        checkpoint["Data"]["RegisteredDevices"] = {}
        kubelet.checkpoint.write_text(json.dumps(checkpoint))
        cluster.set_capacity(s.node, {CARD: "0"})
        refused(s, "0")


def refused(s: Service, value: str | None) -> None:
    """Asserts that apply and withdraw leave the card's key as it is, and that apply says why."""
    assert "a device plugin has this name" in s.cli("apply", status=4).stdout
    s.cli("withdraw", status=0)
    assert s.capacity(CARD) == value
