"""A name that capacityd and a device plugin use has only one writer in the end. `status` says which."""

from __future__ import annotations

import json

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.pods import run_pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, Service, service_on_machine
from tests.support.machines import usb_device

GPU, CARD = "nvidia.com/gpu", "example.com/card"
GPUS = f'[resources."{GPU}"]\nstatic = {{ quantity = 4 }}\n'


@pytest.mark.protocol
def test_a_device_plugin_takes_a_name_over(cluster: Cluster, kubelet: Kubelet) -> None:
    """Once the plugin has gone, the key stays on the Node. The kubelet sets it to 0 at its next start."""
    kubelet.start()
    with service_on_machine(cluster, usb_device("1-1", "0403"), kubelet=kubelet) as service:
        service.configure(DONGLES + GPUS)
        service.start()
        wait_gpus(service, capacity="4", allocatable="4")
        assert service.published()[GPU] == 4
        with kubelet.device_plugin(GPU, 3):
            wait_gpus(service, capacity="3", allocatable="3")
            service.wait(lambda: GPU not in service.published(), PROMPT, "capacityd gives the name up")
            refusal = f"! {GPU}: refused: a device plugin has this name"
            assert refusal in service.cli("status", status=4).stdout
            service.configure(DONGLES)  # without the GPUs
            service.reload()
            assert_not_published(service)
        wait_gpus(service, capacity="3", allocatable="0")
        kubelet.restart()
        wait_gpus(service, capacity="0", allocatable="0")
        assert_not_published(service)
        # Five minutes after the plugin has gone, the kubelet forgets the registration.
        kubelet.stop()
        checkpoint = json.loads(kubelet.checkpoint.read_text())
        assert checkpoint["Data"]["RegisteredDevices"].pop(GPU) is not None
        kubelet.checkpoint.write_text(json.dumps(checkpoint))
        service.reload()  # status shows the Node as it was last read
        assert_not_published(service)
        wait_gpus(service, capacity="0", allocatable="0")


def wait_gpus(service: Service, *, capacity: str, allocatable: str) -> None:
    """Waits until the Node has these numbers of GPUs."""

    def has() -> bool:
        status = service.cluster.node(service.node)["status"]
        return (status["capacity"].get(GPU), status["allocatable"].get(GPU)) == (capacity, allocatable)

    wait_until(has, PROMPT + PATIENCE, f"{GPU} is {capacity}, allocatable {allocatable}")


def assert_not_published(service: Service) -> None:
    """Asserts that the annotation does not contain the GPUs (so capacityd does not write their key)."""
    service.cli("status", status=0)
    assert GPU not in service.published()


@pytest.mark.protocol
def test_the_name_of_a_device_plugin_is_refused(cluster: Cluster, kubelet: Kubelet) -> None:
    """The name is refused before the Node shows the plugin, and while pods hold devices of a plugin that has gone."""
    kubelet.start()
    with service_on_machine(cluster, kubelet=kubelet) as service:
        service.configure(f'[resources."{CARD}"]\nstatic = {{ quantity = 5 }}\nadopt = true\n')
        with kubelet.device_plugin(CARD, 3):
            wait_until(lambda: cluster.allocatable(kubelet.name).get(CARD) == "3", PATIENCE, "the plugin has devices")
            run_pod(cluster, service.node, CARD)
            kubelet.stop()
            cluster.set_capacity(service.node, {CARD: None})
            assert_refused(service, quantity=None)
        # Five minutes later the kubelet has forgotten the registration, and only the pod shows the name.
        checkpoint = json.loads(kubelet.checkpoint.read_text())
        assert [entry["ResourceName"] for entry in checkpoint["Data"]["PodDeviceEntries"]] == [CARD]
        checkpoint["Data"]["RegisteredDevices"] = {}
        kubelet.checkpoint.write_text(json.dumps(checkpoint))
        cluster.set_capacity(service.node, {CARD: "0"})
        assert_refused(service, quantity="0")


def assert_refused(service: Service, *, quantity: str | None) -> None:
    """Asserts that apply and withdraw leave the card's key at this quantity, and that apply says why."""
    assert "a device plugin has this name" in service.cli("apply", status=4).stdout
    service.cli("withdraw", status=0)
    assert service.capacity(CARD) == quantity
