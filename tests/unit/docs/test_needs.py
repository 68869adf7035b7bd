"""The TOML of docs/recipes.md, on machines with the hardware and on machines without it.

The expected answers are written by hand from the contents of conf/examples/machines.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.config import load
from capacityd.discovery.reader import read_resource
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.schema.config import Resource
from tests.support.machines import (
    Recording,
    bare,
    disk,
    files,
    merge,
    mounts,
    nvme,
    pci_function,
    pci_nic,
    routes,
    usb_device,
)
from tests.support.pages import blocks
from tests.support.tour import recordings
from tests.support.trees import Tree

PAGE = Path(__file__).parents[3] / "docs/recipes.md"
BLOCKS = [block.text for block in blocks(PAGE.read_text()) if block.kind == "toml" and not block.name]


def dongles() -> Recording:
    """A machine with seven dongles. The recipe leaves out two by their serial numbers, and one by its product."""
    first_vendor = [
        usb_device(f"1-{n}", "0529", "0001", serial, number=n + 1) for n, serial in enumerate(("C1", "C2", "A17"), 1)
    ]
    second_vendor = [
        usb_device(f"2-{n}", "0403", "6001", serial, number=n + 9) for n, serial in enumerate(("B01", "B03", None), 1)
    ]
    return merge(bare(), *first_vendor, *second_vendor, usb_device("2-4", "0403", "6010", "B05", number=20))


def cards() -> Recording:
    """A machine with three FPGA cards, two NVIDIA GPUs and two NVMe disks.

    Two of the FPGA cards have two functions each. One GPU drives the console. One disk holds the system.
    """
    return merge(
        bare(),
        pci_function("0000:21:00.0", "10ee", "500c", "120000", "xclmgmt"),
        pci_function("0000:21:00.1", "10ee", "500d", "120000", "xocl"),
        pci_function("0000:22:00.0", "10ee", "500c", "120000", "xclmgmt"),
        pci_function("0000:22:00.1", "10ee", "500d", "120000", "xocl"),
        pci_function("0000:23:00.0", "8086", "0b30", "120000", "dfl-pci"),
        pci_function("0000:03:00.0", "10de", "1cb3", "030000", "nvidia", attributes={"boot_vga": "1\n"}),
        pci_function("0000:04:00.0", "10de", "2330", "030200", "nvidia"),
        nvme("nvme0n1", "S1", at="/sys/devices/pci0000:5e/0000:5e:00.0/nvme/nvme0", number="259:0", wwid="eui.1"),
        nvme(
            "nvme1n1",
            "S2",
            at="/sys/devices/pci0000:5e/0000:5e:00.1/nvme/nvme1",
            number="259:1",
            wwid="eui.2",
            size=1_000 * 2**30,
        ),
        disk("sda", rotational=True, of_device={"wwid": "naa.5"}, number="8:0"),
        mounts(("/", "259:0", "xfs", "/dev/nvme0n1")),
        routes(),
    )


def serial() -> Recording:
    """A machine with a serial port on the mainboard and three USB adapters."""
    properties: dict[str, dict[str, str]] = {}
    tree = Tree()
    for name, bus in (("ttyS0", "pci"), ("ttyUSB0", "usb"), ("ttyUSB1", "usb"), ("ttyACM0", "usb")):
        path = f"/sys/devices/platform/{name}/tty/{name}"
        tree.attributes(path, {"uevent": f"DEVNAME={name}\n"})
        tree.link(f"{path}/subsystem", "/sys/class/tty")
        tree.link(f"/sys/class/tty/{name}", path)
        properties[path] = {"ID_BUS": bus}
    return merge(bare(), tree.recording(properties))


def working() -> Recording:
    """A machine with two of each kind of device: one works, and one does not."""
    tree = Tree()
    for name, state in (("nvme0", "live"), ("nvme1", "dead")):
        path = f"/sys/devices/pci0000:5e/0000:5e:00.{name[-1]}/nvme/{name}"
        tree.attributes(path, {"uevent": "", "state": f"{state}\n"})
        tree.link(f"{path}/subsystem", "/sys/class/nvme")
        tree.link(f"/sys/class/nvme/{name}", path)
    for name, state, link in (
        ("mlx0", "4: ACTIVE", "InfiniBand"),
        ("mlx1", "1: DOWN", "InfiniBand"),
        ("irdma0", "4: ACTIVE", "Ethernet"),
    ):
        tree.attributes(f"/sys/class/infiniband/{name}/ports/1", {"state": f"{state}\n", "link_layer": f"{link}\n"})
        tree.link(f"/sys/class/infiniband/{name}/subsystem", "/sys/class/infiniband")
    at = "/sys/devices/pci0000:3b/host{0}/port-{0}:0/end_device-{0}:0/target{0}:0:0/{0}:0:0:0"
    return merge(
        bare(),
        tree.recording(),
        disk("sda", at.format(0), number="8:0", of_device={"wwid": "naa.5", "state": "running"}),
        disk("sdb", at.format(1), number="8:16", of_device={"wwid": "naa.6", "state": "offline"}),
        pci_function("0000:03:00.0", "10de", "1cb3", "030000", attributes={"current_link_width": "16\n"}),
        pci_function("0000:04:00.0", "10de", "2330", "030200", attributes={"current_link_width": "4\n"}),
        pci_nic("eth0", "0000:01:00.0", number=2),
        pci_nic("eth2", "0000:01:00.1", operstate="down", number=3),
        mounts(("/", "0:2", "rootfs", "rootfs")),
        routes("eth0"),
    )


def confidential_vms() -> Recording:
    """A machine with a file that contains how many confidential VMs the processor can run."""
    capacity = {"/sys/fs/cgroup/misc.capacity": "tdx 31\nsev 10\nsev_es 5\n"}
    return merge(bare(), files(capacity))


def mounted() -> Recording:
    """A machine with a file system of 1,000 GiB at /srv/data, and another elsewhere."""
    gib = {"/": 20 * 2**30, "/srv/data": 1_000 * 2**30, "/srv/other": 50 * 2**30}
    points = [(point, f"8:{n}", "xfs", f"/dev/sda{n}") for n, point in enumerate(gib, 1)]
    return merge(bare(), {"filesystem_sizes": gib}, mounts(*points))


RECORDED = {Path(path).stem: recording for path, recording in recordings().items() if path.startswith("machines/")}
MADE_UP = {
    "cards": cards(),
    "dongles": dongles(),
    "files": confidential_vms(),
    "mounted": mounted(),
    "serial": serial(),
    "working": working(),
}
ALL = {**RECORDED, **MADE_UP}

# The expected answer of each recipe on each machine. On other machines the hardware is absent.
TRUTH: dict[str, dict[str, int]] = {
    "dongle": {"dongles": 12, "adapters": 3},  # four with three slots each; one has no serial number
    "gpu": {"gpus": 4, "cards": 1, "working": 2},
    "nic-mbps": {"network": 90_000, "working": 9_000},  # less a tenth
    # (3840755982336 + 3840755982336) / 2^30 * 0.9, and 1000 GiB * 0.9: without the system's disk and the small disk
    "scratch-gib": {"storage": 6438, "cards": 900, "cloud": 1571},  # cloud: the two local disks, less a tenth
    "data-gib": {"mounted": 900},  # less a tenth
    "iops": {"storage": 200_000, "cards": 100_000},  # two disks, and one
    "vf": {"network": 2},
    "address": {"virtual": 254 - 1 - 15},
    "serial-port": {"serial": 3},
    "fpga": {"cards": 2},  # counts cards, not functions
    "licensed-core": {**dict.fromkeys(ALL, 2), "gpus": 64, "cloud": 16},
    "swap-mib": {"storage": 8191},  # a partition of 8 GiB, less a page
    **{recipe: {"working": 1} for recipe in ("infiniband-up", "nvme-live", "gpu-x16", "disk-running")},
    "port-up": {"network": 3, "working": 1},
    "tdx-vm": {"files": 31},
    "sev-vm": {"files": 15},
}
UNKNOWN = {  # (recipe, machine) -> why the quantity is unknown
    **{
        (recipe, machine): "reports no link modes"
        for recipe in ("port-10g", "port-up", "nic-mbps")
        for machine in ("virtual", "cloud")
    },
    **{
        (recipe, machine): "is not part of the recording"
        for recipe in ("tdx-vm", "sev-vm")
        for machine in {*ALL} - {"files"}
    },
}


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Resource]:
    """All recipes, loaded from one file."""
    path = tmp_path_factory.mktemp("needs") / "needs.toml"
    path.write_text("\n".join(BLOCKS))
    return {resource.name.partition("/")[2]: resource for resource in load(str(path)).require().resources}


def test_every_recipe_has_an_expected_answer(resources: dict[str, Resource]) -> None:
    assert resources.keys() == TRUTH.keys()


@pytest.mark.parametrize("recipe", TRUTH)
@pytest.mark.parametrize("machine", ALL)
def test_each_recipe_has_the_right_quantity_on_each_machine(
    resources: dict[str, Resource], machine: str, recipe: str
) -> None:
    reading = read_resource(resources[recipe], RecordedHost(ALL[machine]), "n1")
    if (recipe, machine) in UNKNOWN:
        assert isinstance(reading, Unknown)
        assert UNKNOWN[recipe, machine] in reading.reason
    elif machine in TRUTH[recipe]:
        assert isinstance(reading, Quantity), reading
        assert reading.value == TRUTH[recipe][machine], reading
    else:
        assert isinstance(reading, Absent), reading
