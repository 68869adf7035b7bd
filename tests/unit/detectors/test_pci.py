"""Which PCI functions count, and the values of their keys."""

from __future__ import annotations

import pytest

from tests.support.machines import Recording, machine, pci_function
from tests.support.readings import counted, quantity

# pci_function(): address, vendor, device, class, driver, subsystem; vfs: possible and present virtual functions.
CARD = pci_function("0000:3b:00.0", "15b3", "1017", "020000", "mlx5_core", ("15b3", "0020"), vfs=(64, 2))
VFS = [
    pci_function(f"0000:3b:00.{n}", "15b3", "1018", "020000", "mlx5_core", ("15b3", "0020"), physfn="0000:3b:00.0")
    for n in (1, 2)
]
GPU = pci_function("0000:af:00.0")
SOUND = pci_function("0000:af:00.1", "10de", "22be", "040300", "snd_hda_intel")
NO_DRIVER = pci_function("0000:d8:00.0", "8086", "0b60", "088000", None)
HOST = machine(CARD, *VFS, GPU, SOUND, NO_DRIVER)


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
def test_each_key_matches_its_functions(keys: dict[str, object], functions: list[str]) -> None:
    assert counted(HOST, "pci", keys) == functions


@pytest.mark.parametrize(
    ("function", "supported", "configured"), [(CARD, 64, 2), (pci_function(vfs=(64, 0)), 64, 0), (GPU, 0, 0)]
)
def test_no_virtual_functions_are_0_and_not_absent(function: Recording, supported: int, configured: int) -> None:
    assert quantity(machine(function), "pci", measure="sriov_totalvfs") == supported
    assert quantity(machine(function), "pci", measure="sriov_numvfs") == configured
