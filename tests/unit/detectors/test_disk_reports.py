"""Disks that people reported to other tools (tests/reports.md)."""

from __future__ import annotations

import pytest

from tests.support.machines import Recording, disk, machine, nvme, stacked
from tests.support.readings import counted, outcome, read

UFS = "/sys/devices/platform/soc@0/1d84000.ufshc/host0/target0:0:0/0:0:0:{0}"
FC = "/sys/devices/pci0000:3b/0000:3b:00.0/host{0}/rport-{0}:0-0/target{0}:0:0/{0}:0:0:30"
DEBUG = "/sys/devices/pseudo_0/adapter0/host2/target2:0:0/2:0:0:0"
LOOPBACK = "/sys/devices/tcm_loop_0/tcm_loop_adapter_0/host3/target3:0:1/3:0:1:0"
VIRTIO = "/sys/devices/pci0000:00/0000:00:05.0/virtio1"
CONTROLLER = "/sys/devices/pci0000:5e/0000:5e:00.{0}/nvme/nvme{0}"
IDRAC = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-14/1-14.1/1-14.1:1.0/host9/target9:0:0/9:0:0:0"
MIB = 2**20


def units(*sizes: int) -> list[Recording]:
    """Returns the disks of one UFS chip: one id, serial number and model for all."""
    return [
        disk(
            f"sd{chr(97 + lun)}",
            UFS.format(lun),
            size,
            number=f"8:{16 * lun}",
            of_device={"wwid": "eui.8000000000000000", "model": "UFS-CHIP"},
            properties={"ID_SCSI_SERIAL": "0123"},
        )
        for lun, size in enumerate(sizes)
    ]


def namespace(controller: int, number: int, wwid: str) -> Recording:
    name = f"nvme{controller}n{number}"
    return nvme(name, "ONE", wwid=wwid, at=CONTROLLER.format(controller), number=f"259:{controller * 8 + number}")


def lun(name: str, host: int, number: str) -> Recording:
    return disk(name, FC.format(host), 6 * 10**9, number=number, holders=["dm-8"])


@pytest.mark.parametrize(
    ("parts", "disks"),
    [
        (units(10**11, 4 * MIB, 4 * MIB, 32 * MIB), "sda sdb sdc sdd"),
        ([disk("sdb", DEBUG, 8 * MIB)], ""),
        ([disk("sdb", LOOPBACK, 8 * MIB)], ""),
        (
            [
                *(lun("sdy", 2, "65:128"), lun("sdz", 3, "65:144")),
                stacked("dm-8", ["sdy", "sdz"], dm=("mpathm", "mpath-3600140575bbe")),
            ],
            "sdy",
        ),
        ([stacked("rbd0", number="252:0"), disk("rbd1", "/sys/devices/rbd/1", number="252:16")], ""),
        ([namespace(0, 1, "eui.00a1"), namespace(0, 2, "eui.00a2")], "nvme0n1 nvme0n2"),
        ([namespace(4, 18, "eui.00a1"), namespace(6, 2, "eui.00a1")], "nvme4n18"),
        # The kernel makes up an id if the NVMe identifiers are zero.
        ([namespace(0, 1, "nvme.144d-01-02-00000001"), namespace(0, 2, "nvme.144d-01-02-00000002")], "nvme0n1 nvme0n2"),
        ([disk("sdb", IDRAC, 0, removable=True)], ""),
    ],
    ids=["ufs", "debug", "loopback", "mpath", "rbd", "namespaces", "two-controllers", "zero-ids", "no-medium"],
)
def test_disks_count_once_and_only_if_they_are_hardware(parts: list[Recording], disks: str) -> None:
    assert counted(machine(*parts), "disk") == disks.split()


def test_a_longer_serial_number_than_virtio_reports_matches_nothing() -> None:
    """virtio has room for 20 characters. The message contains the serial number that the disk has."""
    host = machine(disk("vda", VIRTIO, bus="virtio", of_disk={"serial": "7286dfe6-7c44-4057-a"}))
    reading = read(host, "disk", {"serial": "7286dfe6-7c44-4057-a8f4-362cc1e7468c"})
    assert outcome(reading) == "absent"
    assert 'serial is "7286dfe6-7c44-4057-a"' in str(reading)
    assert counted(host, "disk", {"serial": "7286dfe6-7c44-4057-a*"}) == ["vda"]
