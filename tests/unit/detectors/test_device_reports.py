"""USB, PCI and udev devices as people reported them to similar tools. tests/reports.md lists the reports."""

from __future__ import annotations

import pytest

from capacityd.model.reading import Absent
from tests.support.machines import Recording, files, machine, merge, pci_function, pci_path, usb_device
from tests.support.readings import counted, outcome, read

# One device at the same port, before and after a boot that numbered the controllers in another order.
ID_PATH = {"ID_PATH": "pci-0000:00:14.0-usb-0:1.4"}
BEFORE = [
    usb_device("1-1.4", properties=ID_PATH),
    usb_device("3-1.4", properties={"ID_PATH": "pci-0000:07:00.0-usb-0:1.4"}),
]
AFTER = [
    usb_device("3-1.4", properties=ID_PATH),
    usb_device("1-1.4", properties={"ID_PATH": "pci-0000:07:00.0-usb-0:1.4"}),
]
# The two halves of a USB 3 port are on two buses.
HALVES = [
    usb_device("1-9", "046d", properties={"ID_PATH": "x-usb-0:9"}),
    usb_device("2-9", "05c8", properties={"ID_PATH": "x-usb-0:9"}),
]
FIRMWARE, LOADED = {"vendor": "1a6e", "product": "089a"}, {"vendor": "18d1", "product": "9302"}
DEAD = pci_function("0000:af:00.0", attributes={"current_link_width": "63\n", "current_link_speed": "Unknown\n"})
ALIVE = pci_function(
    "0000:b0:00.0", attributes={"current_link_width": "16\n", "current_link_speed": "16.0 GT/s PCIe\n"}
)


@pytest.mark.parametrize(
    ("parts", "detector", "tables", "devices"),
    [
        (BEFORE, "usb", [{"properties.ID_PATH": ID_PATH["ID_PATH"]}], ["1-1.4"]),
        (AFTER, "usb", [{"properties.ID_PATH": ID_PATH["ID_PATH"]}], ["3-1.4"]),
        (HALVES, "usb", [{"properties.ID_PATH": "x-usb-0:9"}], ["1-9", "2-9"]),
        (HALVES, "usb", [{"properties.ID_PATH": "x-usb-0:9", "vendor": "046d"}], ["1-9"]),
        (HALVES, "usb", [{"port": "2-9"}], ["2-9"]),
        ([usb_device("2-1", "1a6e", "089a")], "usb", [FIRMWARE, LOADED], ["2-1"]),
        ([usb_device("2-1", "18d1", "9302")], "usb", [FIRMWARE, LOADED], ["2-1"]),
        (
            [pci_function("10001:8a:00.0", "1344", "51c0", "010802", "nvme")],
            "pci",
            [{"address": "10001:8A:*"}],
            ["10001:8a:00.0"],
        ),
        ([DEAD, ALIVE], "pci", [{"class": "03"}], ["0000:af:00.0", "0000:b0:00.0"]),
        ([DEAD, ALIVE], "pci", [{"class": "03", "attributes.current_link_width": "16"}], ["0000:b0:00.0"]),
        # A physical function without an interface, because its driver is vfio-pci.
        (
            [pci_function("0000:81:00.1", "8086", "1528", "020000", "vfio-pci")],
            "pci",
            [{"driver": "vfio-pci"}],
            ["0000:81:00.1"],
        ),
    ],
)
def test_reported_devices(
    parts: list[Recording], detector: str, tables: list[dict[str, str]], devices: list[str]
) -> None:
    assert counted(machine(*parts), detector, *tables) == devices


VGPU = merge(
    pci_function(),
    {"links": {"/sys/class/mdev_bus/0000:3b:00.0": pci_path("0000:3b:00.0")}},
    files({f"{pci_path('0000:3b:00.0')}/mdev_supported_types/nvidia-222/available_instances": "16\n"}),
)


def test_a_class_that_only_lists_the_devices_of_another_subsystem() -> None:
    reading = read(machine(VGPU), "udev", {"subsystem": "mdev_bus"})
    assert isinstance(reading, Absent)
    assert reading.reason.endswith(
        "no udev mdev_bus device; /sys/class/mdev_bus lists devices of pci: write that subsystem"
    )
    assert outcome(read(machine(), "udev", {"subsystem": "mdev_bus"})) == "absent"
    types = "attributes.mdev_supported_types/nvidia-222/available_instances"
    assert outcome(read(machine(VGPU), "udev", {"subsystem": "pci", types: "?*"}, measure=types)) == 16
