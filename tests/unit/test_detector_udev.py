"""What facts of devices in general the detector must know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from capacityd.config import load as load_config
from capacityd.model import Absent, Quantity, Unknown
from tests.unit.looking import counted, look, values
from tests.unit.machines import Recording, errors, files, machine
from tests.unit.trees import Tree

TTY = {"subsystem": "tty"}


def tty(
    name: str = "ttyUSB0",
    driver: str | None = None,
    properties: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Recording:
    """A serial port, as a class has devices."""
    path, tree = f"/sys/devices/platform/serial/tty/{name}", Tree()
    tree.attributes(path, {"uevent": f"MAJOR=188\nMINOR=0\nDEVNAME={name}\n", **(attributes or {})})
    tree.link(f"{path}/subsystem", "/sys/class/tty")
    tree.link(f"/sys/class/tty/{name}", path)
    if driver:
        tree.link(f"{path}/driver", f"/sys/bus/usb-serial/drivers/{driver}")
        tree.attributes(f"/sys/bus/usb-serial/drivers/{driver}", {"uevent": ""})
    return tree.recording({path: properties} if properties else {})


def on_bus(name: str, devtype: str) -> Recording:
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
    tty("ttyS0"),
    tty("ttyUSB0", "ftdi_sio", USB),
    tty("ttyUSB1", None, {"TAGS": ":old:"}),
    on_bus("dfl_dev.0", "afu"),
    on_bus("dfl_dev.1", "fme"),
    files({"/sys/class/tty/version": "tty 1.0\n"}),
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (TTY, ["ttyS0", "ttyUSB0", "ttyUSB1"]),
        ({"subsystem": "dfl"}, ["dfl_dev.0", "dfl_dev.1"]),
        ({"subsystem": ["dfl", "tty"], "name": "*0"}, ["dfl_dev.0", "ttyS0", "ttyUSB0"]),
        ({"subsystem": "dfl", "devtype": "afu"}, ["dfl_dev.0"]),
        ({**TTY, "devtype": ""}, ["ttyS0", "ttyUSB0", "ttyUSB1"]),
        ({**TTY, "driver": "ftdi*"}, ["ttyUSB0"]),
        ({**TTY, "node": "/dev/ttyUSB*"}, ["ttyUSB0", "ttyUSB1"]),
        ({**TTY, "link": "/dev/serial/by-id/usb-FTDI_*"}, ["ttyUSB0"]),
        ({**TTY, "properties.ID_BUS": "usb"}, ["ttyUSB0"]),
        ({"subsystem": "nowhere"}, []),
    ],
)
def test_matches(asked: dict[str, object], found: list[str]) -> None:
    assert counted(HOST, "udev", asked) == found


def test_a_tag_is_one_of_the_last_event_not_an_old_one() -> None:
    """Before systemd 247 there was no telling."""
    assert counted(HOST, "udev", {**TTY, "tag": "systemd"}) == ["ttyUSB0"]
    assert counted(HOST, "udev", {**TTY, "tag": "old"}) == ["ttyUSB1"]


def test_serial_ports_that_the_kernel_only_keeps_room_for_have_no_type() -> None:
    """8250.nr_uarts: 4 to 32 of them, with or without a chip; Documentation/ABI/testing/sysfs-tty."""
    ports = [tty(f"ttyS{n}", "serial8250", attributes={"type": "4\n" if n == 0 else "0\n"}) for n in range(4)]
    host = machine(*ports, tty("ttyAMA0", "uart-pl011", attributes={"type": "32\n"}))
    chips = counted(host, "udev", {**TTY, "name": ["ttyS*", "ttyAMA*"]}, excepts=({"attributes.type": "0"},))
    assert chips == ["ttyAMA0", "ttyS0"]


def test_buses_have_devices_as_classes_have() -> None:
    found = values(HOST, "udev", "subsystem")
    assert (found["ttyS0"], found["dfl_dev.0"]) == ("tty", "dfl")
    assert counted(HOST, "udev", {"subsystem": ["tty", "dfl"]})[:3] == ["dfl_dev.0", "dfl_dev.1", "ttyS0"]


def test_what_there_is_none_of_is_missing_and_what_there_is_much_of_is_in_order() -> None:
    several = {"CURRENT_TAGS": ":uaccess:a:systemd:seat:", "DEVLINKS": "/dev/b /dev/a"}
    host = machine(on_bus("dfl_dev.0", "afu"), tty("ttyA", None, several))
    assert values(host, "udev", "node") == {"dfl_dev.0": None, "ttyA": "/dev/ttyA"}
    assert values(host, "udev", "tag") == {"dfl_dev.0": (), "ttyA": ("a", "seat", "systemd", "uaccess")}
    assert values(host, "udev", "link") == {"dfl_dev.0": (), "ttyA": ("/dev/a", "/dev/b")}


def test_an_attribute_of_the_class_is_no_device() -> None:
    assert "version" not in values(HOST, "udev", "name")


def test_only_what_is_named_is_looked_at() -> None:
    """Another subsystem that can't be read is no reason to know nothing."""
    broken = machine(tty(), errors({"/sys/class/net": "EIO", "/sys/class/dfl": "EIO"}))
    assert counted(broken, "udev", TTY) == ["ttyUSB0"]
    assert isinstance(look(broken, "udev", {"subsystem": "dfl"}), Unknown)
    reading = look(broken, "udev", {"subsystem": "input"})
    assert isinstance(reading, Absent)
    assert "udev input" in reading.reason


