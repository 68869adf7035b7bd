r"""The system's disks: the disks below /, /boot, swap and the node's data, also through device mapper, RAID and btrfs.

The machine has the disks sda, sdb, sdc and nvme0n1. A line of a mount table has a device number, a folder of the file
system, the mount point, a type, a source and options. \040 is a space.
"""

from __future__ import annotations

import pytest

from capacityd.host.system_disks import system_disks
from capacityd.model.reading import Unknown
from tests.support.machines import Recording, disk, errors, files, machine, merge, mount_table, nvme, stacked
from tests.support.readings import counted, read, values
from tests.unit.detectors.test_disk import scsi_disk, scsi_disks

AT = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
SDA = scsi_disk(0, AT, partitions=["sda1", "sda2", "sda3"])
SDB = scsi_disk(1, AT, partitions=["sdb1"])
SDC = scsi_disk(2, AT)
ROOT = "8:2 / / ext4 /dev/sda2 rw"
ON_SDC = "8:32 / /srv ext4 /dev/sdc rw"
BTRFS = "0:25 / / btrfs /dev/sdb1 rw"
OVERLAY = "0:52 / {0} overlay overlay rw,{1}"
AUTOMOUNT, FIRMWARE = "0:37 / /efi autofs systemd-1 rw", "0:40 / /boot/firmware autofs systemd-1 rw"
USR, ETC = "0:51 / /usr overlay sysext rw", "0:52 / /etc overlay confext rw"
IMAGE, XFS = "7:0 / /usr squashfs /dev/loop0 ro", "8:1 / /var xfs /dev/sda1 rw"
DATA, OVER = r"8:32 / /my\040data xfs /dev/sdc rw", r"8:17 / /my\040data xfs /dev/sdb1 rw"
BESIDE = r"259:0 / /my\040database xfs /dev/nvme0n1 rw"  # only shares a prefix with another mount point
CONTAINER = f"8:17 / /var/lib/docker/devicemapper/mnt/{'5d' * 32} ext4 /dev/sdb1 rw"
VOLUME_OF_POD = f"8:17 / /var/lib/kubelet/plugins/kubernetes.io/csi/x/{'5d' * 32}/globalmount ext4 /dev/sdb1 rw"
GENERATED = files({"/run/systemd/generator.late/efi.automount": "[Automount]\n"})
BY_UUID = merge({"links": {"/dev/disk/by-uuid/u": "../../sda2"}}, files({"/dev/sda2": ""}))
CRYPT = stacked("dm-0", ["sda3"], "253:0", dm=("my root", "CRYPT-LUKS2-x"))
VOLUME = stacked("dm-1", ["dm-0", "sdb"], "253:1", dm=("vg-root", "LVM-x"))
ON_VOLUME = stacked("dm-0", ["sdb"], dm=("vg-root", "LVM-x"))
RAID = stacked("md127", ["sda2", "sdb1"], "9:127", partitions=["md127p1"])
LOOP, SWAP_LOOP = stacked("loop0", number="7:0"), stacked("loop1", number="7:8")
MULTIPATH = nvme(
    "nvme6n1", at="/sys/devices/virtual/nvme-subsystem/nvme-subsys6", number="259:4", partitions=["nvme6n1p1"]
)
AT_CARD = "/sys/devices/platform/mmc0/mmc0:1"
CARD = merge(
    disk("mmcblk0", AT_CARD, bus="mmc", number="179:0", partitions=["mmcblk0p1"]),
    disk("mmcblk0gp0", AT_CARD, bus="mmc", number="179:64"),
)


def mounted(*lines: str) -> Recording:
    """/ on sda2, and other mounts."""
    return mount_table(ROOT, *lines)


def swap(path: str, type_: str = "partition") -> Recording:
    return files({"/proc/swaps": f"Filename\n{path} {type_} 8 0 100\n"})


def swap_without_hardware(name: str) -> list[Recording]:
    return [stacked(name, number="43:0"), mounted(), swap(f"/dev/{name}")]


def pool(type_: str, link: str, *members: str) -> Recording:
    """A file system on several devices. link: the form of a link to a device, with {} for its number."""
    return {"links": {f"/sys/fs/{type_}/{link.format(n)}": f"/sys/class/block/{m}" for n, m in enumerate(members)}}


def btrfs(name: str, *members: str) -> Recording:
    return pool("btrfs", f"{name}/devices/{{}}", *members)


def unit(point: str, what: str) -> Recording:
    """The unit that mounts a file system at the mount point of an automount."""
    return files({f"/run/systemd/generator/{point}.mount": f"[Mount]\nWhat={what}\nType=vfat\n"})


