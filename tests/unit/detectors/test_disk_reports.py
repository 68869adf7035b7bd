"""Disks that people reported to other tools (tests/reports.md)."""

from __future__ import annotations

import re

import pytest

from tests.support.machines import Recording, disk, files, machine, merge, nvme, stacked
from tests.support.readings import counted, outcome, read, table
from tests.unit.detectors.test_disk import scsi_disks

UFS = "/sys/devices/platform/soc@0/1d84000.ufshc/host0/target0:0:0/0:0:0:{0}"
FC = "/sys/devices/pci0000:3b/0000:3b:00.0/host{0}/rport-{0}:0-0/target{0}:0:0/{0}:0:0:30"
FCOE = "/sys/devices/virtual/net/eth4.101-fcoe/ctlr_0/host8/rport-8:0-0/target8:0:0/8:0:0:0"
RAID = "/sys/devices/pci0000:3b/0000:3b:00.0/host0/target0:2:0/0:2:0:0"
DEBUG = "/sys/devices/pseudo_0/adapter0/host2/target2:0:0/2:0:0:0"  # scsi_debug
LOOPBACK = "/sys/devices/tcm_loop_0/tcm_loop_adapter_0/host3/target3:0:1/3:0:1:0"  # tcm_loop
VIRTIO = "/sys/devices/pci0000:00/0000:00:05.0/virtio1"
CONTROLLER = "/sys/devices/pci0000:5e/0000:5e:00.{0}/nvme/nvme{0}"
IDRAC = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-14/1-14.1/1-14.1:1.0/host9/target9:0:0/9:0:0:0"
READER = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-4/1-4:1.0/host6/target6:0:0/6:0:0:{0}"
ENCLOSURE = "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-{0}/2-{0}:1.0/host{0}/target{0}:0:0/{0}:0:0:0"
DVD = "/sys/devices/pci0000:00/0000:00:17.0/ata6/host5/target5:0:0/5:0:0:0"
MIB = 2**20
TB = 10**12
XEN = disk("xvda", "/sys/devices/vbd-51712", bus="xen", number="202:0", partitions=["xvda1", "xvda2"])
CD = disk("xvdd", "/sys/devices/vbd-5696", size=600 * MIB, bus="xen", number="202:48", properties={"ID_CDROM": "1"})
SUBSYSTEM = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0"
LOOP_SUBSYSTEM = merge(
    nvme(at=SUBSYSTEM, transport=""),
    files({"/sys/devices/virtual/nvme-fabrics/ctl/nvme0/transport": "loop\n"}),
    {"links": {f"{SUBSYSTEM}/nvme0": "/sys/devices/virtual/nvme-fabrics/ctl/nvme0"}},
)


def units(*sizes: int) -> list[Recording]:
    """The disks of one UFS chip, which all have the same id, serial number and model."""
    of_device = {"wwid": "eui.8000000000000000", "model": "UFS-CHIP"}
    return scsi_disks(UFS, *sizes, of_device=of_device, properties={"ID_SCSI_SERIAL": "0123"})


def namespace(controller: int, number: int, wwid: str) -> Recording:
    """An NVMe namespace on one of several controllers, all with the serial number ONE."""
    name = f"nvme{controller}n{number}"
    return nvme(name, "ONE", wwid=wwid, at=CONTROLLER.format(controller), number=f"259:{controller * 8 + number}")


