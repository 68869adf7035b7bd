"""Which disk is the system's: below /, /boot, swap, through partitions, dm, md and file systems of several devices."""

from __future__ import annotations

import pytest

from capacityd.host.system_devices import system_disks
from capacityd.model.reading import Unknown
from tests.support.machines import Recording, disk, errors, files, machine, merge, mounts, nvme, stacked
from tests.support.readings import counted, read, values

AT = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
A = disk("sda", AT.format(1), number="8:0", partitions=["sda1", "sda2", "sda3"])
B = disk("sdb", AT.format(2), number="8:16", partitions=["sdb1"])
C = disk("sdc", AT.format(3), number="8:32")
ROOT = ("/", "8:2", "ext4", "/dev/sda2")
UNPRIVILEGED = ("/proc", "0:21", "proc", "proc")


def names(*parts: Recording) -> set[str]:
    disks = system_disks(machine(A, B, C, nvme(), *parts))
    assert disks.incomplete_because == ""
    return set(disks.names)


def doubt(*parts: Recording) -> str:
    return system_disks(machine(A, B, C, nvme(), *parts)).incomplete_because


def test_the_disk_below_a_partition() -> None:
    assert names(mounts(ROOT, UNPRIVILEGED)) == {"sda"}


def test_other_mounts_make_no_system_disk() -> None:
    data = ("/var/lib/data", "8:17", "xfs", "/dev/sdb1")
    assert names(mounts(ROOT, data, ("/mnt/a\\040b", "8:32", "ext4", "/dev/sdc"))) == {"sda"}


@pytest.mark.parametrize("point", ["/boot", "/boot/efi", "/efi", "/etc", "/usr", "/var"])
def test_what_belongs_to_the_system_besides_the_root(point: str) -> None:
    assert names(mounts(ROOT, (point, "8:17", "vfat", "/dev/sdb1"))) == {"sda", "sdb"}


def test_through_encryption_and_volume_groups() -> None:
    crypt = stacked("dm-0", ["sda3"], "253:0", dm=("luks-root", "CRYPT-LUKS2-x"))
    volume = stacked("dm-1", ["dm-0", "sdb"], "253:1", dm=("vg-root", "LVM-x"))
    assert names(crypt, volume, mounts(("/", "253:1", "ext4", "/dev/mapper/vg-root"))) == {"sda", "sdb"}


def test_through_a_raid_and_its_partitions() -> None:
    raid = stacked("md127", ["sda2", "sdb1"], "9:127", partitions=["md127p1"])
    assert names(raid, mounts(("/", "9:128", "ext4", "/dev/md127p1"))) == {"sda", "sdb"}


def test_swap_partitions_and_swap_files() -> None:
    data = ("/my\\040data", "8:32", "xfs", "/dev/sdc")
    swaps = [("/dev/sdb1", "partition"), ("/my\\040data/swap\\040file", "file"), ("/dev/zram0", "partition")]
    zram = stacked("zram0", number="251:0")
    assert names(zram, mounts(ROOT, data, swaps=swaps)) == {"sda", "sdb", "sdc"}


def test_a_swap_file_below_a_hidden_mount_is_on_the_mount_that_shows() -> None:
    swaps = [("/data/swap", "file")]
    below = ("/data", "8:32", "xfs", "/dev/sdc")
    above = ("/data", "8:17", "xfs", "/dev/sdb1")
    assert names(mounts(ROOT, below, above, ("/database", "259:0", "xfs", "/dev/nvme0n1"), swaps=swaps)) == {
        "sda",
        "sdb",
    }


def test_a_swap_file_is_on_the_innermost_file_system_however_the_mounts_are_ordered() -> None:
    data = ("/data", "8:32", "xfs", "/dev/sdc")
    assert names(mounts(data, ROOT, swaps=[("/swapfile", "file")])) == {"sda"}
    assert names(mounts(data, ROOT, swaps=[("/data/swap", "file")])) == {"sda", "sdc"}