def linked(link: str) -> Recording:
    """udev's link to sdb1. The service finds the link in udev's database, not in its own /dev."""
    return {"properties": {f"{AT.format(1)}/block/sdb/sdb1": {"DEVLINKS": f"/dev/disk/by-path/x {link}"}}}


def in_file(name: str, path: str) -> Recording:
    """The file below a loop device. The file exists."""
    return files({f"/sys/devices/virtual/block/{name}/loop/backing_file": f"{path}\n", path: ""})


def zram(backing: str) -> Recording:
    attribute = {"/sys/devices/virtual/block/zram0/backing_dev": f"{backing}\n"}
    return merge(stacked("zram0", number="252:0"), files(attribute))


def folders(*paths: str) -> Recording:
    return {"folders": [*paths]}


def journals(*names: str) -> Recording:
    return folders(*(f"/proc/fs/jbd2/{name}" for name in names))


LAYERS = ("/l", "/srv/u", "/srv/w")
ZRAM_SWAP = swap("/dev/zram0")
NEEDED: list[tuple[str, list[Recording]]] = [  # the system's disks, and the machine
    ("sda", [mounted("0:21 / /proc proc proc rw")]),
    ("sda", [mounted(OVER, r"8:32 / /mnt/a\040b ext4 /dev/sdc rw")]),
    *(
        ("sda sdb", [mounted(f"8:17 / {point} vfat /dev/sdb1 rw")])
        for point in ("/boot", "/boot/firmware", "/efi", "/etc", "/etc/x", "/usr", "/usr/share/oem", "/var")
    ),
    *(
        ("sda sdc", [mounted(f"8:32 / {point} xfs /dev/sdc rw")])
        for point in ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/docker", "/var/lib/rancher")
    ),
    *(("sda", [mounted(f"8:32 / {point} xfs /dev/sdc rw")]) for point in ("/srv", "/mnt/disks/1", "/home")),
    ("sda", [mounted("0:50 / /etc/pve fuse /dev/fuse rw", "0:51 / /usr/x proc proc rw")]),
    ("sda sdb", [CRYPT, VOLUME, mount_table("253:1 / / ext4 /dev/mapper/vg-root rw")]),
    ("sda sdb", [RAID, mount_table("9:128 / / ext4 /dev/md127p1 rw")]),
    ("sda sdb sdc", [stacked("bcache0", ["sdb1", "sdc"], "251:0"), mounted("251:0 / /var xfs /dev/bcache0 rw")]),
    ("mmcblk0", [CARD, mount_table("179:64 / / ext4 /dev/mmcblk0gp0 rw")]),
    ("nvme6n1", [MULTIPATH, mount_table("259:5 / / ext4 /dev/nvme6n1p1 rw")]),
    # A container's root file system is on a disk that Docker needs. A volume is on a disk of the pod.
    ("sda sdb", [mounted(CONTAINER)]),
    ("sda", [mounted(VOLUME_OF_POD)]),
    # swap areas: the innermost and latest mount at a file's folder counts, in any order of the table
    ("sda sdb", [mounted(), swap("/dev/sdb1")]),
    *(("sda", swap_without_hardware(name)) for name in ("ram1", "zram0", "nbd0", "rbd0")),
    ("sda sdc", [mount_table(ROOT, DATA), swap(r"/my\040data/swap\040file", "file")]),
    ("sda sdc", [mount_table(DATA, ROOT), swap(r"/my\040data/swap\040file", "file")]),
    ("sda", [mount_table(DATA, ROOT), swap("/swapfile", "file")]),
    ("sda sdb", [mounted(DATA, OVER, BESIDE), swap(r"/my\040data/swap\040file", "file")]),
    ("sda", [files({"/proc/self/mountinfo": "1 2 8:2 / / rw - ext4 /dev/sda2\n"})]),  # the fewest fields
    # A btrfs mount has a made-up device number, and names only one of its devices. Another file system lost a device.
    *(("sda sdb", [btrfs("2", "sda2", "sdb1"), btrfs(other, "gone"), mount_table(BTRFS)]) for other in ("1", "3")),
    ("sdb", [mount_table(BTRFS)]),
    ("sda", [CRYPT, mount_table(r"0:25 / / btrfs /dev/mapper/my\040root rw")]),
    ("sda", [BY_UUID, mount_table("0:25 / / btrfs /dev/disk/by-uuid/u rw")]),
    # systemd-gpt-auto-generator mounts the root disk's boot partitions at the first access.
    ("sda", [GENERATED, mounted(AUTOMOUNT)]),
    ("sda", [GENERATED, mounted(AUTOMOUNT, "8:1 / /efi vfat /dev/sda1 rw")]),
    ("sda sdb", [mounted(AUTOMOUNT, "8:17 / /efi vfat /dev/sdb1 rw")]),
    # an automount with a unit from /etc/fstab
    ("sda sdb", [unit("boot-firmware", "/dev/sdb1"), mounted(FIRMWARE)]),
    ("sda sdb", [unit("boot-firmware", "/dev/disk/by-uuid/9"), linked("/dev/disk/by-uuid/9"), mounted(FIRMWARE)]),
    ("sda", [mounted(USR, ETC)]),  # system extensions are on the disks of the layers below
    ("sda sdb", [mounted("8:17 / /usr squashfs /dev/sdb1 ro", USR)]),
    # file systems without a disk, and FUSE on a disk
    *(("", [mount_table(f"0:25 / / {type_} server:/root rw")]) for type_ in ("nfs4", "tmpfs", "virtiofs")),
    *(("", [mount_table(f"0:15 / / {type_} ubi0:rootfs rw")]) for type_ in ("ubifs", "jffs2")),
    ("sda sdb", [mounted("8:17 / /var fuseblk /dev/sdb1 rw")]),
    # zram with write-back to a partition, a whole disk and a volume, and without write-back
    ("sda sdb", [zram("/dev/sdb1"), mounted(), ZRAM_SWAP]),
    ("sda sdc", [zram("/dev/sdc"), mounted(), ZRAM_SWAP]),
    ("sda sdb", [zram("/dev/dm-0"), ON_VOLUME, mounted("252:0 / /var ext4 /dev/zram0 rw")]),
    ("sda", [zram("none"), mounted(), ZRAM_SWAP]),
    # further devices of a file system
    ("sda sdb", [mounted(f"{XFS},logdev=/dev/sdb1")]),
    ("sda sdb sdc", [mounted(f"{XFS},logdev=/dev/sdb1,rtdev=/dev/sdc")]),
    ("sda sdb", [ON_VOLUME, mounted(f"{XFS},rtdev=/dev/mapper/vg-root")]),
    ("sda sdb", [mounted("8:1 / /var reiserfs /dev/sda1 rw,jdev=/dev/sdb1")]),
    ("sda", [journals("sda2-8"), mounted()]),
    ("sda sdb", [journals("sdb1"), mounted()]),
    ("sda", [journals("sda2-8", "sdb1"), mounted(ON_SDC)]),  # another file system's journal
    ("sda sdb", [journals("dm-0"), ON_VOLUME, mounted()]),
    # files: loop devices, layers of an overlay, an image
    ("sda sdc", [LOOP, in_file("loop0", "/srv/x.img"), mounted(ON_SDC, IMAGE)]),
    ("sda", [LOOP, in_file("loop0", "/x.img"), mounted(ON_SDC, IMAGE)]),
    ("sda sdc", [LOOP, in_file("loop0", "/dev/sdc"), mounted(), swap("/dev/loop0")]),
    (
        "sda sdc",
        [
            *(LOOP, in_file("loop0", "/srv/a"), SWAP_LOOP, in_file("loop1", "/mnt/b")),
            *(mounted(ON_SDC, "7:0 / /mnt ext4 /dev/loop0 rw"), swap("/dev/loop1")),
        ],
    ),
    (
        "sda sdc",
        [mounted(ON_SDC, OVERLAY.format("/etc", "lowerdir=/l,upperdir=/srv/u,workdir=/srv/w")), folders(*LAYERS)],
    ),
    ("sda sdc", [mounted(ON_SDC, OVERLAY.format("/etc", r"lowerdir=/l::/srv/a\134:b")), folders("/l", "/srv/a:b")]),
    (
        "sda",
        [mounted("0:9 / /run tmpfs x rw", OVERLAY.format("/etc", "lowerdir+=/l,datadir+=/run/d")), folders("/run/d")],
    ),
    ("sda sdc", [mounted(ON_SDC, "0:9 / /usr erofs /srv/x ro"), folders("/srv/x")]),
    # the swap area for hibernation, in use or not
    ("sda sdb", [files({"/sys/power/resume": "8:17\n"}), mounted()]),
    ("sda", [files({"/sys/power/resume": "0:0\n"}), mounted()]),
]


