"""The Kubernetes node in a virtual machine that all these tests share, and its hardware."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.processes import wait_until, workspace
from tests.machine.image import debian_12, image
from tests.machine.node import CLOUD_INIT, node_files
from tests.machine.qemu import BOOT, VirtualMachine, drive, nic, peer, virtual_machine
from tests.package.packages import build, copy_sources

DONGLE, NIC, PORT = "example.com/dongle", "example.com/nic-mbps", "example.com/port-mbps"
SCRATCH, NVME = "example.com/scratch-gib", "example.com/nvme"
GIB = 1 << 30

# Replaces the example's resources: QEMU can emulate an FTDI device, but no SafeNet dongle.
HARDWARE = f"""\
[resources."{DONGLE}"]
usb = {{ vendor = "0403", product = "6001" }}

[resources."{NIC}"]
nic = {{ system = false, driver = "virtio_net", link = "up" }}
measure = "speed"
unit = "Mbit/s"
fallback = "1Gbit/s"

[resources."{PORT}"]
nic = {{ driver = "e1000e" }}
measure = "max_speed"
unit = "Mbit/s"

[resources."{SCRATCH}"]
disk = {{ system = false }}
measure = "size"
unit = "GiB"

[resources."{NVME}"]
disk = {{ type = "nvme" }}
"""
FIRST_CAPACITY = {DONGLE: "2", NIC: "26k", PORT: None, SCRATCH: "3", NVME: "1"}
"""What hardware() amounts to. NIC: 25000 of nic1, and the fallback for nic2. SCRATCH: both disks."""


def hardware(folder: Path) -> list[str]:
    """QEMU's arguments: two USB devices, two NICs (one has a speed), the peer of a third, an NVMe and a virtio disk."""
    return [
        *("-chardev", "null,id=dongle1-end", "-device", "usb-serial,id=dongle1,chardev=dongle1-end,always-plugged=on"),
        *("-chardev", "null,id=dongle2-end", "-device", "usb-serial,id=dongle2,chardev=dongle2-end,always-plugged=on"),
        *nic("nic1", speed=25000, duplex="full"),
        *nic("nic2"),
        *peer("nic3"),
        *(*drive("nvme", 2 * GIB, folder), "-device", "nvme,id=nvme,drive=nvme,serial=nvme"),
        *(*drive("scratch", 1 * GIB, folder), "-device", "virtio-blk-pci,drive=scratch,serial=scratch"),
    ]


@dataclass(frozen=True, slots=True)
class Node:
    """A Node of the cluster, and its machine."""

    name: str
    vm: VirtualMachine
    cluster: Cluster

    def wait_capacity(self, expected: dict[str, str | None]) -> None:
        """Waits until the capacity contains these quantities (None: it does not contain the name)."""

        def fits() -> bool:
            nodes = self.cluster.admin.get("/api/v1/nodes")["items"]  # empty before the kubelet has registered the Node
            capacity = nodes[0]["status"].get("capacity", {}) if nodes else {}
            return {name: capacity.get(name) for name in expected} == expected

        try:
            wait_until(fits, BOOT, f"the capacity holds {expected}")
        except TimeoutError as e:
            raise TimeoutError(f"{e}\n{self.vm.journal()[-6000:]}") from None


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """The node, at the beginning of its first boot. Its image contains the package, but the service is not enabled."""
    with ExitStack() as stack:
        folder, pool = stack.enter_context(workspace()), stack.enter_context(ThreadPoolExecutor())
        tree = pool.submit(debian_12)
        package = pool.submit(build, copy_sources(folder / "sources"), folder / "package")
        cluster = stack.enter_context(control_plane())  # starts while the pool makes the tree and the package
        name = cluster.node_name()
        disk = image(folder / "system", tree.result(), [package.result()], node_files(cluster, name, HARDWARE))
        machine = virtual_machine(disk, tree.result(), hardware(folder), CLOUD_INIT)
        yield Node(name, stack.enter_context(machine), cluster)
