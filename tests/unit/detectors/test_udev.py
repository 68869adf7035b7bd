"""Devices of any subsystem: which are listed, and the values of their keys."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from capacityd.cli.inventory.found import find
from capacityd.model.reading import Absent, Unknown
from tests.support.machines import Recording, errors, files, machine
from tests.support.readings import counted, device_detector, quantity, read, values
from tests.support.trees import Tree

TTY = {"subsystem": "tty"}


def node(
    name: str = "ttyUSB0",
    driver: str | None = None,
    properties: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
    subsystem: str = "tty",
) -> Recording:
    """A serial port, or another device of a class whose devices have a node in /dev."""
    path, tree = f"/sys/devices/platform/serial/{subsystem}/{name}", Tree()
    tree.attributes(path, {"uevent": f"MAJOR=188\nMINOR=0\nDEVNAME={name}\n", **(attributes or {})})
    tree.link(f"{path}/subsystem", f"/sys/class/{subsystem}")
    tree.link(f"/sys/class/{subsystem}/{name}", path)
    if driver:
        tree.link(f"{path}/driver", f"/sys/bus/usb-serial/drivers/{driver}")
        tree.attributes(f"/sys/bus/usb-serial/drivers/{driver}", {"uevent": ""})
    return tree.recording({path: properties} if properties else {})


def fpga(name: str, devtype: str) -> Recording:
    """A device on the bus dfl, which has no node in /dev."""
    tree = Tree()
    tree.device(f"/sys/devices/platform/{name}", "dfl", None, [f"DEVTYPE={devtype}"])
    return tree.recording()


USB = {
    "ID_BUS": "usb",
    "TAGS": ":systemd:old:",
    "CURRENT_TAGS": ":systemd:",
    "DEVLINKS": "/dev/serial/by-id/usb-FTDI_x /dev/serial/by-path/y",
}
HOST = machine(
    node("ttyS0", "serial8250", attributes={"type": "4\n"}),
    node("ttyS1", "serial8250", attributes={"type": "0\n"}),  # the kernel reserves ports without a chip: 8250.nr_uarts
    node("ttyUSB0", "ftdi_sio", properties=USB),
    node("ttyUSB1", properties={"TAGS": ":old:"}),
    fpga("dfl_dev.0", devtype="afu"),
    fpga("dfl_dev.1", devtype="fme"),
    files({"/sys/class/tty/version": "tty 1.0\n"}),  # an attribute of the class
)


@pytest.mark.parametrize(
    ("keys", "devices"),
    [
        (TTY, ["ttyS0", "ttyS1", "ttyUSB0", "ttyUSB1"]),
        ({"subsystem": "dfl"}, ["dfl_dev.0", "dfl_dev.1"]),
        ({"subsystem": ["dfl", "tty"], "name": "*0"}, ["dfl_dev.0", "ttyS0", "ttyUSB0"]),
        ({"subsystem": "dfl", "devtype": "afu"}, ["dfl_dev.0"]),
        ({**TTY, "devtype": "", "name": "ttyU*"}, ["ttyUSB0", "ttyUSB1"]),
        ({**TTY, "driver": "ftdi*"}, ["ttyUSB0"]),
        ({**TTY, "node": "/dev/ttyUSB*"}, ["ttyUSB0", "ttyUSB1"]),
        ({**TTY, "link": "/dev/serial/by-id/usb-FTDI_*"}, ["ttyUSB0"]),
        ({**TTY, "properties.ID_BUS": "usb"}, ["ttyUSB0"]),
        ({**TTY, "attributes.type": "[1-9]*"}, ["ttyS0"]),
        ({**TTY, "tag": "systemd"}, ["ttyUSB0"]),
        ({**TTY, "tag": "old"}, []),  # a tag of an earlier event
        ({"subsystem": "nowhere"}, []),
    ],
)
def test_each_key_matches_its_devices(keys: dict[str, object], devices: list[str]) -> None:
    assert counted(HOST, "udev", keys) == devices


def test_all_subsystems_are_enumerated_for_the_command_devices() -> None:
    by_device = values(HOST, "udev", "subsystem")
    assert (by_device["ttyS0"], by_device["dfl_dev.0"]) == ("tty", "dfl")
    assert "version" not in by_device


def test_missing_values_are_empty_and_several_values_sorted() -> None:
    several = {"CURRENT_TAGS": ":uaccess:a:\udce9:seat:", "DEVLINKS": "/dev/b /dev/\x1b[2J /dev/a"}
    host = machine(fpga("dfl_dev.0", devtype="afu"), node("ttyA", properties=several))
    assert values(host, "udev", "node") == {"dfl_dev.0": None, "ttyA": "/dev/ttyA"}
    assert values(host, "udev", "tag") == {"dfl_dev.0": (), "ttyA": (r"\xe9", "a", "seat", "uaccess")}
    assert values(host, "udev", "link") == {"dfl_dev.0": (), "ttyA": (r"/dev/\x1b[2J", "/dev/a", "/dev/b")}


def test_only_the_named_subsystems_are_enumerated() -> None:
    broken = machine(node(), errors({"/sys/class/net": "EIO", "/sys/class/dfl": "EIO"}))
    assert counted(broken, "udev", TTY) == ["ttyUSB0"]
    assert isinstance(read(broken, "udev", {"subsystem": "dfl"}), Unknown)
    no_device = "the machine has no udev input device"
    hint = "; the kernel has no subsystem input: is its name right, and its module loaded?"
    assert read(broken, "udev", {"subsystem": "input"}) == Absent(no_device + hint)
    assert read(machine({"folders": ["/sys/class/input"]}), "udev", {"subsystem": "input"}) == Absent(no_device)


def test_any_numeric_attribute_or_property_is_a_measure() -> None:
    host = machine(
        node("ttyA", attributes={"memory": "64\n", "size": "0x10\n"}, properties={"LANES": "2"}),
        node("ttyB", attributes={"memory": " 16 \n", "size": "many\n"}, properties={"LANES": "4"}),
    )
    assert quantity(host, "udev", TTY, measure="attributes.memory") == 80
    assert quantity(host, "udev", TTY, measure="properties.LANES") == 6
    assert isinstance(read(host, "udev", TTY, measure="attributes.size"), Unknown)
    assert quantity(host, "udev", TTY, measure="attributes.size", fallback=7) == 14


SERIAL = "/sys/devices/platform/serial/tty/ttyUSB0"


@pytest.mark.parametrize(
    "broken",
    [
        {"links": {f"{SERIAL}/subsystem": "../gone"}},
        {"links": {f"{SERIAL}/subsystem": "subsystem"}},
        {"links": {"/sys/class/tty/ttyUSB0": "../gone"}},
        errors({f"{SERIAL}/subsystem": "EIO"}),
    ],
    ids=["dangling", "loop", "gone", "EIO"],
)
def test_a_device_whose_subsystem_cannot_be_read_may_count(broken: Recording) -> None:
    host = machine(node("ttyS0"), node("ttyUSB0"), fpga("dfl_dev.0", devtype="afu"), broken)
    assert isinstance(read(host, "udev", TTY), Unknown)
    assert counted(host, "udev", {**TTY, "name": "ttyS*"}) == ["ttyS0"]
    assert counted(host, "udev", {"subsystem": "dfl"}) == ["dfl_dev.0"]
    assert "ttyUSB0" in values(host, "udev", "subsystem")


def test_a_subsystem_that_cannot_be_listed_is_unknown_and_the_others_are_not() -> None:
    host = machine(node(), fpga("dfl_dev.0", devtype="afu"), errors({"/sys/class/tty": "EACCES"}))
    assert isinstance(read(host, "udev", TTY), Unknown)
    found = find(host, device_detector("udev"))
    assert "dfl_dev.0" in [device.name for device in found.devices]
    assert found.error == "/sys/class/tty could not be read: Permission denied"


def test_another_name_of_a_subsystem_has_no_devices_of_its_own() -> None:
    """The class i2c-adapter contains only links to devices of the bus i2c (class_compat_register() in the kernel)."""
    alias = {"links": {"/sys/class/dfl-alias/dfl_dev.0": "../../devices/platform/dfl_dev.0"}}
    found = find(machine(fpga("dfl_dev.0", devtype="afu"), alias), device_detector("udev"))
    assert [device.name for device in found.devices].count("dfl_dev.0") == 1
