"""What facts of disks the detector must know: each test is a bug that somebody had."""

from __future__ import annotations

import pytest

from capacityd.model import Absent, Quantity, Unknown
from tests.unit.looking import counted, look, values
from tests.unit.machines import Recording, disk, errors, files, machine, merge, mounts, nvme, stacked

ATA = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
SAS = "/sys/devices/pci0000:3b/0000:3b:00.0/host0/port-0:{0}/end_device-0:{0}/target0:0:{0}/0:0:{0}:0"
USB = "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-{0}/2-{0}:1.0/host9/target9:0:0/9:0:0:{1}"
VIRTIO = "/sys/devices/pci0000:00/0000:00:05.0/virtio1"


def ata(name: str = "sda", place: int = 1, number: str = "8:0", **more: object) -> Recording:
    return disk(name, ATA.format(place), number=number, **more)  # type: ignore[arg-type]


def test_counts_disks_and_neither_partitions_nor_what_stands_on_disks() -> None:
    others = [
        "loop0",
        "ram0",
        "zram0",
        "md127",
        "dm-3",
        "nbd0",
        "rbd0",
        "zd16",
        "drbd1000",
        "bcache0",
        "nullb0",
        "ublkb0",
    ]
    drives = [
        disk(n, f"/sys/devices/platform/{n}", number=f"11:{i}")
        for i, n in enumerate(("sr0", "fd0", "mtdblock0", "rbd1", "ubiblock0_1"))
    ]
    host = machine(
        ata(partitions=["sda1", "sda2"]),
        nvme(partitions=["nvme0n1p1"]),
        *drives,
        *(stacked(name, number=f"7:{n}") for n, name in enumerate(others)),
    )
    assert values(host, "disk", "name") == {"nvme0n1": "nvme0n1", "sda": "sda"}


def test_a_name_that_leads_nowhere_any_more_is_no_disk() -> None:
    assert counted(machine(ata(), {"links": {"/sys/block/sdz": "../devices/gone"}}), "disk") == ["sda"]


def test_size_is_in_sectors_of_512_bytes_whatever_the_logical_block_size() -> None:
    reading = look(machine(ata(size=4_000_787_030_016)), "disk", measure="size")
    assert isinstance(reading, Quantity)
    assert reading.value == 4_000_787_030_016


def test_sizes_compare() -> None:
    host = machine(ata("sda", 1, size=480 * 10**9), ata("sdb", 2, "8:16", size=960 * 10**9))
    assert counted(host, "disk", {"size": ">=500GB"}) == ["sdb"]
    assert counted(host, "disk", {"size": "<1TB"}) == ["sda", "sdb"]


def test_an_empty_card_reader_is_no_disk() -> None:
    host = machine(disk("sdb", USB.format(1, 0), 0, removable=True))
    assert isinstance(look(host, "disk"), Absent)
    assert isinstance(look(host, "disk", {"size": "<64GB"}), Absent)
    assert isinstance(look(host, "disk", {"removable": True}, measure="size"), Absent)


def test_hidden_paths_of_nvme_multipath_are_not_disks() -> None:
    subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys6"
    paths = [
        nvme(
            f"nvme6c{n}n1",
            at=f"/sys/devices/pci0000:5e/0000:5e:00.{n}/nvme/nvme{n}",
            number=f"259:{n}",
            of_disk={"hidden": 1},
        )
        for n in (6, 7)
    ]
    host = machine(nvme("nvme6n1", at=subsystem), *paths)
    assert counted(host, "disk") == ["nvme6n1"]
    assert values(host, "disk", "serial") == {"nvme6n1": "S64FNE0R"}
    assert values(host, "disk", "transport") == {"nvme6n1": "nvme"}


def test_whatever_the_kernel_hides_is_no_disk() -> None:
    assert counted(machine(ata(of_disk={"hidden": 1})), "disk") == []


def test_nvme_namespaces_are_disks_and_not_controllers() -> None:
    host = machine(nvme("nvme0n1", wwid="eui.01"), nvme("nvme0n2", wwid="eui.02", number="259:1"))
    assert counted(host, "disk", {"type": "nvme"}) == ["nvme0n1", "nvme0n2"]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("pmem0", "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/namespace0.0"),
        ("xvda", "/sys/devices/vbd-768"),
        ("dasda", "/sys/devices/css0/0.0.0003/0.0.0200"),
    ],
)
def test_persistent_memory_and_the_disks_of_xen_and_mainframes_count(name: str, place: str) -> None:
    assert counted(machine(disk(name, place, bus="xen")), "disk", {"transport": "xen", "type": "ssd"}) == [name]


