"""Which block devices are disks, and the values of a disk's keys on each bus."""

from __future__ import annotations

from typing import Any

import pytest

from capacityd.model.reading import Unknown
from tests.support.machines import Recording, disk, errors, files, machine, merge, mounts, nvme, stacked
from tests.support.readings import counted, quantity, read, values

ATA = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
SAS = "/sys/devices/pci0000:3b/0000:3b:00.0/host0/port-0:{0}/end_device-0:{0}/target0:0:{0}/0:0:{0}:0"
USB = "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host9/target9:0:0/9:0:0:{0}"
VIRTIO = "/sys/devices/pci0000:00/0000:00:05.0/virtio1"
IN_DOUBT = "it is unknown whether it is another path to a disk: "
PMEM = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/namespace0.0"
WWID = {"wwid": "naa.600508b1001c4d2e"}
# Attributes and properties by which several SAS devices are paths to one disk.
ONE_DISK: dict[str, Any] = {"of_device": WWID, "properties": {"ID_SCSI_SERIAL": "Z1D0"}}


def scsi_disk(number: int, at: str, size: int = 500_107_862_016, **more: Any) -> Recording:
    """A SCSI disk by its number: 0 is sda, 1 is sdb. at: the path of its parent, with {0} for the number."""
    return disk(f"sd{chr(ord('a') + number)}", at.format(number), size, number=f"8:{16 * number}", **more)


def scsi_disks(at: str, *sizes: int, **more: Any) -> list[Recording]:
    """A SCSI disk of each size: sda, sdb, … at: the path of a disk's parent, with {0} for the disk's number."""
    return [scsi_disk(number, at, size, **more) for number, size in enumerate(sizes)]


def ata(name: str = "sda", port: int = 1, number: str = "8:0", **more: Any) -> Recording:
    return disk(name, ATA.format(port), number=number, **more)


def sas(*sizes: int, **more: Any) -> list[Recording]:
    """A SAS disk of each size, all on one controller: sda, sdb, …"""
    return scsi_disks(SAS, *sizes, **more)


def nvme_at(number: int, serial: str, wwid: str) -> Recording:
    """An NVMe disk with its own controller."""
    at = f"/sys/devices/pci0000:0{number}/nvme/nvme{number}"
    return nvme(f"nvme{number}n1", serial, wwid=wwid, at=at, number=f"259:{number}")


# Block devices of the kernel's software, and block devices that are no disks.
SOFTWARE = "loop0 ram0 zram0 md127 md_home dm-3 nbd0 zd16 drbd1 bcache0 nullb0 ublkb0"
DRIVES = ("sr0", "fd0", "mtdblock0", "rbd1", "ubiblock0_1")
AT_CARD = "/sys/devices/platform/soc/mmc_host/mmc0/mmc0:0001"
CARD = disk("mmcblk0", AT_CARD, bus="mmc", number="179:0", of_device={"name": "SC64G", "serial": "0x1"})
BOOT_AREAS = [disk(f"mmcblk0boot{n}", AT_CARD, bus="mmc", number=f"179:{8 + n}") for n in (0, 1)]
TB = 10**12
NVME_HEAD = nvme("nvme6n1", at="/sys/devices/virtual/nvme-subsystem/nvme-subsys6")
NVME_PATHS = [
    nvme(f"nvme6c{n}n1", at=f"/sys/devices/pci0000:5e/0000:5e:00.{n}/nvme/nvme{n}", of_disk={"hidden": 1}) for n in "67"
]
# An id that the kernel has generated from the vendor, the serial number and the model.
GENERATED = "nvme.1ae0-6e766d655f63617264-6e766d655f63617264-00000001"