def test_a_number_of_any_attribute_or_property_is_a_measure() -> None:
    host = machine(
        tty("ttyA", attributes={"memory": "64\n"}, properties={"LANES": "2"}),
        tty("ttyB", attributes={"memory": " 16 \n"}, properties={"LANES": "4"}),
    )
    for measure, value in (("attributes.memory", 80), ("properties.LANES", 6)):
        reading = look(host, "udev", TTY, measure=measure)
        assert isinstance(reading, Quantity)
        assert reading.value == value


@pytest.mark.parametrize("said", ["", "-1", "many", "0x10", "1.5", "9" * 30, "٣"])
def test_what_is_no_number_is_unknown_unless_there_is_a_fallback(said: str) -> None:
    host = machine(tty(attributes={"memory": f"{said}\n"}))
    assert isinstance(look(host, "udev", TTY, measure="attributes.memory"), Unknown)
    reading = look(host, "udev", TTY, measure="attributes.memory", fallback=7)
    assert isinstance(reading, Quantity)
    assert reading.value == 7


@pytest.mark.parametrize(
    ("place", "asked"), [("subsystem", {}), ("driver", {"driver": "x*"}), ("uevent", {"node": "/dev/x"})]
)
def test_what_cannot_be_read_is_unknown(place: str, asked: dict[str, object]) -> None:
    path = f"/sys/devices/platform/serial/tty/ttyUSB0/{place}"
    assert isinstance(look(machine(tty(), errors({path: "EIO"})), "udev", {**TTY, **asked}), Unknown)


def test_hostile_words_come_out_printable() -> None:
    host = machine(tty(properties={"DEVLINKS": "/dev/\x1b[2J /dev/y", "CURRENT_TAGS": ":\udce9:"}))
    assert values(host, "udev", "link") == {"ttyUSB0": ("/dev/\\x1b[2J", "/dev/y")}
    assert values(host, "udev", "tag") == {"ttyUSB0": ("\\xe9",)}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("udev = {}", "subsystem: is missing; it is needed"),
        ('udev = [{ subsystem = "tty" }, { name = "x" }]', "subsystem: is missing; it is needed"),
        ('udev = { subsystem = "tty*" }', "must be a whole name"),
        ('udev = { subsystem = "" }', "must be a whole name"),
        ('udev = { subsystem = "../bus/usb" }', "must be a whole name"),
        ('udev = { subsystem = "tty" }\nmeasure = "speed"', "it has count, attributes.NAME, properties.NAME"),
        ('udev = { subsystem = "tty" }\nmeasure = "attributes.vpd"', '"attributes.vpd" can\'t be asked for'),
        ('udev = { subsystem = "tty" }\nmeasure = "attributes"', '"attributes" is nothing that udev measures'),
        ('udev = { subsystem = "tty" }\nmeasure = "other.x"', '"other.x" is nothing that udev measures'),
        ('udev = { subsystem = "tty" }\nmeasure = "properties.a=b"', '"properties.a=b" is no name of a property'),
        ('udev = { subsystem = "tty" }\nmeasure = "attributes.x"\nunit = "GiB"', "plain number"),
        ('udev = { subsystem = "tty" }\nmeasure = "attributes.x"\nfallback = "x"', "fallback"),
    ],
)
def test_mistakes(tmp_path: Path, written: str, expected: str) -> None:
    (tmp_path / "x.toml").write_text(f'[resources."example.com/x"]\n{written}\n')
    (problem,) = load_config(str(tmp_path / "x.toml")).problems
    assert expected in str(problem)


HARMFUL = "vpd vpd_pg80 rom config resource resource0_wc eeprom remove delete rescan bus_rescan reset below/it/reset"


@pytest.mark.parametrize("name", HARMFUL.split())
def test_what_harms_is_not_asked_for(tmp_path: Path, name: str) -> None:
    written = f'udev = {{ subsystem = "tty", attributes = {{ "{name}" = "x" }} }}'
    (tmp_path / "x.toml").write_text(f'[resources."example.com/x"]\n{written}\n')
    (problem,) = load_config(str(tmp_path / "x.toml")).problems
    assert problem.key.strip('"') == name
    assert problem.message.startswith("can't be asked for: reading it ")


def test_what_is_excepted_need_not_name_a_subsystem(tmp_path: Path) -> None:
    written = 'udev = { subsystem = "tty" }\nexcept = { name = "ttyS*" }\nmeasure = "properties.LANES"\nfallback = 2'
    (tmp_path / "x.toml").write_text(f'[resources."example.com/x"]\n{written}\n')
    (resource,) = load_config(str(tmp_path / "x.toml")).require().resources
    assert (resource.measure, resource.fallback, resource.unit) == ("properties.LANES", 2, None)
    assert resource.named("subsystem") == ("tty",)