def test_zoned_and_read_only_disks_are_disks_and_can_be_left_out() -> None:
    zoned = ata("sda", 1, of_disk={"queue/zoned": "host-managed", "ro": "0"})
    read_only = ata("sdb", 2, "8:16", of_disk={"queue/zoned": "none", "ro": "1"})
    host = machine(zoned, read_only)
    assert counted(host, "disk") == ["sda", "sdb"]
    assert counted(host, "disk", {"attributes.ro": "0"}) == ["sda"]
    assert counted(host, "disk", {"attributes.queue/zoned": "none"}) == ["sdb"]


def test_boot_areas_of_memory_cards_are_parts_of_the_card() -> None:
    card = "/sys/devices/platform/soc/mmc_host/mmc0/mmc0:0001"
    parts = [disk(f"mmcblk0{part}", card, bus="mmc", number=f"179:{n}") for n, part in enumerate(("boot0", "boot1"), 8)]
    host = machine(
        disk("mmcblk0", card, bus="mmc", number="179:0", of_device={"name": "SC64G", "serial": "0x1"}), *parts
    )
    assert counted(host, "disk", {"transport": "mmc", "model": "SC64G", "serial": "0x1"}) == ["mmcblk0"]


def test_serial_and_wwn_are_often_missing_on_nvme_and_virtual_disks() -> None:
    virtual = disk("vda", VIRTIO, bus="virtio", number="252:0", of_device={"vendor": "0x1af4"}, of_disk={"serial": ""})
    host = machine(virtual, nvme(serial="", wwid=None))
    told = disk("vdb", VIRTIO.replace("1", "2"), bus="virtio", number="252:16", of_disk={"serial": "VBLK0"})
    assert values(machine(told), "disk", "serial") == {"vdb": "VBLK0"}
    for key in ("serial", "wwn"):
        assert counted(host, "disk", {key: ""}) == ["nvme0n1", "vda"]
    assert values(host, "disk", "vendor")["vda"] is None


def test_multipath_gives_identical_names_and_counts_once() -> None:
    wwid = {"wwid": "naa.600508b1001c4d2e"}
    paths = [disk(f"sd{x}", SAS.format(n), number=f"8:{16 * n}", of_device=wwid) for n, x in enumerate("abcd")]
    host = machine(*paths, disk("sde", SAS.format(9), number="8:64", of_device={"wwid": "naa.600508b1001cffff"}))
    assert counted(host, "disk") == ["sda", "sde"]


def test_multipath_counts_once_by_its_device_mapper_when_there_is_no_name() -> None:
    paths = [disk(f"sd{x}", SAS.format(n), number=f"8:{16 * n}", holders=["dm-0"]) for n, x in enumerate("ab")]
    host = machine(*paths, stacked("dm-0", ["sda", "sdb"], dm=("mpatha", "mpath-3600508b1001c4d2e")))
    assert counted(host, "disk") == ["sda"]


def test_the_size_of_a_disk_of_several_paths_is_what_any_of_them_tells() -> None:
    """The first path is on standby (ALUA): READ CAPACITY fails there, which the kernel takes for a size of 0."""
    wwid = {"wwid": "naa.600508b1001c4d2e"}
    paths = [
        disk(f"sd{x}", SAS.format(n), min(n, 1) * 10**12, number=f"8:{16 * n}", of_device=wwid)
        for n, x in enumerate("abc")
    ]
    assert values(machine(*paths), "disk", "size") == {"sda": 10**12}
    broken = errors({f"{SAS.format(0)}/block/sda/size": "EIO"})
    assert isinstance(look(machine(*paths, broken), "disk"), Unknown)


def test_without_a_size_on_any_path_it_is_no_disk() -> None:
    wwid = {"wwid": "naa.600508b1001c4d2e"}
    paths = [disk(f"sd{x}", SAS.format(n), 0, number=f"8:{16 * n}", of_device=wwid) for n, x in enumerate("ab")]
    assert counted(machine(*paths), "disk") == []