VIRTIO_LUN = "/sys/devices/pci0000:00/0000:00:01.1/virtio6/host0/target0:0:0/0:0:0:{0}"
# A disk that a virtual machine has twice on one SCSI host, and multipathd's device on it.
TWICE = [
    *scsi_disks(VIRTIO_LUN, TB, TB, holders=["dm-0"]),
    stacked("dm-0", ["sda", "sdb"], dm=("mpatha", "mpath-0QEMU_QEMU_HARDDISK_disk1")),
]
VMWARE = scsi_disks(
    "/sys/devices/pci0000:00/0000:00:10.0/host2/target2:0:{0}/2:0:{0}:0",
    *(TB, TB, TB),
    of_device={"vendor": "VMware", "model": "Virtual disk"},
)
# The disks of a RAID controller, which has no transport in /sys.
BEHIND_RAID = scsi_disks(
    RAID.replace("2:0", "0:{0}"),  # target0:0:{0}/0:0:{0}:0
    *(TB, TB),
    of_device={"wwid": "eui.00193c0000000000", "model": "DISK_6_0"},
    properties={"ID_SCSI_SERIAL": "00193c"},
)
# The first disks in two USB enclosures of one kind.
ENCLOSURES = scsi_disks(
    ENCLOSURE, TB, TB, of_device={"model": "Generic DISK00"}, properties={"ID_SERIAL_SHORT": "0123456789ABCDEF"}
)
# Two paths to a Fibre Channel disk, and the device that multipathd makes of them.
MPATH = [
    disk("sdy", FC.format(2), TB, number="65:128", holders=["dm-8"]),
    disk("sdz", FC.format(3), TB, number="65:144", holders=["dm-8"]),
    stacked("dm-8", ["sdy", "sdz"], dm=("mpathm", "mpath-3600140575bbe")),
]

HARDWARE = {  # the machine's block devices, and the disks that count
    "ufs": (units(10**11, 4 * MIB, 4 * MIB, 32 * MIB), "sda sdb sdc sdd"),
    "debug": ([disk("sdb", DEBUG, 8 * MIB)], ""),
    "loopback": ([disk("sdb", LOOPBACK, 8 * MIB)], ""),
    "vduse": ([disk("vdb", "/sys/devices/virtual/vduse/disk0/vdpa1/virtio3", bus="virtio")], ""),
    "vdpa-sim": ([disk("vdb", "/sys/devices/vdpa1/virtio3", bus="virtio")], ""),  # the simulator
    "vdpa": ([disk("vdb", "/sys/devices/pci0000:3b/0000:3b:00.3/vdpa1/virtio3", bus="virtio")], "vdb"),
    "nvme-loop": ([nvme(at="/sys/devices/virtual/nvme-fabrics/ctl/nvme0", transport="loop")], ""),
    "nvme-tcp": ([nvme(at="/sys/devices/virtual/nvme-fabrics/ctl/nvme0", transport="tcp")], "nvme0n1"),
    "nvme-loop-paths": ([LOOP_SUBSYSTEM], ""),
    "xen-cd": ([XEN, CD], "xvda"),
    "mpath": (MPATH, "sdy"),
    "twice": (TWICE, "sda"),
    "fcoe": ([disk("sdb", FCOE)], "sdb"),
    "rbd": ([stacked("rbd0", number="252:0"), disk("rbd1", "/sys/devices/rbd/1", number="252:16")], ""),
    # namespace(): the number of the controller, that of the namespace, and the world-wide id.
    "namespaces": ([namespace(0, 1, "eui.00a1"), namespace(0, 2, "eui.00a2")], "nvme0n1 nvme0n2"),
    "two-controllers": ([namespace(4, 18, "eui.00a1"), namespace(6, 2, "eui.00a1")], "nvme4n18"),
    # The kernel makes up an id if the NVMe identifiers are zero.
    "zero-ids": (
        [namespace(0, 1, "nvme.144d-01-02-00000001"), namespace(0, 2, "nvme.144d-01-02-00000002")],
        "nvme0n1 nvme0n2",
    ),
    "raid": (BEHIND_RAID, "sda sdb"),
    "no-medium": ([disk("sdb", IDRAC, 0, removable=True)], ""),
    "no-ids": (VMWARE, "sda sdb sdc"),
    "card-reader": (scsi_disks(READER, 0, 0, 0, 0), ""),
    "enclosures": (ENCLOSURES, "sda sdb"),
    "dvd": ([disk("sr0", DVD, 8 * 10**9, number="11:0", removable=True)], ""),
    "twelve": ([namespace(n, 1, f"eui.00{n}") for n in range(12)], " ".join(sorted(f"nvme{n}n1" for n in range(12)))),
}


