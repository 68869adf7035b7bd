"""USB, PCI and udev devices that people reported to similar tools. tests/reports.md lists the reports."""

from __future__ import annotations

import pytest

from capacityd.model.reading import Absent
from tests.support.machines import Recording, errors, files, machine, merge, pci_function, pci_path, usb_device
from tests.support.readings import counted, outcome, read
from tests.unit.detectors.test_udev import node

# Two devices at the same ports, before and after a boot that numbered the controllers in another order.
ID_PATH = {"ID_PATH": "pci-0000:00:14.0-usb-0:1.4"}
OTHER_ID_PATH = {"ID_PATH": "pci-0000:07:00.0-usb-0:1.4"}
BEFORE = [usb_device("1-1.4", properties=ID_PATH), usb_device("3-1.4", properties=OTHER_ID_PATH)]
AFTER = [usb_device("3-1.4", properties=ID_PATH), usb_device("1-1.4", properties=OTHER_ID_PATH)]
# The two halves of a USB 3 port are on two buses.
PORT_9 = {"ID_PATH": "x-usb-0:9"}
HALVES = [usb_device("1-9", "046d", properties=PORT_9), usb_device("2-9", "05c8", properties=PORT_9)]
# The ids of an accelerator before and after its firmware is loaded.
UNLOADED, LOADED = {"vendor": "1a6e", "product": "089a"}, {"vendor": "18d1", "product": "9302"}
# A GPU that is lost from the bus, so that its link width reads 63, and one that works.
DEAD = pci_function("0000:af:00.0", attributes={"current_link_width": "63\n"})
ALIVE = pci_function("0000:b0:00.0", attributes={"current_link_width": "16\n"})
# A headset is a hub with two devices, all of one vendor.
HEADSET = [
    usb_device("1-1", "1532", "0f1a", device_class="090001", interfaces=[("090000", "hub")]),
    usb_device("1-1.1", "1532", "0f18", number=3),
    usb_device("1-1.2", "1532", "0f19", number=4),
]
# A GPU that is divided into virtual functions, and one that is not. Arguments: address, vendor, device, class, driver.
DIVIDED = [
    pci_function("0000:03:00.0", "8086", "56c0", "038000", "i915", vfs=(31, 2)),
    *(pci_function(f"0000:03:00.{n}", "8086", "56c0", "038000", "i915", physfn="0000:03:00.0") for n in (1, 2)),
]
WHOLE = pci_function("0000:04:00.0", "8086", "56c0", "038000", "i915", vfs=(31, 0))
# A GPU behind a switch on its card, whose upper port has the link to the machine.
SWITCHED = [
    pci_function("0000:01:00.0", "1002", "1478", "060400", "pcieport", attributes={"current_link_width": "8\n"}),
    pci_function("0000:03:00.0", "1002", "744c", "030000", "amdgpu", attributes={"current_link_width": "16\n"}),
]
UPPER_PORT = {"vendor": "1002", "device": "1478"}
# Two cards of the classes 0b40 and 02. Their virtual functions have the same driver, because DPDK uses them.
SHARED_DRIVER = [
    pci_function("0000:3d:01.0", "8086", "37c9", "0b4000", "vfio-pci", physfn="0000:3d:00.0"),
    pci_function("0000:3b:02.0", "8086", "154c", "020000", "vfio-pci", physfn="0000:3b:00.0"),
    pci_function("0000:3d:00.0", "8086", "37c8", "0b4000", "c6xx", vfs=(16, 1)),
    pci_function("0000:3b:00.0", "8086", "1572", "020000", "i40e", vfs=(64, 1)),
]
BEHIND_VMD = pci_function("10001:8a:00.0", "1344", "51c0", "010802", "nvme")
WITHOUT_INTERFACE = pci_function("0000:81:00.1", "8086", "1528", "020000", "vfio-pci")  # the driver creates none
# Two devices with the same serial number.
CLONES = [usb_device("1-1", "3346", serial="0123456789ABCDEF"), usb_device("1-2", "3346", serial="0123456789ABCDEF")]
CAMERA = [
    node("video0", properties={"ID_V4L_CAPABILITIES": ":capture:"}, subsystem="video4linux"),
    node("video1", properties={"ID_V4L_CAPABILITIES": ":"}, subsystem="video4linux"),  # the camera's metadata
]
BLUETOOTH = [
    node("hci0", attributes={"uevent": "DEVTYPE=host\n"}, subsystem="bluetooth"),
    node("hci0:1", attributes={"uevent": "DEVTYPE=link\n"}, subsystem="bluetooth"),  # a connection to a controller
]
# A camera has an infrared sensor, so it has two interfaces for video.
INFRARED = [usb_device("1-3", interfaces=[("0e0100", "uvcvideo"), ("0e0100", "uvcvideo")])]
TAPE = [node(name, subsystem="scsi_tape") for name in ("st0", "st0a", "nst0", "st10")]
# The ports of an adapter have the same link, which leads to the last one.
ONE_LINK = {"DEVLINKS": "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1"}
PORTS = [node("ttyUSB0", properties=ONE_LINK), node("ttyUSB1", properties=ONE_LINK)]
TAGGED = node("event4", properties={"CURRENT_TAGS": "uaccess:seat"}, subsystem="input")  # without colons at its ends


