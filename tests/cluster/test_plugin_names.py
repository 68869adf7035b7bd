"""A name that a device plugin uses by custom: at each end it has one writer, and `status` says which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from capacityd.reconcile import machine_record
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.support.machines import usb_device

GPU = "nvidia.com/gpu"
GPUS = f'[resources."{GPU}"]\nstatic = {{ quantity = 4 }}\n'


@contextmanager
def on_node(cluster: Cluster, kubelet: Kubelet) -> Iterator[Service]:
    """The service on a node whose kubelet runs, configured with a dongle and the plugin's name."""
    with service(cluster, usb_device("1-1", "0403"), node=kubelet.name, around=kubelet.inside([])) as s:
        s.configure(DONGLES + GPUS)
        yield s


def wait_quantities(s: Service, capacity: str, allocatable: str) -> None:
    def has() -> bool:
        status = s.cluster.node(s.node)["status"]
        return (status["capacity"].get(GPU), status["allocatable"].get(GPU)) == (capacity, allocatable)

    wait_until(has, PROMPT + PATIENCE, f"{GPU} is {capacity}, allocatable {allocatable}")


def recorded(s: Service) -> bool:
    """Whether the machine's record names it."""
    record = machine_record.read(str(s.state_directory))
    return record is not None and record.names(GPU)


def is_only_capacitys(s: Service) -> None:
    status = s.status()
    (row,) = (row for row in status["resources"] if row["name"] == GPU)
    assert (row["published"], row["refused"], status["other_resources"]) == (4, False, {})
    assert s.last_applied()[GPU] == 4


def is_only_the_plugins(s: Service) -> None:
    """Neither record names it, so whatever happens, capacityd does not write it."""
    status = s.status()
    (row,) = (row for row in status["resources"] if row["name"] == GPU)
    assert (row["published"], row["refused"]) == (None, True)
    assert "a device plugin has this name, so the kubelet writes the key" in row["note"]
    assert status["other_resources"] == {GPU: "device_plugin"}
    assert GPU not in s.last_applied()
    assert not recorded(s)
    text = s.cli("status")
    assert (text.returncode, f"! {GPU}: refused: a device plugin has this name" in text.stdout) == (4, True)


@pytest.mark.protocol
def test_capacityd_first_then_the_plugin(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start()
    with on_node(cluster, kubelet) as s:
        s.start()
        wait_quantities(s, "4", "4")
        assert "device plugins use names in nvidia.com (https://" in s.log()
        is_only_capacitys(s)
        with kubelet.device_plugin(GPU, 3):
            wait_quantities(s, "3", "3")
            s.wait(lambda: GPU not in s.last_applied(), PROMPT, "it is given up")
            is_only_the_plugins(s)
            assert "refused: a device plugin has this name" in s.log()


@pytest.mark.protocol
def test_the_plugin_first_then_capacityd(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start()
    with kubelet.device_plugin(GPU, 3), on_node(cluster, kubelet) as s:
        wait_quantities(s, "3", "3")
        s.start()
        is_only_the_plugins(s)
        wait_quantities(s, "3", "3")


@pytest.mark.protocol
def test_the_plugin_is_gone_and_the_name_no_longer_configured(cluster: Cluster, kubelet: Kubelet) -> None:
    """The kubelet keeps the key, as 0 after its next start. It alone writes the key, and status says so."""
    kubelet.start()
    with on_node(cluster, kubelet) as s:
        s.start()
        with kubelet.device_plugin(GPU, 3):
            wait_quantities(s, "3", "3")
            s.wait(lambda: GPU not in s.last_applied(), PROMPT, "it is given up")
            s.configure(DONGLES)
            s.reload()
            only_others_write(s, "a device plugin's")
        wait_quantities(s, "3", "0")
        kubelet.restart()
        wait_quantities(s, "0", "0")
        only_others_write(s, "a device plugin's")
        # Five minutes after the plugin has gone, the kubelet forgets the registration.
        kubelet.stop()
        checkpoint = json.loads(kubelet.checkpoint.read_text())
        assert checkpoint["Data"]["RegisteredDevices"].pop(GPU) is not None
        passes = s.passes()
        kubelet.checkpoint.write_text(json.dumps(checkpoint))
        s.wait_passes(1, passes)
        only_others_write(s, "another writer's")
        wait_quantities(s, "0", "0")


def only_others_write(s: Service, whose: str) -> None:
    """The key is not configured and in neither record, and status is healthy and says whose it is."""
    status = s.status()
    assert ([row["name"] for row in status["resources"]], list(status["other_resources"])) == ([DONGLE], [GPU])
    text = s.cli("status")
    assert (text.returncode, f"not capacityd's: {GPU} ({whose})" in text.stdout) == (0, True), text.stdout
    assert GPU not in s.last_applied()
    assert not recorded(s)