@pytest.mark.parametrize(("parts", "disks"), HARDWARE.values(), ids=HARDWARE)
def test_disks_count_once_and_only_if_they_are_hardware(parts: list[Recording], disks: str) -> None:
    assert counted(machine(*parts), "disk") == disks.split()


def test_a_longer_serial_number_than_virtio_reports_matches_nothing() -> None:
    """virtio reports at most 20 characters. The message contains the serial number that it reports."""
    host = machine(disk("vda", VIRTIO, bus="virtio", of_disk={"serial": "7286dfe6-7c44-4057-a"}))
    reading = read(host, "disk", {"serial": "7286dfe6-7c44-4057-a8f4-362cc1e7468c"})
    assert outcome(reading) == "absent"
    assert 'serial is "7286dfe6-7c44-4057-a"' in str(reading)
    assert counted(host, "disk", {"serial": "7286dfe6-7c44-4057-a*"}) == ["vda"]


EXPANDER = (
    "/sys/devices/pci0000:5e/0000:5e:00.0/host0/port-0:0/expander-0:0/port-0:0:3/end_device-0:0:3/target0:0:3/0:0:3:0"
)
VIRTIO_SCSI = "/sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/virtio6/host0/target0:0:3/0:0:3:1"
HYPERV = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/MSFT1000:00/f8b3781a/host0/target0:0:0/0:0:0:1"
NAA = disk("sda", RAID, of_device={"wwid": "naa.5000c500947f6dd7", "vendor": "BROADCOM", "model": "MR9560-16i"})
T10 = disk("sda", RAID, of_device={"wwid": "t10.ATA     QEMU HARDDISK      QM00005     "})
LONG_WWN = disk(
    "sda",
    RAID,
    properties={"ID_WWN": "0x600605b00a579620", "ID_WWN_WITH_EXTENSION": "0x600605b00a5796201f9744221d0dc495"},
)
DASDS = [  # the second one is not formatted, so it has no size
    disk(f"dasd{letter}", f"/sys/devices/css0/0.0.000{n}/0.0.020{n}", size, bus="ccw", number=f"94:{4 * n}")
    for n, (letter, size) in enumerate((("a", 7 * 10**9), ("b", 0)))
]
SEED = disk("vdb", VIRTIO, MIB, bus="virtio", number="252:16")  # the configuration for cloud-init
BY_UDEV = disk("sda", RAID, of_device={"model": "QEMU HARDDISK   "}, properties={"ID_MODEL": "QEMU_HARDDISK"})
HUGE = disk("sdb", ENCLOSURE.format(1), 130 * 10**15, number="8:16")
READ_ONLY = disk("sdb", RAID.replace("2:0:0", "2:1:0"), number="8:16", of_disk={"ro": "1"})
VOLUME = nvme(model="MSFT NVMe Accelerator v1.0", serial="SN: 000001", wwid=None)  # remote
LOCAL = {"model": "Microsoft NVMe Direct Disk v2", "serial": "9ff12d3d953a00000001"}
STATES = files({f"{FC.format(2)}/state": "offline\n", f"{FC.format(3)}/state": "running\n"})  # of the paths of MPATH