@pytest.mark.parametrize(
    ("parts", "detector", "tables", "devices"),  # the machine, what is configured, and the devices that count
    [
        (BEFORE, "usb", [{"properties.ID_PATH": ID_PATH["ID_PATH"]}], ["1-1.4"]),
        (AFTER, "usb", [{"properties.ID_PATH": ID_PATH["ID_PATH"]}], ["3-1.4"]),
        (HALVES, "usb", [{"properties.ID_PATH": "x-usb-0:9"}], ["1-9", "2-9"]),
        (HALVES, "usb", [{"properties.ID_PATH": "x-usb-0:9", "vendor": "046d"}], ["1-9"]),
        (HALVES, "usb", [{"port": "2-9"}], ["2-9"]),
        ([usb_device("2-1", "1a6e", "089a")], "usb", [UNLOADED, LOADED], ["2-1"]),
        ([usb_device("2-1", "18d1", "9302")], "usb", [UNLOADED, LOADED], ["2-1"]),
        ([BEHIND_VMD], "pci", [{"address": "10001:8A:*"}], ["10001:8a:00.0"]),
        ([DEAD, ALIVE], "pci", [{"class": "03"}], ["0000:af:00.0", "0000:b0:00.0"]),  # display controllers
        ([DEAD, ALIVE], "pci", [{"class": "03", "attributes.current_link_width": "16"}], ["0000:b0:00.0"]),
        ([WITHOUT_INTERFACE], "pci", [{"driver": "vfio-pci"}], ["0000:81:00.1"]),
        (HEADSET, "usb", [{"vendor": "1532"}], ["1-1.1", "1-1.2"]),
        (HEADSET, "usb", [{"vendor": "1532", "product": "0f19"}], ["1-1.2"]),
        ([*DIVIDED, WHOLE], "pci", [{"class": "03"}], ["0000:03:00.0", "0000:04:00.0"]),
        ([*DIVIDED, WHOLE], "pci", [{"class": "03", "vf": True}], ["0000:03:00.1", "0000:03:00.2"]),
        ([*DIVIDED, WHOLE], "pci", [{"class": "03", "sriov_numvfs": "0"}], ["0000:04:00.0"]),
        (SWITCHED, "pci", [{"class": "03", "attributes.current_link_width": "16"}], ["0000:03:00.0"]),
        (SWITCHED, "pci", [{**UPPER_PORT, "attributes.current_link_width": "16"}], []),
        (SWITCHED, "pci", [{**UPPER_PORT, "attributes.current_link_width": "8"}], ["0000:01:00.0"]),
        (SHARED_DRIVER, "pci", [{"class": "0b40", "vf": True, "driver": "vfio-pci"}], ["0000:3d:01.0"]),
        (SHARED_DRIVER, "pci", [{"vf": True, "driver": "vfio-pci"}], ["0000:3b:02.0", "0000:3d:01.0"]),
        (SHARED_DRIVER, "pci", [{"class": "0b40"}], ["0000:3d:00.0"]),
        (SHARED_DRIVER, "pci", [{"driver": "c62x"}], []),  # the module of the driver c6xx
        ([pci_function("0001:01:00.0", "8086", "4940")], "pci", [{"device": "4940"}], ["0001:01:00.0"]),
        ([usb_device("1-4", number=2)], "usb", [{"port": "1-4"}], ["1-4"]),
        ([usb_device("1-4", number=21)], "usb", [{"port": "1-4"}], ["1-4"]),  # after it was plugged in again
        ([], "usb", [{"vendor": "04f9"}], []),  # the device is on another machine now
        ([usb_device("1-4", "04f9")], "usb", [{"vendor": "04f9"}], ["1-4"]),
        (CLONES, "usb", [{"serial": "0123456789ABCDEF"}], ["1-1", "1-2"]),
        (CLONES, "usb", [{"serial": "0123456789ABCDEF", "port": "1-2"}], ["1-2"]),
        ([usb_device("1-1", serial="ELSD_")], "usb", [{"serial": "ELSD_"}], ["1-1"]),
        ([usb_device("1-1", "1050", "0407", serial=None)], "usb", [{"vendor": "1050", "serial": ""}], ["1-1"]),
        (CAMERA, "udev", [{"subsystem": "video4linux", "properties.ID_V4L_CAPABILITIES": "*:capture:*"}], ["video0"]),
        (BLUETOOTH, "udev", [{"subsystem": "bluetooth"}], ["hci0", "hci0:1"]),
        (BLUETOOTH, "udev", [{"subsystem": "bluetooth", "devtype": "host"}], ["hci0"]),
        (INFRARED, "usb", [{"class": "0e"}], ["1-3"]),
        (TAPE, "udev", [{"subsystem": "scsi_tape", "node": "/dev/st*[0-9]"}], ["st0", "st10"]),
        (PORTS, "udev", [{"subsystem": "tty", "link": "/dev/serial/by-path/*"}], ["ttyUSB0", "ttyUSB1"]),
        ([TAGGED], "udev", [{"subsystem": "input", "tag": "uaccess"}], ["event4"]),
        ([TAGGED], "udev", [{"subsystem": "input", "tag": "seat"}], ["event4"]),
    ],
)
def test_reported_devices_are_counted_by_their_keys(
    parts: list[Recording], detector: str, tables: list[dict[str, object]], devices: list[str]
) -> None:
    assert counted(machine(*parts), detector, *tables) == devices