def test_mounts_with_the_fewest_fields_and_malformed_lines() -> None:
    lines = "1 2 8:2 / / rw - ext4 /dev/sda2\n3 2 8:17 / /usr rw\n4 2 8:17 - xfs /dev/sdb1\n5 2 8:17 / /usr rw - xfs\n"
    assert names(files({"/proc/self/mountinfo": lines, "/proc/swaps": "Filename\n"})) == {"sda"}


def test_nvme_with_multipath() -> None:
    head = nvme(
        "nvme6n1", at="/sys/devices/virtual/nvme-subsystem/nvme-subsys6", number="259:4", partitions=["nvme6n1p1"]
    )
    assert names(head, mounts(("/", "259:5", "ext4", "/dev/nvme6n1p1"))) == {"nvme6n1"}


def test_btrfs_makes_up_its_number_and_names_one_of_its_devices() -> None:
    pool = "/sys/fs/btrfs/0ac6b6b0/devices"
    members = {"links": {f"{pool}/{n}": f"../../../../class/block/{n}" for n in ("sda2", "sdb1")}}
    another = {"links": {"/sys/fs/btrfs/01/devices/sdc": "../../../../class/block/sdc"}}
    root = ("/", "0:25", "btrfs", "/dev/sdb1")
    assert names(members, another, mounts(root)) == {"sda", "sdb"}
    assert names(mounts(root)) == {"sdb"}


def test_a_btrfs_member_that_leads_nowhere_may_be_any_disk() -> None:
    pool = "/sys/fs/btrfs/0ac6b6b0/devices"
    members = {
        "links": {f"{pool}/sda2": "../../../../class/block/sda2", f"{pool}/sdb1": "../../../../class/block/gone"}
    }
    assert f"{pool}/sdb1 is a dangling link" in doubt(members, mounts(("/", "0:25", "btrfs", "/dev/sda2")))


def test_btrfs_on_a_mapped_device() -> None:
    crypt = stacked("dm-0", ["sda3"], "253:0", dm=("my root", "CRYPT-LUKS2-x"))
    assert names(crypt, mounts(("/", "0:25", "btrfs", "/dev/mapper/my\\040root"))) == {"sda"}


def test_an_automount_that_systemd_generated_is_on_the_roots_disk() -> None:
    """systemd-gpt-auto-generator mounts the partitions that firmware boots from at the first access, on /boot or /efi.
    It searches the root's disk only."""
    made = files({"/run/systemd/generator.late/efi.automount": "[Automount]\n"})
    waiting = ("/efi", "0:37", "autofs", "systemd-1")
    assert names(made, mounts(ROOT, waiting)) == {"sda"}
    assert names(made, mounts(ROOT, waiting, ("/efi", "8:1", "vfat", "/dev/sda1"))) == {"sda"}
    assert "/boot" in doubt(made, mounts(ROOT, ("/boot", "0:37", "autofs", "systemd-1")))


def test_system_extensions_are_on_the_disks_below() -> None:
    usr, etc = ("/usr", "0:51", "overlay", "sysext"), ("/etc", "0:52", "overlay", "confext")
    assert names(mounts(ROOT, usr, etc)) == {"sda"}
    assert names(mounts(ROOT, ("/usr", "8:17", "squashfs", "/dev/sdb1"), usr)) == {"sda", "sdb"}
    assert "/etc" in doubt(mounts(ROOT, ("/etc", "0:52", "overlay", "overlay")))
    assert "/usr" in doubt(mounts(ROOT, ("/usr", "0:51", "fuse", "sysext")))


def test_an_automount_of_fstab_may_be_on_any_disk_until_it_is_mounted() -> None:
    waiting = ("/boot/efi", "0:37", "autofs", "systemd-1")
    assert "cannot determine the disk of /boot/efi" in doubt(mounts(ROOT, waiting))
    assert names(mounts(ROOT, waiting, ("/boot/efi", "8:17", "vfat", "/dev/sdb1"))) == {"sda", "sdb"}


