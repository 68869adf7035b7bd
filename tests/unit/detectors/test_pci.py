"""Which PCI functions count, and what their keys are."""

from __future__ import annotations

import pytest

from capacityd.model.reading import Absent, Reading, Unknown
from tests.support.machines import Recording, errors, machine, merge, pci_function, pci_path
from tests.support.readings import counted, quantity, read, values

CARD = pci_function("0000:3b:00.0", "15b3", "1017", "020000", "mlx5_core", ("15b3", "0020"), vfs=(64, 2))
VFS = [
    pci_function(f"0000:3b:00.{n}", "15b3", "1018", "020000", "mlx5_core", ("15b3", "0020"), physfn="0000:3b:00.0")
    for n in (1, 2)
]
GPU = pci_function("0000:af:00.0")
SOUND = pci_function("0000:af:00.1", "10de", "22be", "040300", "snd_hda_intel")
NO_DRIVER = pci_function("0000:d8:00.0", "8086", "0b60", "088000", None)
BMC_VGA = pci_function("0000:03:00.0", "102b", "0536", "030000", "mgag200", attributes={"boot_vga": "1\n"})
ACCELERATOR = pci_function("0000:0b:00.0", "1002", "74a1", "120000", "amdgpu")
PASSED_THROUGH = pci_function("0000:65:00.0", driver="vfio-pci")
BEHIND_VMD = pci_function("10000:01:00.0", "8086", "0a54", "010802", "nvme")
HOST = machine(CARD, *VFS, GPU, SOUND, NO_DRIVER)
CARDS = machine(GPU, BMC_VGA, ACCELERATOR, PASSED_THROUGH, BEHIND_VMD)


@pytest.mark.parametrize(
    ("keys", "functions"),
    [
        ({"vendor": "15b3"}, ["0000:3b:00.0"]),
        ({"vendor": "15b3", "vf": True}, ["0000:3b:00.1", "0000:3b:00.2"]),
        ({"vendor": "10DE", "device": "20b5"}, ["0000:af:00.0"]),
        ({"subsystem_vendor": "15b3", "subsystem_device": "0020"}, ["0000:3b:00.0"]),
        *(({"class": written}, ["0000:af:00.0"]) for written in ("03", "0302", "030200", "0x0302")),
        ({"class": ["04", "02"]}, ["0000:3b:00.0", "0000:af:00.1"]),
        ({"driver": "mlx5*"}, ["0000:3b:00.0"]),
        ({"driver": ""}, ["0000:d8:00.0"]),
        ({"address": "0000:AF:*"}, ["0000:af:00.0", "0000:af:00.1"]),
        ({"sriov_totalvfs": ">=1"}, ["0000:3b:00.0"]),
        ({"vendor": "ffff"}, []),
    ],
)
def test_matches(keys: dict[str, object], functions: list[str]) -> None:
    assert counted(HOST, "pci", keys) == functions


@pytest.mark.parametrize(
    ("keys", "excepts", "functions"),
    [
        ({"class": ["03", "12"], "vendor": "1002"}, {}, ["0000:0b:00.0"]),
        ({"class": "03"}, {"attributes.boot_vga": "1"}, ["0000:65:00.0", "0000:af:00.0"]),
        ({"class": "03"}, {"driver": "vfio-pci"}, ["0000:03:00.0", "0000:af:00.0"]),  # a virtual machine has it
        ({"address": "10000:*"}, {}, ["10000:01:00.0"]),
        ({"address": "*.0", "class": "01"}, {}, ["10000:01:00.0"]),
    ],
)
def test_matches_cards_by_what_they_are_for(
    keys: dict[str, object], excepts: dict[str, object], functions: list[str]
) -> None:
    assert counted(CARDS, "pci", keys, excepts=(excepts,) if excepts else ()) == functions


def test_measures_the_virtual_functions_that_are_supported_and_configured() -> None:
    assert quantity(HOST, "pci", {"vendor": "15b3"}, measure="sriov_totalvfs") == 64
    assert quantity(HOST, "pci", {"vendor": "15b3"}, measure="sriov_numvfs") == 2


@pytest.mark.parametrize("function", [GPU, pci_function(vfs=(64, 0))])
def test_no_virtual_functions_are_0_and_not_absent(function: Recording) -> None:
    assert quantity(machine(function), "pci", measure="sriov_numvfs") == 0


def test_a_function_that_disappeared_has_no_values() -> None:
    world = pci_function(vfs=(8, 2))
    world["files"] = {"/sys/devices/system/x": "", f"{pci_path('0000:3b:00.0')}/uevent": ""}
    for key in ("vendor", "class", "vf", "sriov_totalvfs", "sriov_numvfs"):
        assert values(machine(world), "pci", key) == {"0000:3b:00.0": None}


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "9" * 30])
def test_a_measure_that_is_not_a_number_is_unknown(text: str) -> None:
    reading = read(machine(pci_function(attributes={"sriov_numvfs": f"{text}\n"})), "pci", measure="sriov_numvfs")
    assert isinstance(reading, Unknown)
    assert "not a whole number" in reading.reason


def test_without_a_driver_it_is_absent_until_a_later_pass() -> None:
    assert isinstance(read(machine(pci_function(driver=None)), "pci", {"driver": "nvidia"}), Absent)
    assert counted(machine(pci_function(driver="nvidia")), "pci", {"driver": "nvidia"}) == ["0000:3b:00.0"]


@pytest.mark.parametrize("place", ["vendor", "class", "driver", "physfn"])
def test_what_could_not_be_read_makes_the_resource_unknown(place: str) -> None:
    host = machine(pci_function(), errors({f"{pci_path('0000:3b:00.0')}/{place}": "EIO"}))
    assert isinstance(read(host, "pci", {"vendor": "10de", "class": "03", "driver": "*"}), Unknown)


@pytest.mark.parametrize(
    ("tests", "outcome"),
    [({}, Unknown), ({"vf": True}, Unknown), ({"vendor": "8086"}, Absent), ({"class": "02"}, Absent)],
)
def test_a_link_of_a_virtual_function_to_nowhere_is_unknown_unless_something_else_decides(
    tests: dict[str, object], outcome: type[Reading]
) -> None:
    """It is no physical function for that: only a virtual one has such a link."""
    links = {f"{pci_path('0000:af:00.0')}/physfn": "../0000:af:00.7"}
    reading = read(machine(merge(GPU, {"links": links})), "pci", tests)
    assert isinstance(reading, outcome)
    if isinstance(reading, Unknown):
        assert reading.reason == "0000:af:00.0: vf: /sys/bus/pci/devices/0000:af:00.0/physfn leads nowhere"


def test_a_driver_link_to_nowhere_is_unknown_and_not_missing() -> None:
    host = machine(merge(GPU, {"links": {f"{pci_path('0000:af:00.0')}/driver": "../../../bus/pci/drivers/gone"}}))
    for driver in ("", "nvidia"):
        reading = read(host, "pci", {"driver": driver})
        assert isinstance(reading, Unknown)
        assert reading.reason == "0000:af:00.0: driver: /sys/bus/pci/devices/0000:af:00.0/driver leads nowhere"