def test_a_table_with_the_name_of_a_module_is_absent_and_the_drivers_name_is_shown() -> None:
    reading = read(machine(*SHARED_DRIVER), "pci", {"driver": "c62x"})
    assert isinstance(reading, Absent)
    assert 'driver is "c6xx"' in str(reading)


def test_a_lost_card_that_cannot_be_read_lowers_nothing() -> None:
    """The count is unknown, unless another key rules the card out."""
    link = f"{pci_path('0000:af:00.0')}/current_link_width"
    lost = machine(DEAD, ALIVE, errors({link: "EIO"}))
    assert outcome(read(lost, "pci", {"class": "03", "attributes.current_link_width": "16"})) == "unknown"
    assert counted(lost, "pci", {"address": "0000:b0:*", "attributes.current_link_width": "16"}) == ["0000:b0:00.0"]


VGPU = merge(
    pci_function(),
    {"links": {"/sys/class/mdev_bus/0000:3b:00.0": pci_path("0000:3b:00.0")}},
    files({f"{pci_path('0000:3b:00.0')}/mdev_supported_types/nvidia-222/available_instances": "16\n"}),
)


def test_a_class_that_only_lists_devices_of_another_subsystem_names_that_subsystem() -> None:
    reading = read(machine(VGPU), "udev", {"subsystem": "mdev_bus"})
    assert isinstance(reading, Absent)
    assert reading.reason.endswith(
        "no udev mdev_bus device; /sys/class/mdev_bus lists devices of pci: write that subsystem"
    )
    assert outcome(read(machine(), "udev", {"subsystem": "mdev_bus"})) == "absent"
    instances = "attributes.mdev_supported_types/nvidia-222/available_instances"
    assert outcome(read(machine(VGPU), "udev", {"subsystem": "pci", instances: "?*"}, measure=instances)) == 16
