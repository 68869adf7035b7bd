"""The system's disks: the disks below /, /boot, swap and the node's data, also through device mapper, RAID and btrfs.

The machine has the disks sda, sdb, sdc and nvme0n1. A mount has a point, a device number, a type and a source.
"""

from __future__ import annotations

import pytest

from capacityd.host.recording.replay import RecordedHost
from capacityd.host.system_disks import system_disks
from capacityd.model.reading import Unknown
from tests.support.machines import Recording, disk, errors, files, machine, merge, mount_table, mounts, nvme, stacked
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
ID = "5d" * 32
ON_B = ("8:17", "ext4", "/dev/sdb1")
FEWEST_FIELDS = "1 2 8:2 / / rw - ext4 /dev/sda2\n"


def of_pool(pool: str, **members: str) -> Recording:
    """A btrfs file system. members: the names of its devices, and the block devices to which their links lead."""
    return {"links": {f"/sys/fs/btrfs/{pool}/devices/{n}": f"/sys/class/block/{to}" for n, to in members.items()}}


def swap(name: str) -> Recording:
    """A machine with its root on sda, and a swap area on a device without hardware."""
    area = (f"/dev/{name.replace('!', '/')}", "partition")
    return merge(stacked(name, number="43:0"), mounts(ROOT, swaps=[area]))


def with_disks(*parts: Recording) -> RecordedHost:
    return machine(A, B, C, nvme(), *parts)


ROOT_RAID = stacked("md0", ["sda2"], "9:0")
POOL = merge(
    stacked("dm-0", ["sdb1"], "253:0", dm=("vg-meta", "LVM-m")),
    stacked("dm-1", ["sdc"], "253:1", dm=("vg-data", "LVM-d")),
    stacked("dm-2", ["dm-0", "dm-1"], "253:2", dm=("vg-pool", "LVM-p")),
    stacked("dm-3", ["dm-2"], "253:3", dm=("vg-thin", "LVM-t")),
)
CARD = merge(
    disk(
        "mmcblk0", "/sys/devices/platform/mmc0/mmc0:1", bus="mmc", number="179:0", partitions=["mmcblk0p1", "mmcblk0p2"]
    ),
    disk("mmcblk0gp0", "/sys/devices/platform/mmc0/mmc0:1", bus="mmc", number="179:64"),
)
LOOP, SWAP_LOOP = stacked("loop0", number="7:0"), stacked("loop1", number="7:8")
ON_C = ("/srv", "8:32", "ext4", "/dev/sdc")
NOTHING = "0:0\n"


ON_LOOP, ON_DRBD = ("7:0", "squashfs", "/dev/loop0"), ("147:0", "xfs", "/dev/drbd0")
UBI = ("/", "0:15", "ubifs", "ubi0:rootfs")


FIRMWARE = ("/boot/firmware", "0:40", "autofs", "systemd-1")


def unit(what: str) -> Recording:
    return files({"/run/systemd/generator/boot-firmware.mount": f"[Mount]\nWhat={what}\nType=vfat\n"})


def linked(name: str, link: str) -> Recording:
    """udev's properties of a partition of sdb with this link. The service finds links there, not in its own /dev."""
    return {"properties": {f"{AT.format(2)}/block/sdb/{name}": {"DEVLINKS": f"/dev/disk/by-path/x {link}"}}}


def loop_file(path: str) -> Recording:
    return files({"/sys/devices/virtual/block/loop0/loop/backing_file": f"{path}\n"})


def in_file(loop: Recording, path: str) -> Recording:
    """The loop device on this file, which exists."""
    name = next(path.rpartition("/")[2] for path in loop["links"] if path.startswith("/sys/block/"))
    attribute = {f"/sys/devices/virtual/block/{name}/loop/backing_file": f"{path}\n"}
    return merge(loop, files({**attribute, path: ""}))


def zram(backing: str) -> Recording:
    attribute = {"/sys/devices/virtual/block/zram0/backing_dev": f"{backing}\n"}
    return merge(stacked("zram0", number="252:0"), files(attribute))


def line(point: str, number: str, kind: str, source: str, options: str) -> Recording:
    """A machine with / on sda2, and with this mount."""
    return mount_table("8:2 / / ext4 /dev/sda2 rw", f"{number} / {point} {kind} {source} rw,{options}")