def test_a_volume_group_is_no_multipath() -> None:
    members = [disk(f"sd{x}", SAS.format(n), number=f"8:{16 * n}", holders=["dm-0"]) for n, x in enumerate("ab")]
    host = machine(*members, stacked("dm-0", ["sda", "sdb"], dm=("vg-data", "LVM-abcdef")))
    assert counted(host, "disk") == ["sda", "sdb"]


def test_an_enclosure_that_gives_all_its_disks_one_name_does_not_hide_any() -> None:
    wwid = {"wwid": "naa.5000000000000001"}
    host = machine(
        *(disk(f"sd{x}", USB.format(1, n), number=f"8:{16 * n}", of_device=wwid) for n, x in enumerate("ab"))
    )
    assert counted(host, "disk") == ["sda", "sdb"]


def test_a_sata_port_leads_to_a_disk_of_its_own_whatever_that_says() -> None:
    """Cheap ones all have the same world-wide name."""
    wwid = {"wwid": "naa.5000000000000000"}
    assert counted(machine(ata(of_device=wwid), ata("sdb", 2, "8:16", of_device=wwid)), "disk") == ["sda", "sdb"]


@pytest.mark.parametrize(("serials", "disks"), [(("A", "B"), ["nvme0n1", "nvme1n1"]), (("A", "A"), ["nvme0n1"])])
def test_nvme_disks_of_one_name_are_one_if_their_serial_number_is(serials: tuple[str, str], disks: list[str]) -> None:
    """Without native multipath two paths look alike; and so do disks whose maker gave all the same EUI."""
    both = [
        nvme(
            f"nvme{n}n1",
            s,
            wwid="eui.0000000000000001",
            at=f"/sys/devices/pci0000:0{n}/nvme/nvme{n}",
            number=f"259:{n}",
        )
        for n, s in enumerate(serials)
    ]
    assert counted(machine(*both), "disk") == disks


def test_nvme_disks_without_a_name_are_not_one_for_what_the_kernel_calls_them_instead() -> None:
    """As a cloud has them: every controller says the same serial number, and each has a first namespace."""
    called = "nvme.1ae0-6e766d655f63617264-6e766d655f63617264-00000001"
    both = [
        nvme(f"nvme{n}n1", "nvme_card", "nvme_card", called, at=f"/sys/devices/pci0000:0{n}/nvme/nvme{n}")
        for n in range(2)
    ]
    assert counted(machine(*both), "disk") == ["nvme0n1", "nvme1n1"]


def test_a_scsi_disk_without_a_usable_name_has_none() -> None:
    at = ATA.format(1)
    host = machine(ata(properties={"ID_WWN": "0x5000c5"}), errors({f"{at}/wwid": "EINVAL"}))
    assert values(host, "disk", "wwn") == {"sda": "0x5000c5"}


def test_names_read_as_lsblk_shows_them() -> None:
    host = machine(ata(of_device={"wwid": "naa.5000c500a1b2c3d4"}), nvme(wwid="eui.0025385b71b00c1d"))
    assert values(host, "disk", "wwn") == {"nvme0n1": "eui.0025385b71b00c1d", "sda": "0x5000c500a1b2c3d4"}
    assert counted(host, "disk", {"wwn": "0x5000C500A1B2C3D4"}) == ["sda"]


def test_the_serial_number_of_a_sata_disk_is_known_to_udev_only() -> None:
    one = ata(of_device={"vendor": "ATA     ", "model": "Samsung SSD 860 "}, properties={"ID_SERIAL_SHORT": "S3Z"})
    host = machine(one)
    assert counted(host, "disk", {"serial": "S3Z", "model": "Samsung SSD 860", "vendor": "ATA"}) == ["sda"]


def test_the_serial_number_of_a_scsi_disk_is_its_own_and_not_its_world_wide_name() -> None:
    """udev's "short serial" of one that has a WWN is the WWN; as real SAS disks and QEMU's have it."""
    known = {"ID_SERIAL_SHORT": "5000c50015ea71ac", "ID_SCSI_SERIAL": "ZC13F4AB"}
    one = disk("sda", SAS.format(1), of_device={"wwid": "naa.5000c50015ea71ac"}, properties=known)
    assert values(machine(one), "disk", "serial") == {"sda": "ZC13F4AB"}
    by_sg3 = disk("sda", SAS.format(1), properties=known | {"SCSI_IDENT_SERIAL": "ZC13"})
    assert values(machine(by_sg3), "disk", "serial") == {"sda": "ZC13"}


