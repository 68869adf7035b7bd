"""The system's disks: those below /, /boot and swap, traced through partitions, dm, md and multi-device btrfs."""

from __future__ import annotations

import pytest

from capacityd.host.recording.replay import RecordedHost
from capacityd.host.system_devices import system_disks
from capacityd.model.reading import Unknown
from tests.support.machines import Recording, disk, errors, files, machine, merge, mounts, nvme, stacked
from tests.support.readings import counted, read, values

AT = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
A = disk("sda", AT.format(1), number="8:0", partitions=["sda1", "sda2", "sda3"])
B = disk("sdb", AT.format(2), number="8:16", partitions=["sdb1"])
C = disk("sdc", AT.format(3), number="8:32")
ROOT = ("/", "8:2", "ext4", "/dev/sda2")
DATA, OVER = ("/my\\040data", "8:32", "xfs", "/dev/sdc"), ("/my\\040data", "8:17", "xfs", "/dev/sdb1")
BESIDE = ("/my\\040database", "259:0", "xfs", "/dev/nvme0n1")
SWAP_FILE = [("/my\\040data/swap\\040file", "file")]
UNPRIVILEGED = ("/proc", "0:21", "proc", "proc")
BTRFS = ("/", "0:25", "btrfs", "/dev/sdb1")
BY_UUID = {"links": {"/dev/disk/by-uuid/01": "../../sda2"}, "files": {"/dev/sda2": ""}}
CRYPT = stacked("dm-0", ["sda3"], "253:0", dm=("my root", "CRYPT-LUKS2-x"))
VOLUME = stacked("dm-1", ["dm-0", "sdb"], "253:1", dm=("vg-root", "LVM-x"))
RAID = stacked("md127", ["sda2", "sdb1"], "9:127", partitions=["md127p1"])
ON_VOLUME = stacked("dm-0", ["sdb"], dm=("vg-root", "LVM-x"))
MULTIPATH = nvme(
    "nvme6n1", at="/sys/devices/virtual/nvme-subsystem/nvme-subsys6", number="259:4", partitions=["nvme6n1p1"]
)
AUTOMOUNT = ("/efi", "0:37", "autofs", "systemd-1")
GENERATED = files({"/run/systemd/generator.late/efi.automount": "[Automount]\n"})
USR, ETC = ("/usr", "0:51", "overlay", "sysext"), ("/etc", "0:52", "overlay", "confext")
FEWEST_FIELDS_AND_MALFORMED = (
    "1 2 8:2 / / rw - ext4 /dev/sda2\n3 2 8:17 / /usr rw\n4 2 8:17 - xfs /dev/sdb1\n5 2 8:17 / /usr rw - xfs\n"
)


def of_pool(pool: str, **members: str) -> Recording:
    """Returns a btrfs file system. members: device name -> name of the block device that its link leads to."""
    return {"links": {f"/sys/fs/btrfs/{pool}/devices/{n}": f"/sys/class/block/{to}" for n, to in members.items()}}


def swap(name: str) -> Recording:
    """Returns a machine with its root on sda, and a swap area on a device without hardware."""
    area = (f"/dev/{name.replace('!', '/')}", "partition")
    return merge(stacked(name, number="43:0"), mounts(ROOT, swaps=[area]))