@pytest.mark.parametrize(("names", "parts"), NEEDED)
def test_disks_below_the_systems_mounts_are_the_systems(names: str, parts: list[Recording]) -> None:
    disks = system_disks(machine(SDA, SDB, SDC, nvme(), *parts))
    assert (sorted(disks.names), disks.incomplete_because) == (names.split(), "")


MOUNTINFO = "/proc/self/mountinfo"
INCOMPLETE: list[tuple[str, list[Recording]]] = [  # a part of the reason, and the machine
    *(
        ("cannot determine the disk of /", [LOOP, mount_table(line)])
        for line in (
            *("0:25 / / zfs rpool/ROOT/debian rw", "0:25 / / zfs sdb rw", "0:25 / / overlay overlay rw"),
            *("0:25 / / btrfs /dev/root rw", "8:99 / / ext4 /dev/gone rw", "7:0 / / squashfs /dev/loop0 ro"),
        )
    ),
    ("/gone does not exist here", [mounted(OVERLAY.format("/etc", "lowerdir=/gone:/l")), folders("/l")]),
    ("its layers are unknown", [mounted(OVERLAY.format("/etc", "xino=off"))]),
    ("x does not exist here", [mounted(OVERLAY.format("/etc", "lowerdir=x"))]),
    (
        "leads back to itself",
        [LOOP, in_file("loop0", "/mnt/x"), mounted("7:0 / /mnt xfs /dev/loop0 rw"), swap("/dev/loop0")],
    ),
    (
        "/x (deleted) does not exist",
        [LOOP, files({"/sys/devices/virtual/block/loop0/loop/backing_file": "/x (deleted)\n"}), mounted(IMAGE)],
    ),
    ("boot-firmware.automount has not", [mounted(FIRMWARE)]),
    ("boot-firmware.automount has not", [unit("boot-firmware", "server:/boot"), mounted(FIRMWARE)]),
    ("the hibernation area 8:99", [files({"/sys/power/resume": "8:99\n"}), mounted()]),
    ("no block device /dev/gone", [mounted(f"{XFS},logdev=/dev/gone")]),
    ("below drbd0 are unknown", [stacked("drbd0", number="147:0"), mounted("147:0 / /var xfs /dev/drbd0 rw")]),
    ("is a dangling link", [btrfs("1", "sdb1", "gone"), mount_table(BTRFS)]),
    ("cannot determine the disk of /efi", [mounted(AUTOMOUNT)]),
    ("/boot", [GENERATED, mounted("0:37 / /boot autofs systemd-1 rw")]),
    ("/etc", [mounted("0:52 / /etc overlay overlay rw")]),
    ("/usr", [mounted("0:51 / /usr fuse sysext rw")]),
    ("mountinfo", [files({MOUNTINFO: ""})]),
    ("mountinfo", [mount_table("0:21 / /proc proc proc rw")]),
    *(
        ("a malformed line", [files({MOUNTINFO: f"1 2 8:2 / / rw - ext4 /dev/sda2\n{line}\n"})])
        for line in ("3 2 8:17 / /usr rw", "4 2 8:17 - xfs /dev/sdb1", "5 2 8:17 / /usr rw - xfs")
    ),
    *(
        (
            f"{place} could not be read",
            [ON_VOLUME, mounted("253:0 / /usr ext4 /dev/dm-0 rw"), errors({place: "EACCES"})],
        )
        for place in (MOUNTINFO, "/proc/swaps", "/sys/dev/block/8:2", "/sys/devices/virtual/block/dm-0/slaves")
    ),
]