@pytest.mark.parametrize(
    ("driver", "transport"),
    [("ahci", "sata"), ("sata_nv", "sata"), ("ata_piix", "ata"), ("pata_amd", "ata"), (None, "sata")],
)
def test_parallel_ata_is_told_from_serial_by_its_driver(driver: str | None, transport: str) -> None:
    said = files({"/sys/class/scsi_host/host1/proc_name": f"{driver}\n"} if driver else {})
    assert values(machine(ata(), said), "disk", "transport") == {"sda": transport}


@pytest.mark.parametrize(
    ("one", "transport", "kind"),
    [
        (ata(), "sata", "ssd"),
        (ata(rotational=True), "sata", "hdd"),
        (disk("sda", SAS.format(1), rotational=True), "sas", "hdd"),
        (disk("sda", USB.format(1, 0)), "usb", "ssd"),
        (disk("sda", "/sys/devices/pci0000:3b/0000:3b:00.0/host0/target0:2:0/0:2:0:0"), "scsi", "ssd"),
        (disk("sda", "/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1"), "iscsi", "ssd"),
        (disk("sda", "/sys/devices/pci0000:3b/0000:3b:00.0/host1/rport-1:0-0/target1:0:0/1:0:0:0"), "fc", "ssd"),
        (disk("vda", VIRTIO, bus="virtio"), "virtio", "ssd"),
        (nvme(), "nvme", "nvme"),
        (nvme(transport="tcp"), "nvme-tcp", "nvme"),
    ],
)
def test_type_and_transport(one: Recording, transport: str, kind: str) -> None:
    host = machine(one)
    assert list(values(host, "disk", "transport").values()) == [transport]
    assert list(values(host, "disk", "type").values()) == [kind]
    assert len(counted(host, "disk", {"type": kind})) == 1


def test_with_multipath_what_carries_nvme_is_told_by_its_controllers() -> None:
    at, controller = "/sys/devices/virtual/nvme-subsystem/nvme-subsys6", "/sys/devices/virtual/nvme-fabrics/ctl/nvme6"
    head = nvme("nvme6n1", at=at)
    del head["files"][f"{at}/transport"]
    assert values(machine(head), "disk", "transport") == {"nvme6n1": "nvme"}
    path = merge({"links": {f"{at}/nvme6": controller}}, files({f"{controller}/transport": "rdma\n"}))
    assert values(machine(head, path), "disk", "transport") == {"nvme6n1": "nvme-rdma"}


def test_removable() -> None:
    host = machine(ata(), disk("sdb", USB.format(1, 0), removable=True, number="8:16"))
    assert counted(host, "disk", {"removable": False}) == ["sda"]
    assert counted(host, "disk", {"removable": True}) == ["sdb"]


def test_a_slash_in_a_name_is_written_as_one() -> None:
    host = machine(disk("cciss!c0d0", "/sys/devices/pci0000:3b/0000:3b:00.0/cciss0/c0d0", number="104:0"))
    assert counted(host, "disk", {"name": "cciss/c0d0"}) == ["cciss/c0d0"]


def test_a_grown_disk_reads_grown() -> None:
    for size in (10 * 2**30, 20 * 2**30):
        assert values(machine(ata(size=size)), "disk", "size") == {"sda": size}


@pytest.mark.parametrize("place", ["size", "removable", "queue/rotational", "hidden"])
def test_what_cannot_be_read_is_unknown(place: str) -> None:
    host = machine(ata(), errors({f"{ATA.format(1)}/block/sda/{place}": "EIO"}))
    assert isinstance(look(host, "disk", {"type": "ssd", "removable": False}), Unknown)


def test_a_disk_that_may_be_another_path_to_a_counted_one_is_not_counted_twice() -> None:
    wwid = {"wwid": "naa.600508b1001c4d2e"}
    paths = [disk(f"sd{x}", SAS.format(n), number=f"8:{16 * n}", of_device=wwid) for n, x in enumerate("ab")]
    host = machine(*paths, errors({f"{SAS.format(1)}/wwid": "EIO"}))
    assert isinstance(look(host, "disk"), Unknown)


def test_no_disk_is_absent() -> None:
    assert isinstance(look(machine(merge(stacked("loop0"), mounts(("/", "0:1", "tmpfs", "tmpfs")))), "disk"), Absent)