SELECTED = {  # the machine's block devices, the keys of a table, and the disks that count
    "expander": ([disk("sda", EXPANDER, rotational=True)], {"transport": "sas", "type": "hdd"}, "sda"),
    "raid": ([disk("sda", RAID)], {"transport": "scsi"}, "sda"),
    "virtio-scsi": ([disk("sdc", VIRTIO_SCSI)], {"transport": "scsi"}, "sdc"),
    "hot-plug": ([disk("sda", EXPANDER, removable=True)], {"removable": True}, "sda"),
    "nvme-serial": ([namespace(0, 1, "eui.00a1")], {"serial": "ONE", "transport": "nvme"}, "nvme0n1"),
    "azure-local": (
        [disk("sdb", HYPERV, of_device={"vendor": "Msft", "model": "Virtual Disk"}), nvme(**LOCAL, wwid=None)],
        {"model": "Microsoft NVMe Direct Disk*"},
        "nvme0n1",
    ),
    "lvm": ([disk("sda", RAID, partitions=["sda1"]), stacked("dm-0", ["sda1"], dm=("vg-osd", "LVM-x"))], {}, "sda"),
    "xen": ([XEN], {}, "xvda"),
    "model": ([BY_UDEV], {"model": "QEMU HARDDISK", "properties.ID_MODEL": "QEMU_HARDDISK"}, "sda"),
    "130-pb": ([NAA, HUGE], {"size": "<1PB"}, "sda"),
    "by-wwn": ([NAA, READ_ONLY, XEN], {"wwn": "0x5000C500947F6DD7"}, "sda"),
    "no-wwn": ([NAA, XEN], {"wwn": "*"}, "sda"),
    "raid-volume": ([NAA, READ_ONLY], {"vendor": "BROADCOM", "model": "MR9560*", "transport": "scsi"}, "sda"),
    "t10": ([T10], {"wwn": "t10.ATA*QM00005"}, "sda"),
    "long-wwn": ([LONG_WWN], {"wwn": "0x600605b00a5796201f9744221d0dc495"}, "sda"),
    "dasd": (DASDS, {"transport": "ccw", "type": "ssd"}, "dasda"),
    "seed": ([NAA, SEED], {}, "sda vdb"),
    "no-seed": ([NAA, SEED], {"size": ">1GiB"}, "sda"),
    "writable": ([disk("sda", RAID, of_disk={"ro": "0"}), READ_ONLY], {"attributes.ro": "0"}, "sda"),
    "azure-nvme": (
        [VOLUME, nvme("nvme1n1", **LOCAL, wwid=None, number="259:1")],
        {"model": "Microsoft NVMe Direct*"},
        "nvme1n1",
    ),
    "offline-path": ([*MPATH, STATES], {"attributes.device/state": "offline"}, "sdy"),
}


@pytest.mark.parametrize(("parts", "keys", "disks"), SELECTED.values(), ids=SELECTED)
def test_reported_disks_are_counted_by_their_keys(parts: list[Recording], keys: dict[str, object], disks: str) -> None:
    assert counted(machine(*parts), "disk", keys) == disks.split()


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("wwn-0x5000c500947f6dd7", "0x5000c500947f6dd7"),
        ("naa.5000c500947f6dd7", "0x5000c500947f6dd7"),
        ("5000c500947f6dd7", "0x5000c500947f6dd7"),
        ("35000C500947F6DD7", "0x5000C500947F6DD7"),
        ("36001405b17fca110", "0x6001405b17fca110"),
        ("3600140575bbe0d1c2f3a4b5c6d7e8f90", "0x600140575bbe0d1c2f3a4b5c6d7e8f90"),
        ("scsi-35000c500947f6dd7", "0x5000c500947f6dd7"),
        ("scsi-3600*", "0x600*"),
        ("nvme-eui.0025385b71b00c1d", "eui.0025385b71b00c1d"),
    ],
)
def test_a_world_wide_name_as_other_programs_write_it_is_an_error(written: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'"{remedy}"') + "$"):
        table("disk", {"wwn": written})


@pytest.mark.parametrize("written", ["0x3000c500947f6dd7", "eui.00*", "3*", "nvme.8086-01", "uuid.1", "t10.ATA*", "*"])
def test_each_form_of_a_world_wide_name_is_accepted(written: str) -> None:
    assert table("disk", {"wwn": written})
