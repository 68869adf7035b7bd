"""What facts of PCI the detector must know."""

from __future__ import annotations

import pytest

from capacityd.model import Absent, Quantity, Unknown
from tests.unit.looking import counted, look, values
from tests.unit.machines import errors, machine, pci_function, pci_path

CARD = pci_function("0000:3b:00.0", "15b3", "1017", "020000", "mlx5_core", ("15b3", "0020"), vfs=(64, 2))
VFS = [
    pci_function(f"0000:3b:00.{n}", "15b3", "1018", "020000", "mlx5_core", ("15b3", "0020"), physfn="0000:3b:00.0")
    for n in (1, 2)
]
GPU = pci_function("0000:af:00.0")
SOUND = pci_function("0000:af:00.1", "10de", "22be", "040300", "snd_hda_intel")
BARE = pci_function("0000:d8:00.0", "8086", "0b60", "088000", None)
HOST = machine(CARD, *VFS, GPU, SOUND, BARE)


def test_virtual_functions_do_not_multiply_the_count() -> None:
    assert counted(HOST, "pci", {"vendor": "15b3"}) == ["0000:3b:00.0"]
    assert counted(HOST, "pci", {"vendor": "15b3", "vf": True}) == ["0000:3b:00.1", "0000:3b:00.2"]


def test_class_is_24_bits_and_matches_by_what_it_begins_with() -> None:
    assert values(HOST, "pci", "class")["0000:af:00.0"] == "030200"
    for written in ("03", "0302", "030200", "0x0302"):
        assert counted(HOST, "pci", {"class": written}) == ["0000:af:00.0"]
    assert counted(HOST, "pci", {"class": ["04", "02"]}) == ["0000:3b:00.0", "0000:af:00.1"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"vendor": "10DE", "device": "20b5"}, ["0000:af:00.0"]),
        ({"subsystem_vendor": "15b3", "subsystem_device": "0020"}, ["0000:3b:00.0"]),
        ({"driver": "mlx5*"}, ["0000:3b:00.0"]),
        ({"driver": ""}, ["0000:d8:00.0"]),
        ({"address": "0000:AF:*"}, ["0000:af:00.0", "0000:af:00.1"]),
        ({"vendor": "ffff"}, []),
    ],
)
def test_matches(asked: dict[str, object], found: list[str]) -> None:
    assert counted(HOST, "pci", asked) == found


def test_capable_and_configured_virtual_functions_differ() -> None:
    for measure, number in (("sriov_totalvfs", 64), ("sriov_numvfs", 2)):
        reading = look(HOST, "pci", {"vendor": "15b3"}, measure=measure)
        assert isinstance(reading, Quantity)
        assert reading.value == number
    assert counted(HOST, "pci", {"sriov_totalvfs": ">=1"}) == ["0000:3b:00.0"]


def test_a_function_without_sriov_has_no_virtual_functions_and_that_is_known() -> None:
    reading = look(HOST, "pci", {"class": ["02", "03"]}, measure="sriov_numvfs")
    assert isinstance(reading, Quantity)
    assert [(e.device, e.contributes) for e in reading.evidence] == [("0000:3b:00.0", 2), ("0000:af:00.0", 0)]


def test_a_count_that_passes_through_0_is_0_and_not_absent() -> None:
    reading = look(machine(pci_function(vfs=(64, 0))), "pci", measure="sriov_numvfs")
    assert isinstance(reading, Quantity)
    assert reading.value == 0


def test_of_a_card_that_is_gone_nothing_is_known() -> None:
    world = pci_function(vfs=(8, 2))
    world["files"] = {"/sys/devices/system/x": "", f"{pci_path('0000:3b:00.0')}/uevent": ""}
    for key in ("vendor", "class", "vf", "sriov_totalvfs", "sriov_numvfs"):
        assert values(machine(world), "pci", key) == {"0000:3b:00.0": None}


@pytest.mark.parametrize("said", ["", "many", "-1", "1.5", "9" * 30])
def test_what_is_no_number_is_unknown(said: str) -> None:
    host = machine(pci_function(attributes={"sriov_numvfs": f"{said}\n"}))
    reading = look(host, "pci", measure="sriov_numvfs")
    assert isinstance(reading, Unknown)
    assert "not a whole number" in reading.reason


def test_a_driver_that_comes_late_is_seen_by_the_next_look() -> None:
    asked = {"driver": "nvidia"}
    assert isinstance(look(machine(pci_function(driver=None)), "pci", asked), Absent)
    assert counted(machine(pci_function(driver="nvidia")), "pci", asked) == ["0000:3b:00.0"]


def test_accelerators_are_of_several_classes() -> None:
    """VGA, 3D and other display controllers, and what calls itself a processing accelerator: MI300X, Gaudi, FPGAs."""
    cards = [
        pci_function(f"0000:0{n}:00.0", "1002", "74a1", what, "amdgpu")
        for n, what in enumerate(("030000", "030200", "038000", "120000"))
    ]
    assert len(counted(machine(*cards), "pci", {"class": "03"})) == 3
    assert len(counted(machine(*cards), "pci", {"class": ["03", "12"], "vendor": "1002"})) == 4


def test_a_card_is_one_by_its_first_function_and_domains_have_any_number_of_digits() -> None:
    card = [pci_function(f"0000:17:00.{n}", "10de", "2204", what) for n, what in ((0, "030000"), (1, "040300"))]
    behind_vmd = pci_function("10000:01:00.0", "8086", "0a54", "010802", "nvme")
    host = machine(*card, behind_vmd)
    assert counted(host, "pci", {"vendor": "10de"}) == ["0000:17:00.0", "0000:17:00.1"]
    assert counted(host, "pci", {"address": "*.0"}) == ["0000:17:00.0", "10000:01:00.0"]
    assert counted(host, "pci", {"address": "10000:*"}) == ["10000:01:00.0"]


def test_a_card_that_a_virtual_machine_has_is_told_by_its_driver() -> None:
    host = machine(pci_function("0000:17:00.0"), pci_function("0000:65:00.0", driver="vfio-pci"))
    assert counted(host, "pci", {"class": "03"}) == ["0000:17:00.0", "0000:65:00.0"]
    assert counted(host, "pci", {"class": "03"}, excepts=({"driver": "vfio-pci"},)) == ["0000:17:00.0"]


@pytest.mark.parametrize("place", ["vendor", "class", "driver", "physfn"])
def test_what_cannot_be_read_is_unknown(place: str) -> None:
    host = machine(pci_function(), errors({f"{pci_path('0000:3b:00.0')}/{place}": "EIO"}))
    assert isinstance(look(host, "pci", {"vendor": "10de", "class": "03", "driver": "*"}), Unknown)


def test_boot_vga_is_an_attribute() -> None:
    host = machine(
        GPU, pci_function("0000:03:00.0", "102b", "0536", "030000", "mgag200", attributes={"boot_vga": "1\n"})
    )
    assert counted(host, "pci", {"class": "03"}, excepts=({"attributes.boot_vga": "1"},)) == ["0000:af:00.0"]