def test_a_source_that_is_a_link() -> None:
    node = {"links": {"/dev/disk/by-uuid/01": "../../sda2"}, "files": {"/dev/sda2": ""}}
    assert names(node, mounts(("/", "0:25", "btrfs", "/dev/disk/by-uuid/01"))) == {"sda"}


def test_bcachefs_names_all_its_devices() -> None:
    assert names(mounts(("/", "0:25", "bcachefs", "/dev/sda2:/dev/sdb1"))) == {"sda", "sdb"}


@pytest.mark.parametrize("name", ["ram1", "zram0", "nbd0", "rbd0", "etherd!e1.1"])
def test_swap_in_memory_or_across_the_network_is_on_no_disk(name: str) -> None:
    swap = stacked(name, number="43:0")
    assert names(swap, mounts(ROOT, swaps=[(f"/dev/{name.replace('!', '/')}", "partition")])) == {"sda"}


@pytest.mark.parametrize("kind", ["9p", "ceph", "cifs", "nfs", "nfs4", "ramfs", "rootfs", "smb3", "tmpfs", "virtiofs"])
def test_a_root_in_memory_or_on_the_network_is_on_no_disk(kind: str) -> None:
    assert names(mounts(("/", "0:25", kind, "server:/root"))) == set()


@pytest.mark.parametrize(
    "root",
    [
        ("/", "0:25", "zfs", "rpool/ROOT/debian"),
        ("/", "0:25", "zfs", "sdb"),
        ("/", "0:25", "overlay", "overlay"),
        ("/", "0:25", "btrfs", "/dev/root"),
        ("/", "8:99", "ext4", "/dev/gone"),
        ("/", "7:0", "squashfs", "/dev/loop0"),
    ],
)
def test_an_undeterminable_root_makes_the_list_incomplete(root: tuple[str, str, str, str]) -> None:
    loop = stacked("loop0", number="7:0")
    assert "cannot determine the disk of /" in doubt(loop, mounts(root))


def test_without_mounts_the_list_is_incomplete() -> None:
    assert "mountinfo" in doubt(files({"/proc/self/mountinfo": ""}))
    assert "mountinfo" in doubt(mounts(UNPRIVILEGED))
    assert "mountinfo" in doubt(errors({"/proc/self/mountinfo": "EACCES"}))


def test_an_incomplete_list_never_makes_a_disk_free() -> None:
    host = machine(A, B, mounts(("/", "0:25", "zfs", "rpool"), ("/boot", "8:17", "ext4", "/dev/sdb1")))
    by_device = values(host, "disk", "system")
    assert by_device["sdb"] is True
    assert str(by_device["sda"]).startswith("unknown: cannot determine the disk of / (zfs from rpool)")
    assert isinstance(read(host, "disk", {"system": False}), Unknown)
    assert counted(host, "disk") == ["sda", "sdb"]


def test_a_disk_of_several_paths_is_the_systems_by_any_of_them() -> None:
    wwid = {"wwid": "naa.600508b1001c4d2e"}
    paths = [
        disk(f"sd{x}", f"/sys/devices/pci0000:3b/host{n}/target{n}:0:0", number=f"8:{16 * n}", of_device=wwid)
        for n, x in enumerate("ab")
    ]
    assert counted(machine(*paths, mounts(("/", "8:16", "ext4", "/dev/sdb"))), "disk", {"system": True}) == ["sda"]


@pytest.mark.parametrize("place", ["/proc/swaps", "/sys/dev/block/8:2", "/sys/devices/virtual/block/dm-0/slaves"])
def test_an_unreadable_path_makes_the_list_incomplete(place: str) -> None:
    volume = stacked("dm-0", ["sdb"], dm=("vg-root", "LVM-x"))
    root = merge(volume, mounts(ROOT, ("/usr", "253:0", "ext4", "/dev/mapper/vg-root")))
    assert doubt(root) == ""
    assert "could not be read" in doubt(root, errors({place: "EACCES"}))