@pytest.mark.parametrize(
    ("disks", "parts"),  # the disks that count, and the block devices of the machine
    [
        ("", []),
        ("nvme0n1 sda", [ata(partitions=["sda1", "sda2"]), nvme(partitions=["nvme0n1p1"])]),
        ("", [stacked(name, number=f"7:{n}") for n, name in enumerate(SOFTWARE.split())]),
        ("", [disk(name, f"/sys/devices/platform/{name}", number=f"11:{n}") for n, name in enumerate(DRIVES)]),
        ("", [ata(of_disk={"hidden": "1"})]),
        ("", [disk("sda", USB.format(0), size=0, removable=True)]),  # an empty card reader
        ("mmcblk0", [CARD, *BOOT_AREAS]),
        ("pmem0", [disk("pmem0", PMEM)]),
        ("xvda", [disk("xvda", "/sys/devices/vbd-768", bus="xen")]),
        ("dasda", [disk("dasda", "/sys/devices/css0/0.0.0003/0.0.0200")]),
        ("cciss/c0d0", [disk("cciss!c0d0", "/sys/devices/pci0000:3b/0000:3b:00.0/cciss0/c0d0", number="104:0")]),
        # With ONE_DISK, the block devices of sas() are paths of one disk. A size of 0 means that the drive is empty.
        ("sda sde", [*sas(TB, TB, TB, **ONE_DISK), ata("sde", port=9, number="8:64")]),
        ("", [*sas(0, 0, **ONE_DISK)]),
        ("sda sdb", [*sas(TB, TB, holders=["dm-0"]), stacked("dm-0", ["sda", "sdb"], dm=("vg", "LVM-a"))]),
        # USB enclosures or cheap SATA disks of one model may share a WWID.
        ("sda sdb", scsi_disks(USB, TB, TB, of_device=WWID)),
        ("sda sdb", [ata(of_device=WWID), ata("sdb", port=2, number="8:16", of_device=WWID)]),
        ("nvme0n1 nvme1n1", [nvme_at(0, serial="A", wwid="eui.1"), nvme_at(1, serial="B", wwid="eui.1")]),
        ("nvme6n1", [NVME_HEAD, *NVME_PATHS]),
        # In some clouds, all NVMe controllers have the same serial number.
        ("nvme0n1 nvme1n1", [nvme_at(n, serial="nvme_card", wwid=GENERATED) for n in (0, 1)]),
    ],
)
def test_each_whole_disk_counts_once(disks: str, parts: list[Recording]) -> None:
    host = machine(*parts)
    assert counted(host, "disk") == disks.split()
    assert counted(host, "disk", {"size": "<64GB"}) == []  # nor does an empty drive or a small software device


@pytest.mark.parametrize("name", ["dm-0", "loop0"])
def test_a_software_block_device_is_never_a_disk_in_a_partial_sys(name: str) -> None:
    """In some containers, /sys/block/dm-0 is a folder, so its path does not show that the device is virtual."""
    partial = files({f"/sys/block/{name}/size": "4096\n", f"/sys/block/{name}/removable": "0\n"})
    assert counted(machine(ata(), partial), "disk") == ["sda"]
    unreadable = errors({f"/sys/block/{name}": "EIO"})
    assert counted(machine(ata(), unreadable), "disk") == ["sda"]


def test_sizes_are_in_sectors_of_512_bytes_whatever_the_logical_block_size() -> None:
    host = machine(*sas(480 * 10**9, 4_000_787_030_016))
    assert values(host, "disk", "size") == {"sda": 480 * 10**9, "sdb": 4_000_787_030_016}
    assert counted(host, "disk", {"size": ">=500GB"}) == ["sdb"]
    assert quantity(host, "disk", measure="size") == 4_480_787_030_016


PLACEHOLDER = "naa.5000000000000001"


def alike(*facts: tuple[str, str, int], wwid: str = PLACEHOLDER, property_: str = "ID_SCSI_SERIAL") -> list[Recording]:
    """SAS disks with one world-wide id.

    facts: serial number ("": none), model and size in GiB of each disk. property_: where udev has the serial number.
    """
    disks = []
    for n, (serial, model, size) in enumerate(facts):
        properties = {property_: serial} if serial else {}
        disks.append(scsi_disk(n, SAS, size << 30, of_device={"wwid": wwid, "model": model}, properties=properties))
    return disks


@pytest.mark.parametrize("wwid", ["naa.5000000000000001", "eui.0000000000000001", "iqn.2026.x:1"])
@pytest.mark.parametrize("property_", ["ID_SCSI_SERIAL", "SCSI_IDENT_SERIAL", "ID_SERIAL_SHORT"])
@pytest.mark.parametrize(
    ("facts", "disks"),  # serial number, model and size of each disk, and the disks that count
    [
        ([("S1", "X", 931), ("S2", "X", 931), ("S3", "X", 1863)], "sda sdb sdc"),
        ([("S1", "X", 931), ("S1", "X", 931), ("S2", "X", 931), ("S2", "X", 931)], "sda sdc"),
        ([("S1", "X", 931), ("S1", "X", 1863)], "sda sdb"),
        ([("", "X", 931), ("", "X", 1863)], "sda sdb"),
        ([("", "X", 931), ("", "Y", 931)], "sda sdb"),
    ],
)
def test_different_disks_with_one_world_wide_id_count_apart(
    facts: list[tuple[str, str, int]], disks: str, wwid: str, property_: str
) -> None:
    assert counted(machine(*alike(*facts, wwid=wwid, property_=property_)), "disk") == disks.split()