def with_disks(*parts: Recording) -> RecordedHost:
    return machine(A, B, C, nvme(), *parts)


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ("sda", with_disks(mounts(ROOT, UNPRIVILEGED))),
        ("sda", with_disks(mounts(ROOT, OVER, ("/mnt/a\\040b", "8:32", "ext4", "/dev/sdc")))),
        *(
            ("sda sdb", with_disks(mounts(ROOT, (point, "8:17", "vfat", "/dev/sdb1"))))
            for point in ("/boot", "/boot/efi", "/efi", "/etc", "/usr", "/var")
        ),
        ("sda sdb", with_disks(CRYPT, VOLUME, mounts(("/", "253:1", "ext4", "/dev/mapper/vg-root")))),
        ("sda sdb", with_disks(RAID, mounts(("/", "9:128", "ext4", "/dev/md127p1")))),
        ("nvme6n1", with_disks(MULTIPATH, mounts(("/", "259:5", "ext4", "/dev/nvme6n1p1")))),
        ("sda sdb", with_disks(mounts(ROOT, swaps=[("/dev/sdb1", "partition")]))),
        *(("sda", with_disks(swap(name))) for name in ("ram1", "zram0", "nbd0", "rbd0", "etherd!e1.1")),
        ("sda sdc", with_disks(mounts(ROOT, DATA, swaps=SWAP_FILE))),
        ("sda sdc", with_disks(mounts(DATA, ROOT, swaps=SWAP_FILE))),  # the innermost mount counts, in any order
        ("sda", with_disks(mounts(DATA, ROOT, swaps=[("/swapfile", "file")]))),
        # A later mount hides an earlier one. "/my database" only shares a prefix with another mount point.
        ("sda sdb", with_disks(mounts(ROOT, DATA, OVER, BESIDE, swaps=SWAP_FILE))),
        ("sda", with_disks(files({"/proc/self/mountinfo": FEWEST_FIELDS_AND_MALFORMED, "/proc/swaps": "Filename\n"}))),
        # A btrfs mount has a made-up device number, and names only one of its devices.
        ("sda sdb", with_disks(of_pool("1", sda2="sda2", sdb1="sdb1"), of_pool("2", sdc="sdc"), mounts(BTRFS))),
        ("sdb", with_disks(mounts(BTRFS))),
        ("sda", with_disks(CRYPT, mounts(("/", "0:25", "btrfs", "/dev/mapper/my\\040root")))),
        ("sda", with_disks(BY_UUID, mounts(("/", "0:25", "btrfs", "/dev/disk/by-uuid/01")))),
        ("sda sdb", with_disks(mounts(("/", "0:25", "bcachefs", "/dev/sda2:/dev/sdb1")))),
        # systemd-gpt-auto-generator mounts the root disk's boot partitions at the first access.
        ("sda", with_disks(GENERATED, mounts(ROOT, AUTOMOUNT))),
        ("sda", with_disks(GENERATED, mounts(ROOT, AUTOMOUNT, ("/efi", "8:1", "vfat", "/dev/sda1")))),
        ("sda sdb", with_disks(mounts(ROOT, AUTOMOUNT, ("/efi", "8:17", "vfat", "/dev/sdb1")))),
        ("sda", with_disks(mounts(ROOT, USR, ETC))),  # system extensions are on the disks of the layers below
        ("sda sdb", with_disks(mounts(ROOT, ("/usr", "8:17", "squashfs", "/dev/sdb1"), USR))),
        *(("", with_disks(mounts(("/", "0:25", kind, "server:/root")))) for kind in ("nfs4", "tmpfs", "virtiofs")),
    ],
)
def test_the_systems_disks(names: str, host: RecordedHost) -> None:
    disks = system_disks(host)
    assert (sorted(disks.names), disks.incomplete_because) == (names.split(), "")


@pytest.mark.parametrize(
    ("reason", "host"),
    [
        *(
            ("cannot determine the disk of /", with_disks(stacked("loop0", number="7:0"), mounts(("/", *root))))
            for root in (
                ("0:25", "zfs", "rpool/ROOT/debian"),
                ("0:25", "zfs", "sdb"),
                ("0:25", "overlay", "overlay"),
                ("0:25", "btrfs", "/dev/root"),
                ("8:99", "ext4", "/dev/gone"),
                ("7:0", "squashfs", "/dev/loop0"),
            )
        ),
        ("sdb1 is a dangling link", with_disks(of_pool("1", sdb1="gone", sda2="sda2"), mounts(BTRFS))),
        ("cannot determine the disk of /efi", with_disks(mounts(ROOT, AUTOMOUNT))),
        ("/boot", with_disks(GENERATED, mounts(ROOT, ("/boot", "0:37", "autofs", "systemd-1")))),
        ("/etc", with_disks(mounts(ROOT, ("/etc", "0:52", "overlay", "overlay")))),
        ("/usr", with_disks(mounts(ROOT, ("/usr", "0:51", "fuse", "sysext")))),
        ("mountinfo", with_disks(files({"/proc/self/mountinfo": ""}))),
        ("mountinfo", with_disks(mounts(UNPRIVILEGED))),
        *(
            (
                f"{place} could not be read",
                with_disks(ON_VOLUME, mounts(ROOT, ("/usr", "253:0", "ext4", "/dev/dm-0")), errors({place: "EACCES"})),
            )
            for place in (
                *("/proc/self/mountinfo", "/proc/swaps", "/sys/dev/block/8:2"),
                "/sys/devices/virtual/block/dm-0/slaves",
            )
        ),
    ],
)
def test_a_list_that_may_be_incomplete_says_why(reason: str, host: RecordedHost) -> None:
    assert reason in system_disks(host).incomplete_because


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
        disk(
            f"sd{x}",
            f"/sys/devices/pci0000:3b/host{n}/target{n}:0:0",
            number=f"8:{16 * n}",
            of_device=wwid,
            properties={"ID_SCSI_SERIAL": "Z1D0"},
        )
        for n, x in enumerate("ab")
    ]
    assert counted(machine(*paths, mounts(("/", "8:16", "ext4", "/dev/sdb"))), "disk", {"system": True}) == ["sda"]