@pytest.mark.parametrize(("reason", "parts"), INCOMPLETE)
def test_a_list_that_may_be_incomplete_says_why(reason: str, parts: list[Recording]) -> None:
    assert reason in system_disks(machine(SDA, SDB, SDC, nvme(), *parts)).incomplete_because


def test_while_the_list_is_incomplete_no_disk_counts_as_free() -> None:
    host = machine(SDA, SDB, mount_table("0:25 / / zfs rpool rw", "8:17 / /boot ext4 /dev/sdb1 rw"))
    by_device = values(host, "disk", "system")
    assert by_device["sdb"] is True
    assert str(by_device["sda"]).startswith("unknown: cannot determine the disk of / (zfs from rpool)")
    assert isinstance(read(host, "disk", {"system": False}), Unknown)
    assert counted(host, "disk") == ["sda", "sdb"]


def test_a_disk_with_several_paths_is_the_systems_if_any_path_is() -> None:
    paths = scsi_disks(
        "/sys/devices/pci0000:3b/host{0}/target{0}:0:0",
        *(10**12, 10**12),
        of_device={"wwid": "naa.600508b1001c4d2e"},
        properties={"ID_SCSI_SERIAL": "Z1D0"},
    )
    host = machine(*paths, mount_table("8:16 / / ext4 /dev/sdb rw"))
    assert counted(host, "disk", {"system": True}) == ["sda"]