@pytest.mark.parametrize(
    ("wwid", "serial"),
    [
        (PLACEHOLDER, ""),
        (PLACEHOLDER, "5000000000000001"),  # udev may repeat the world-wide id, which is then no serial number
        # tgt gives these ids and this serial number to the first disk of every server
        ("t10.IET     00010001", "beaf11"),
        ("naa.60000000000000000e00000000010001", "beaf11"),
    ],
)
def test_disks_that_nothing_tells_apart_are_in_doubt(wwid: str, serial: str) -> None:
    host = machine(*alike((serial, "X", 931), (serial, "X", 931), wwid=wwid, property_="ID_SERIAL_SHORT"))
    reading = read(host, "disk")
    assert isinstance(reading, Unknown)
    assert f"sdb and sda have the same id {wwid}" in reading.reason
    assert counted(host, "disk", {"name": "sda"}) == ["sda"]


def test_the_system_on_one_of_different_disks_with_one_world_wide_id_leaves_the_others_free() -> None:
    system = mounts(("/", "8:0", "ext4", "/dev/sda"))
    host = machine(*alike(("S1", "X", 931), ("S2", "X", 931), ("S3", "X", 1863)), system)
    assert counted(host, "disk", {"system": False}) == ["sdb", "sdc"]


@pytest.mark.parametrize(("name", "disks"), [("fioa", ["fioa"]), ("fiob", ["fiob"]), ("fio1", []), ("nullb0", [])])
def test_a_disk_without_a_parent_device_counts_only_if_its_name_is_of_fusion_io(name: str, disks: list[str]) -> None:
    host = machine(
        stacked(name, partitions=[f"{name}1"], number="252:0"), mounts(("/", "252:1", "xfs", f"/dev/{name}1"))
    )
    assert counted(host, "disk") == disks
    assert counted(host, "disk", {"system": True, "type": "ssd"}) == disks


def test_the_size_of_a_disk_is_that_of_any_path_that_has_one() -> None:
    """The first path is on standby (ALUA). READ CAPACITY fails there, so the kernel reports a size of 0."""
    paths = sas(0, TB, TB, **ONE_DISK)
    assert values(machine(*paths), "disk", "size") == {"sda": TB}
    assert isinstance(read(machine(*paths, errors({f"{SAS.format(0)}/block/sda/size": "EIO"})), "disk"), Unknown)


@pytest.mark.parametrize(
    ("one", "key", "value"),
    [
        (disk("vda", VIRTIO, bus="virtio", of_disk={"serial": "VBLK0"}), "serial", "VBLK0"),
        (disk("vda", VIRTIO, bus="virtio", of_disk={"serial": ""}), "serial", ""),
        (disk("vda", VIRTIO, bus="virtio", of_device={"vendor": "0x1af4"}), "vendor", None),
        (ata(of_device={"vendor": "ATA     ", "model": "Samsung"}), "vendor", "ATA"),
        (ata(), "model", None),
        (CARD, "model", "SC64G"),
        (CARD, "serial", "0x1"),
        (NVME_HEAD, "serial", "S64FNE0R"),
        (ata(properties={"ID_SERIAL_SHORT": "S3Z"}), "serial", "S3Z"),
        # For SAS disks with a WWN, real ones and QEMU's, ID_SERIAL_SHORT is the WWN.
        (ata(properties={"ID_SERIAL_SHORT": "5000c5", "ID_SCSI_SERIAL": "ZC13F4AB"}), "serial", "ZC13F4AB"),
        (ata(properties={"ID_SCSI_SERIAL": "ZC13F4AB", "SCSI_IDENT_SERIAL": "ZC13"}), "serial", "ZC13"),
        (nvme(wwid=None), "wwn", None),
        (nvme(wwid="eui.0025385b71b00c1d"), "wwn", "eui.0025385b71b00c1d"),
        (ata(of_device={"wwid": "naa.5000c500a1b2c3d4"}), "wwn", "0x5000c500a1b2c3d4"),
        (merge(ata(properties={"ID_WWN": "0x5000c5"}), errors({f"{ATA.format(1)}/wwid": "EINVAL"})), "wwn", "0x5000c5"),
        (ata(), "removable", False),
        (ata(removable=True), "removable", True),
    ],
)
def test_each_key_has_its_value(one: Recording, key: str, value: object) -> None:
    assert list(values(machine(one), "disk", key).values()) == [value]