def layers(options: str, *folders: str) -> Recording:
    mounted = ("8:2 / / ext4 /dev/sda2 rw", "8:32 / /srv ext4 /dev/sdc rw", "0:9 / /run tmpfs x rw")
    return merge(mount_table(*mounted, f"0:52 / /etc overlay overlay rw,{options}"), {"folders": list(folders)})


def journals(*names: str) -> Recording:
    return {"folders": [f"/proc/fs/jbd2/{name}" for name in names]}


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ("sda", with_disks(mounts(ROOT, UNPRIVILEGED))),
        ("sda", with_disks(mounts(ROOT, OVER, ("/mnt/a\\040b", "8:32", "ext4", "/dev/sdc")))),
        *(
            ("sda sdb", with_disks(mounts(ROOT, (point, "8:17", "vfat", "/dev/sdb1"))))
            for point in ("/boot", "/boot/firmware", "/efi", "/etc", "/etc/x", "/usr", "/usr/share/oem", "/var")
        ),
        ("sda sdb", with_disks(CRYPT, VOLUME, mounts(("/", "253:1", "ext4", "/dev/mapper/vg-root")))),
        # A container's root file system is on a disk that Docker needs. A volume is on a disk of the pod.
        ("sda sdb", with_disks(mounts(ROOT, (f"/var/lib/docker/devicemapper/mnt/{ID}", "8:17", "ext4", "/dev/sdb1")))),
        ("sda", with_disks(mounts(ROOT, (f"/var/lib/kubelet/plugins/kubernetes.io/csi/x/{ID}/globalmount", *ON_B)))),
        ("sda sdb", with_disks(RAID, mounts(("/", "9:128", "ext4", "/dev/md127p1")))),
        ("nvme6n1", with_disks(MULTIPATH, mounts(("/", "259:5", "ext4", "/dev/nvme6n1p1")))),
        ("sda sdb", with_disks(mounts(ROOT, swaps=[("/dev/sdb1", "partition")]))),
        *(("sda", with_disks(swap(name))) for name in ("ram1", "zram0", "nbd0", "rbd0")),
        ("sda sdc", with_disks(mounts(ROOT, DATA, swaps=SWAP_FILE))),
        ("sda sdc", with_disks(mounts(DATA, ROOT, swaps=SWAP_FILE))),  # the innermost mount counts, in any order
        ("sda", with_disks(mounts(DATA, ROOT, swaps=[("/swapfile", "file")]))),
        # A later mount hides an earlier one. "/my database" only shares a prefix with another mount point.
        ("sda sdb", with_disks(mounts(ROOT, DATA, OVER, BESIDE, swaps=SWAP_FILE))),
        ("sda", with_disks(files({"/proc/self/mountinfo": FEWEST_FIELDS, "/proc/swaps": "Filename\n"}))),
        # A btrfs mount has a made-up device number, and names only one of its devices.
        # Here, another file system has lost a device.
        *(
            ("sda sdb", with_disks(of_pool("2", sda2="sda2", sdb1="sdb1"), of_pool(pool, sdc="gone"), mounts(BTRFS)))
            for pool in ("1", "3")
        ),
        ("sdb", with_disks(mounts(BTRFS))),
        ("sda", with_disks(CRYPT, mounts(("/", "0:25", "btrfs", "/dev/mapper/my\\040root")))),
        ("sda", with_disks(BY_UUID, mounts(("/", "0:25", "btrfs", "/dev/disk/by-uuid/01")))),
        # systemd-gpt-auto-generator mounts the root disk's boot partitions at the first access.
        ("sda", with_disks(GENERATED, mounts(ROOT, AUTOMOUNT))),
        ("sda", with_disks(GENERATED, mounts(ROOT, AUTOMOUNT, ("/efi", "8:1", "vfat", "/dev/sda1")))),
        ("sda sdb", with_disks(mounts(ROOT, AUTOMOUNT, ("/efi", "8:17", "vfat", "/dev/sdb1")))),
        ("sda", with_disks(mounts(ROOT, USR, ETC))),  # system extensions are on the disks of the layers below
        ("sda sdb", with_disks(mounts(ROOT, ("/usr", "8:17", "squashfs", "/dev/sdb1"), USR))),
        *(("", with_disks(mounts(("/", "0:25", kind, "server:/root")))) for kind in ("nfs4", "tmpfs", "virtiofs")),
        # zram with write-back to a partition, a whole disk and a volume; without
        ("sda sdb", with_disks(zram("/dev/sdb1"), mounts(ROOT, swaps=[("/dev/zram0", "partition")]))),
        ("sda sdc", with_disks(zram("/dev/sdc"), mounts(ROOT, swaps=[("/dev/zram0", "partition")]))),
        ("sda sdb", with_disks(zram("/dev/dm-0"), ON_VOLUME, mounts(ROOT, ("/var", "252:0", "ext4", "/dev/zram0")))),
        ("sda", with_disks(zram("none"), mounts(ROOT, swaps=[("/dev/zram0", "partition")]))),
        # further devices of a file system
        ("sda sdb", with_disks(line("/var", "8:1", "xfs", "/dev/sda1", "logdev=/dev/sdb1"))),
        ("sda sdb sdc", with_disks(line("/var", "8:1", "xfs", "/dev/sda1", "logdev=/dev/sdb1,rtdev=/dev/sdc"))),
        ("sda sdb", with_disks(ON_VOLUME, line("/usr", "8:1", "xfs", "/dev/sda1", "rtdev=/dev/mapper/vg-root"))),
        ("sda sdb", with_disks(line("/var", "8:1", "reiserfs", "/dev/sda1", "jdev=/dev/sdb1"))),
        ("sda", with_disks(journals("sda2-8"), mounts(ROOT))),
        ("sda sdb", with_disks(journals("sdb1"), mounts(ROOT))),
        ("sda", with_disks(journals("sda2-8", "sdb1"), mounts(ROOT, ON_C))),  # another file system's journal
        ("sda sdb", with_disks(journals("dm-0"), ON_VOLUME, mounts(ROOT))),
        # files: loop devices, layers of an overlay, an image
        (
            "sda sdc",
            with_disks(in_file(LOOP, "/srv/x.img"), mounts(ROOT, ON_C, ("/usr", "7:0", "squashfs", "/dev/loop0"))),
        ),
        ("sda", with_disks(in_file(LOOP, "/x.img"), mounts(ROOT, ON_C, ("/usr", "7:0", "squashfs", "/dev/loop0")))),
        ("sda sdc", with_disks(in_file(LOOP, "/dev/sdc"), mounts(ROOT, swaps=[("/dev/loop0", "partition")]))),
        (
            "sda sdc",
            with_disks(
                *(in_file(LOOP, "/srv/a"), in_file(SWAP_LOOP, "/mnt/b")),
                mounts(ROOT, ON_C, ("/mnt", "7:0", "ext4", "/dev/loop0"), swaps=[("/dev/loop1", "partition")]),
            ),
        ),
        ("sda sdc", with_disks(layers("lowerdir=/l,upperdir=/srv/u,workdir=/srv/w", "/l", "/srv/u", "/srv/w"))),
        ("sda sdc", with_disks(layers(r"lowerdir=/l::/srv/a\134:b,xino=off", "/l", "/srv/a:b"))),
        ("sda", with_disks(layers("lowerdir+=/l,datadir+=/run/d", "/l", "/run/d"))),
        (
            "sda sdc",
            with_disks(
                line("/usr", "0:9", "erofs", "/srv/x", ""),
                mounts(ROOT, ON_C, ("/usr", "0:9", "erofs", "/srv/x")),
                {"folders": ["/srv/x"]},
            ),
        ),
        # block devices on others
        ("sda sdb sdc", with_disks(POOL, mounts(ROOT, ("/var", "253:3", "xfs", "/dev/mapper/vg-thin")))),
        ("sda", with_disks(ROOT_RAID, mounts(("/", "9:0", "ext4", "/dev/md0")))),
        (
            "sda sdb sdc",
            with_disks(
                stacked("bcache0", ["sdb1", "sdc"], "251:0"), mounts(ROOT, ("/var", "251:0", "xfs", "/dev/bcache0"))
            ),
        ),
        ("mmcblk0", with_disks(CARD, mounts(("/", "179:64", "ext4", "/dev/mmcblk0gp0")))),
        # file systems without a disk: FUSE on a disk, flash memory
        ("sda sdb", with_disks(mounts(ROOT, ("/var", "8:17", "fuseblk", "/dev/sdb1")))),
        ("", with_disks(mounts(("/", "0:15", "ubifs", "ubi0:rootfs")))),
        ("", with_disks(mounts(("/", "0:15", "jffs2", "mtd:rootfs")))),
        # an automount that has not been accessed, with a unit from /etc/fstab
        ("sda sdb", with_disks(unit("/dev/sdb1"), mounts(ROOT, FIRMWARE))),
        (
            "sda sdb",
            with_disks(unit("/dev/disk/by-uuid/9"), linked("sdb1", "/dev/disk/by-uuid/9"), mounts(ROOT, FIRMWARE)),
        ),
        # the swap area for hibernation, in use or not
        ("sda sdb", with_disks(files({"/sys/power/resume": "8:17\n"}), mounts(ROOT))),
        ("sda", with_disks(files({"/sys/power/resume": NOTHING}), mounts(ROOT))),
        # folders of the node
        *(
            ("sda sdc", with_disks(mounts(ROOT, (point, "8:32", "xfs", "/dev/sdc"))))
            for point in ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/docker", "/var/lib/rancher")
        ),
        *(("sda", with_disks(mounts(ROOT, (p, "8:32", "xfs", "/dev/sdc")))) for p in ("/srv", "/mnt/disks/1", "/home")),
        (
            "sda",
            with_disks(mounts(ROOT, ("/etc/pve", "0:50", "fuse", "/dev/fuse"), ("/usr/x", "0:51", "proc", "proc"))),
        ),
    ],
)
def test_disks_below_the_systems_mounts_are_the_systems(names: str, host: RecordedHost) -> None:
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
        ("/gone does not exist here", with_disks(layers("lowerdir=/gone:/l", "/l"))),
        ("its layers are unknown", with_disks(layers("xino=off"))),
        ("x does not exist here", with_disks(layers("lowerdir=x"))),
        ("/x (deleted) does not exist", with_disks(LOOP, loop_file("/x (deleted)"), mounts(ROOT, ("/usr", *ON_LOOP)))),
        ("boot-firmware.automount has not", with_disks(mounts(ROOT, FIRMWARE))),
        ("boot-firmware.automount has not", with_disks(unit("server:/boot"), mounts(ROOT, FIRMWARE))),
        ("the hibernation area 8:99", with_disks(files({"/sys/power/resume": "8:99\n"}), mounts(ROOT))),
        ("no block device /dev/gone", with_disks(line("/var", "8:1", "xfs", "/dev/sda1", "logdev=/dev/gone"))),
        ("below drbd0 are unknown", with_disks(stacked("drbd0", number="147:0"), mounts(ROOT, ("/var", *ON_DRBD)))),
        ("sda2 is a dangling link", with_disks(of_pool("1", sdb1="sdb1", sda2="gone"), mounts(BTRFS))),
        ("cannot determine the disk of /efi", with_disks(mounts(ROOT, AUTOMOUNT))),
        ("/boot", with_disks(GENERATED, mounts(ROOT, ("/boot", "0:37", "autofs", "systemd-1")))),
        ("/etc", with_disks(mounts(ROOT, ("/etc", "0:52", "overlay", "overlay")))),
        ("/usr", with_disks(mounts(ROOT, ("/usr", "0:51", "fuse", "sysext")))),
        ("mountinfo", with_disks(files({"/proc/self/mountinfo": ""}))),
        *(
            ("a malformed line", with_disks(files({"/proc/self/mountinfo": f"{FEWEST_FIELDS}{line}\n"})))
            for line in ("3 2 8:17 / /usr rw", "4 2 8:17 - xfs /dev/sdb1", "5 2 8:17 / /usr rw - xfs")
        ),
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


def test_while_the_list_is_incomplete_no_disk_counts_as_free() -> None:
    host = machine(A, B, mounts(("/", "0:25", "zfs", "rpool"), ("/boot", "8:17", "ext4", "/dev/sdb1")))
    by_device = values(host, "disk", "system")
    assert by_device["sdb"] is True
    assert str(by_device["sda"]).startswith("unknown: cannot determine the disk of / (zfs from rpool)")
    assert isinstance(read(host, "disk", {"system": False}), Unknown)
    assert counted(host, "disk") == ["sda", "sdb"]


def test_a_disk_with_several_paths_is_the_systems_if_any_path_is() -> None:
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