@pytest.mark.parametrize(
    ("one", "transport", "kind"),
    [
        (ata(), "sata", "ssd"),
        *(
            (merge(ata(), files({"/sys/class/scsi_host/host1/proc_name": f"{driver}\n"})), transport, "ssd")
            for driver, transport in (("ahci", "sata"), ("sata_nv", "sata"), ("ata_piix", "ata"), ("pata_amd", "ata"))
        ),
        (disk("sda", SAS.format(1), rotational=True), "sas", "hdd"),
        (disk("sda", USB.format(0)), "usb", "ssd"),
        (disk("sda", "/sys/devices/pci0000:3b/0000:3b:00.0/host0/target0:2:0/0:2:0:0"), "scsi", "ssd"),
        (disk("sda", "/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1"), "iscsi", "ssd"),
        (disk("sda", "/sys/devices/pci0000:3b/0000:3b:00.0/host1/rport-1:0-0/target1:0:0/1:0:0:0"), "fc", "ssd"),
        (disk("vda", VIRTIO, bus="virtio"), "virtio", "ssd"),
        (CARD, "mmc", "ssd"),
        (nvme(), "nvme", "nvme"),
        (nvme(transport="tcp"), "nvme-tcp", "nvme"),
        (nvme(at="/sys/devices/platform/soc/393cc0000.nvme/nvme/nvme0", transport="apple-nvme"), "nvme", "nvme"),
        (disk("pmem0", PMEM), "nvdimm", "pmem"),
        (disk("pmem0.1s", PMEM), "nvdimm", "pmem"),
    ],
)
def test_each_disk_has_its_type_and_transport(one: Recording, transport: str, kind: str) -> None:
    assert len(counted(machine(one), "disk", {"transport": transport, "type": kind})) == 1


@pytest.mark.parametrize("text", [None, "", "2\n"])
def test_a_disk_that_does_not_say_whether_it_rotates_has_an_unknown_type(text: str | None) -> None:
    path = f"{ATA.format(1)}/block/sda/queue/rotational"
    hdd = ata(rotational=True)
    others = {name: content for name, content in hdd["files"].items() if name != path}
    host = machine({**hdd, "files": others if text is None else {**others, path: text}})
    assert isinstance(read(host, "disk", {"type": "hdd"}), Unknown)
    assert counted(host, "disk") == ["sda"]


def test_the_transport_of_a_multipath_nvme_disk_is_that_of_its_controllers() -> None:
    at, controller = "/sys/devices/virtual/nvme-subsystem/nvme-subsys6", "/sys/devices/virtual/nvme-fabrics/ctl/nvme6"
    others = {name: text for name, text in NVME_HEAD["files"].items() if name != f"{at}/transport"}
    head = {**NVME_HEAD, "files": others}  # which has no transport of its own
    assert values(machine(head), "disk", "transport") == {"nvme6n1": "nvme"}
    path = merge({"links": {f"{at}/nvme6": controller}}, files({f"{controller}/transport": "rdma\n"}))
    assert values(machine(head, path), "disk", "transport") == {"nvme6n1": "nvme-rdma"}
    dangling = values(machine(head, {"links": {f"{at}/nvme6": "gone"}}), "disk", "transport")
    assert dangling == {"nvme6n1": f"unknown: {at}/nvme6 is a dangling link"}


# Three SAS disks with different ids.
DISTINCT = [scsi_disk(n, SAS, of_device={"wwid": f"naa.{n}"}) for n in range(3)]


@pytest.mark.parametrize(
    "broken",
    [
        errors({f"{SAS.format(1)}/block/sdb/hidden": "EIO"}),
        errors({f"{SAS.format(1)}/wwid": "EACCES"}),
        errors({f"{SAS.format(1)}/block/sdb/holders": "EACCES"}),
        {"links": {f"{SAS.format(1)}/block/sdb/holders/dm-9": "gone"}},
        {"links": {f"{SAS.format(1)}/block/sdb/device": "gone"}},
    ],
    ids=["hidden", "wwid", "holders", "holder", "device"],
)
def test_a_disk_that_may_be_another_path_makes_only_tables_that_it_may_match_unknown(broken: Recording) -> None:
    """sdb may be another path to sda or sdc. sdd is a SATA disk, so it has only one path."""
    host = machine(*DISTINCT, ata("sdd", port=9, number="8:48", rotational=True), broken)
    assert counted(host, "disk", {"transport": "sata"}) == ["sdd"]
    assert counted(host, "disk", {"type": "hdd"}) == ["sdd"]
    assert counted(host, "disk", {"name": ["sda", "sdc"]}) == ["sda", "sdc"]
    for keys in ({}, {"transport": "sas"}, {"name": "sdb"}):
        assert isinstance(read(host, "disk", keys), Unknown), keys


def test_if_the_system_is_on_a_disk_in_doubt_other_disks_may_be_the_systems() -> None:
    """/ is on sdb, which may be another path to sda or sdc, and /boot is on sda."""
    system = mounts(("/", "8:16", "ext4", "/dev/sdb"), ("/boot", "8:0", "ext4", "/dev/sda"))
    by_device = values(machine(*DISTINCT, system, errors({f"{SAS.format(1)}/wwid": "EIO"})), "disk", "system")
    assert (by_device["sda"], by_device["sdb"]) == (True, True)
    assert str(by_device["sdc"]).startswith(f"unknown: {IN_DOUBT}")


def test_a_disk_that_disappeared_may_count() -> None:
    host = machine(ata(), {"links": {"/sys/block/sdz": "../devices/removed"}})
    assert isinstance(read(host, "disk"), Unknown)
    assert counted(host, "disk", {"name": "sda"}) == ["sda"]
