"""Which disks are the system's, on machines that people reported to other tools (tests/reports.md).

The machine has the disks sda, sdb and sdc. A line of a mount table has a device number, a folder of the file system,
the mount point, a type, a source and options.
"""

from __future__ import annotations

import pytest

from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.host.system_disks import system_disks
from tests.support.machines import Recording, disk, files, machine, merge, mount_table, stacked

AT = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
A = disk("sda", AT.format(1), number="8:0", partitions=["sda1", "sda2", "sda3"])
B = disk("sdb", AT.format(2), number="8:16", partitions=["sdb1"])
ROOT, VAR = "8:2 / / ext4 /dev/sda2 rw", "8:17 / /var ext4 /dev/sdb1 rw"
OSTREE, STATE = "8:2 / /sysroot xfs /dev/sda2 rw", "8:17 / /var xfs /dev/sdb1 rw"
COVERED = "0:52 / /etc overlay x rw,lowerdir=/etc,upperdir=/var/u,workdir=/var/w"
TWICE = "0:53 / /etc overlay x rw,lowerdir=/etc,upperdir=/run/u"
INITRAMFS = "0:52 / /etc overlay x rw,lowerdir=/sysroot/usr/etc,upperdir=/sysroot/var/u,workdir=/sysroot/var/w"
RELATIVE = "0:52 / /usr overlay x rw,lowerdir=usr,upperdir=/var/u,workdir=/var/w"
BCACHEFS = "0:25 / / bcachefs /dev/disk/by-uuid/{0} rw"
COMPOSEFS = "0:30 / / overlay {0} ro,lowerdir{1}"
FOLDERS: Recording = {"folders": ["/etc", "/usr/etc", "/var/u", "/var/w", "/run/u", "/sysroot/ostree/repo/objects"]}
INSTALLED: Recording = {"folders": ["/etc", "/usr/etc", "/var/u", "/var/w"]}
C = disk("sdc", AT.format(3), number="8:32")
CRYPT = stacked("dm-0", ["sda3"], "253:0", dm=("root", "CRYPT-LUKS2-x"))
SWAP = "0:25 /@swap /swap btrfs /dev/mapper/root rw,subvol=/@swap"
RESUME = files({"/sys/power/resume": "253:0\n"})


def folders(**links: str) -> Recording:
    """Folders below /var/lib that are links. links: the targets, by path with "_" in place of "/"."""
    return {"links": {f"/var/lib/{n.replace('_', '/')}": to for n, to in links.items()}, "folders": [*links.values()]}


def pool(type_: str, link: str, *members: str) -> Recording:
    """A file system on several devices. link: the form of a link to a device, with {} for its number."""
    return {"links": {f"/sys/fs/{type_}/u/{link.format(n)}": f"/sys/class/block/{m}" for n, m in enumerate(members)}}


def swap(path: str) -> Recording:
    return files({"/proc/swaps": f"Filename\n{path} partition 8 0 100\n"})


def unit(what: str, link: str) -> list[Recording]:
    """The systemd unit that mounts `what` at /efi, and udev's link to sdb1."""
    path = f"{AT.format(2)}/block/sdb/sdb1"
    links: Recording = {"properties": {path: {"DEVLINKS": f"/dev/disk/{link.lower().replace('/x', '/X')}"}}}
    return [files({"/etc/systemd/system/efi.mount": f"[Mount]\nWhat={what}\nWhere=/efi\nType=vfat\n"}), links]


BY_UUID = merge({"links": {"/dev/disk/by-uuid/u": "../../sda2"}}, files({"/dev/sda2": ""}))
SNAPSHOTS = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
ON_C = "8:32 / /data xfs /dev/sdc rw"
POOL = [
    stacked("dm-0", ["sdb"], "253:0", dm=("stratis-1-private-x-physical-originsub", "stratis-1-a")),
    stacked("dm-1", ["dm-0"], "253:1", dm=("stratis-1-private-x-flex-thinmeta", "stratis-1-b")),
    stacked("dm-2", ["dm-1", "dm-0"], "253:2", dm=("stratis-1-private-x-thinpool-pool", "stratis-1-c")),
    stacked("dm-3", ["dm-2"], "253:3", dm=("stratis-1-x-thin-fs-y", "stratis-1-d")),
]
CAS = stacked("cas1-1", number="250:1")
IMSM = [stacked("md127", ["sda", "sdb"], "9:127", 0), stacked("md126", ["sda", "sdb"], "9:126")]
LOOP = merge(
    stacked("loop0", number="7:0"),
    files({"/sys/devices/virtual/block/loop0/loop/backing_file": "/data/foo.img\n", "/data/foo.img": ""}),
)
VERITY = stacked("dm-0", ["sdb1"], "253:0", dm=("x", "CRYPT-VERITY-x"))
BY_HASH = stacked("dm-1", ["sda2", "sdb"], "253:1", dm=("y", "CRYPT-VERITY-y"))


def volume(number: int, *below: str) -> Recording:
    return stacked(f"dm-{number}", below, f"253:{number}", dm=(f"vg-{number}", f"LVM-{number}"))


VOLUME_RAID = [volume(0, "sda3"), volume(1, "sdb1"), volume(2, "dm-0", "dm-1")]
CACHED = [
    *(volume(0, "sda3"), volume(1, "sda3"), volume(2, "sdb1"), volume(3, "dm-0", "dm-1", "dm-2")),  # cache and data
    *(volume(4, "sdb1"), volume(5, "dm-3", "dm-4"), volume(6, "dm-5")),  # metadata, pool and a thin volume
]
IN_LOOP = [volume(0, "loop0"), volume(1, "dm-0")]
DEDUPLICATED = [stacked("dm-0", ["sdc"], "253:0", dm=("bay5", "VDO-x")), volume(1, "dm-0")]
VOLUMES = [volume(0, "sda3"), volume(1, "sdb1")]
ABROOT: Recording = {"folders": ["/.system/etc", "/var/lib/abroot/etc/a", "/var/lib/abroot/etc/b"]}
ABROOT_MOUNTS = (
    *("253:0 / / btrfs /dev/dm-0 ro", "253:0 /.system/usr /usr btrfs /dev/dm-0 ro", "253:1 / /var btrfs /dev/dm-1 rw"),
    "0:44 / /etc overlay x rw,lowerdir=/.system/etc,upperdir=/var/lib/abroot/etc/a,workdir=/var/lib/abroot/etc/b",
)
VOLUME_ELSEWHERE = "0:60 / /data/kubelet/pods/1/volumes/kubernetes.io~projected/token tmpfs tmpfs rw"
DOCKER_ELSEWHERE = "0:61 / /data/docker/overlay2/1/merged overlay overlay rw,lowerdir=l/A,upperdir=/x/1/diff"
TASK = f"/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{'9f' * 32}/rootfs"
K3S_ELSEWHERE = f"0:61 / {TASK} overlay overlay rw,lowerdir=/data/k3s/snapshots/1/fs,upperdir=/data/k3s/snapshots/2/fs"
PVC = "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc/mount"
BLANKS = files(  # some kernels escape no space in the options of an overlay
    {
        "/proc/self/mountinfo": "1 0 8:2 / /ro rw - ext4 /dev/sda2 rw\n2 0 8:17 / /rw rw - ext4 /dev/sdb1 rw\n"
        "3 0 0:50 / / rw - overlay overlay rw,lowerdir=/ro/a b,upperdir=/rw/u,workdir=/rw/w\n"
    }
)
MULTIPATH = [  # a partition of a multipath device is a device of its own
    stacked("dm-0", ["sda", "sdb"], "253:0", dm=("mpatha", "mpath-3600a")),
    stacked("dm-1", ["dm-0"], "253:1", dm=("mpatha1", "part1-mpath-3600a")),
]
ZRAM_LOG: Recording = {"folders": ["/opt/zram/log", "/opt/zram/0/upper", "/opt/zram/0/work", "/var/log/pods"]}
ZRAM_LOG_MOUNTS = (
    *("8:2 /var/log /opt/zram/log ext4 /dev/sda2 rw", "252:0 / /opt/zram/0 ext4 /dev/zram0 rw"),
    "0:50 / /var/log overlay x rw,lowerdir=/opt/zram/log,upperdir=/opt/zram/0/upper,workdir=/opt/zram/0/work",
)
BACKUP = "0:26 / /mnt/backup btrfs /dev/sdb1 rw,subvol=/"


@pytest.mark.parametrize(
    ("names", "parts"),  # the system's disks, and the machine
    [
        ("sda sdb", [mount_table(ROOT, VAR, COVERED), FOLDERS]),
        ("sda sdb", [mount_table(ROOT, VAR, COVERED, "0:9 / /run tmpfs x rw", TWICE), FOLDERS]),
        ("sda sdb", [mount_table(ROOT, VAR, INITRAMFS), INSTALLED]),
        ("sda sdb", [mount_table(ROOT, VAR, RELATIVE), FOLDERS]),
        *(
            ("sda sdb", [mount_table(OSTREE, STATE, COMPOSEFS.format(source, layers)), FOLDERS])
            for source, layers in (
                ("composefs", "+=/run/private/lower,datadir+=/sysroot/ostree/repo/objects,redirect_dir=on"),
                ("overlay", "=/run/private/lower::/sysroot/ostree/repo/objects,redirect_dir=on,metacopy=on"),
                ("composefs:72446d", "+=/,datadir+=/sysroot/ostree/repo/objects"),
            )
        ),
        ("sda", [CRYPT, RESUME, mount_table("0:25 /@ / btrfs /dev/mapper/root rw", SWAP, swap_file="/swap/swapfile")]),
        # file systems on several devices
        ("sda sdb", [pool("bcachefs", "dev-{}/block", "sda2", "sdb1"), BY_UUID, mount_table(BCACHEFS.format("u"))]),
        ("sda sdb", [mount_table("0:25 / / bcachefs /dev/sda2:/dev/sdb1 rw")]),
        ("sda sdb", [pool("btrfs", "devices/{}", "sdb1", "sda2"), mount_table("0:25 / / btrfs /dev/sdb1 rw")]),
        (
            "sda sdb sdc",
            [pool("btrfs", "devices/{}", "sdb1", "sdc"), mount_table(ROOT, BACKUP, swap_file="/mnt/backup/swap.10G")],
        ),
        # parts of the node's data on a disk of their own
        ("sda sdc", [folders(kubelet_pods="/data/pods"), mount_table(ROOT, ON_C)]),
        ("sda sdc", [folders(rancher_k3s="/data/k3s"), mount_table(ROOT, ON_C)]),
        ("sda sdc", [folders(containerd="/data/containerd"), mount_table(ROOT, ON_C)]),
        ("sda sdc", [mount_table(ROOT, ON_C, "8:32 /c /var/lib/containerd xfs /dev/sdc rw")]),
        *(
            ("sda sdc", [mount_table(ROOT, ON_C.replace("/data", point))])
            for point in ("/var/lib", "/var/lib/kubelet/pods", SNAPSHOTS, "/var/lib/docker/volumes")
        ),
        *(
            ("sda", [mount_table(ROOT, ON_C.replace("/data", point))])
            for point in ("/var/lib/kubelet/pods/1/volumes/x/y", "/var/lib/kubelet/plugins/kubernetes.io/csi/d/1")
        ),
        # the kubelet's and the runtime's data in other folders, which their mounts show
        *(
            ("sda sdc", [mount_table(ROOT, ON_C, of_pod)])
            for of_pod in (VOLUME_ELSEWHERE, DOCKER_ELSEWHERE, K3S_ELSEWHERE)
        ),
        ("sda", [mount_table(ROOT, f"8:17 / {PVC} ext4 /dev/sdb1 rw", f"0:61 / {PVC}/overlay2/1/merged overlay x rw")]),
        # swap areas whose path in /dev has gone, and an automount of a unit that systemd did not generate
        ("sda", [stacked("zram0", number="252:0"), mount_table(ROOT), swap("/zram0")]),
        ("sda sdb", [mount_table(ROOT), swap("/sdb1")]),
        *(
            ("sda sdb", [mount_table(ROOT, "0:37 / /efi autofs systemd-1 rw,direct"), *unit(f"{tag}=X", f"by-{tag}/X")])
            for tag in ("UUID", "LABEL", "PARTUUID", "PARTLABEL")
        ),
        # systems whose programs are outside of /usr
        (
            "sda sdb",
            [mount_table("0:20 / / tmpfs x rw", "8:1 / /boot vfat /dev/sda1 rw", "8:17 / /nix ext4 /dev/sdb1 rw")],
        ),
        ("sda sdb", [VERITY, mount_table(ROOT, "253:0 / /nix/store erofs /dev/mapper/x ro")]),
        # devices on others
        ("sda sdb", [VERITY, BY_HASH, mount_table("8:1 / /boot vfat /dev/sda1 rw", "253:1 / / ext4 /dev/mapper/y ro")]),
        ("sda sdb", [*VOLUME_RAID, mount_table(ROOT, "253:2 / /var/lib/containerd xfs /dev/mapper/vg-lv rw")]),
        ("sda sdb", [*CACHED, mount_table("253:6 / / xfs /dev/mapper/vg-root rw")]),
        ("sda sdc", [LOOP, *IN_LOOP, mount_table(ROOT, ON_C, "253:1 / /var/lib/docker ext4 /dev/mapper/f-vm rw")]),
        ("sda sdc", [*DEDUPLICATED, mount_table(ROOT, "253:1 / /var xfs /dev/mapper/vg-x rw")]),
        ("sda sdb", [ABROOT, *VOLUMES, mount_table(*ABROOT_MOUNTS)]),
        ("sda", [stacked("zd0", number="230:0"), mount_table(ROOT, "230:0 / /mnt/z ext4 /dev/zd0 rw")]),
        (
            "sda",
            [
                stacked("dm-3", number="253:3", dm=("mpathz", "mpath-3600")),
                mount_table(ROOT, "253:3 / /var/lib/kubelet/plugins/kubernetes.io/csi/1 xfs /dev/dm-3 rw"),
            ],
        ),
        ("sdb", [*POOL, mount_table("253:3 / / xfs /dev/dm-3 rw")]),
        ("sda sdb", [*MULTIPATH, mount_table("253:1 / / xfs /dev/mapper/mpatha1 rw")]),
        ("sda", [ZRAM_LOG, stacked("zram0", number="252:0"), mount_table(ROOT, *ZRAM_LOG_MOUNTS)]),
        ("sda sdb", [*IMSM, mount_table("9:126 / / xfs /dev/md126 rw")]),
        ("sda sdc", [LOOP, mount_table(ROOT, ON_C, "7:0 / /usr squashfs /dev/loop0 ro")]),
        ("sda sdb", [BLANKS, {"folders": ["/ro/a b", "/rw/u", "/rw/w"]}]),
        (
            "sda sdb",
            [
                {"folders": ["/run/sysroot", "/run/root-rw/root"]},
                mount_table(
                    *("8:2 / /run/sysroot xfs /dev/sda2 ro", "8:17 / /run/root-rw xfs /dev/sdb1 rw"),
                    "0:40 / / overlay overlay rw,lowerdir=/run/sysroot,upperdir=/run/root-rw/root",
                ),
            ],
        ),
    ],
)
def test_disks_that_the_machine_needs_are_the_systems(names: str, parts: list[Recording]) -> None:
    host = machine(A, B, C, *parts)
    for each in (host, RecordedHost(Recorder(host).run())):
        disks = system_disks(each)
        assert (sorted(disks.names), disks.incomplete_because) == (names.split(), "")


@pytest.mark.parametrize(
    ("line", "folders"),
    [
        (INITRAMFS, ["/sysroot", "/var/u", "/var/w"]),  # an installed /sysroot is another folder
        ("250:1 / /var xfs /dev/cas1-1 rw", []),  # Open CAS names no disk in /sys
        (RELATIVE.replace("=usr,", "=lower,"), ["/usr", "/var/u", "/var/w"]),
        ("0:52 / / overlay x rw,lowerdir=/", ["/etc"]),
        ("0:52 / / overlay x rw,lowerdir=/gone/ro,upperdir=/gone/rw,workdir=/gone/work", []),
    ],
)
def test_a_layer_that_is_not_known_makes_the_list_incomplete(line: str, folders: list[str]) -> None:
    host = machine(A, B, CAS, mount_table(ROOT if " / / " not in line else OSTREE, VAR, line), {"folders": folders})
    assert system_disks(host).incomplete_because


def test_swap_on_a_volume_of_zfs_may_be_on_any_disk() -> None:
    host = machine(A, B, stacked("zd0", number="230:0"), files({"/dev/zd0": ""}), mount_table(ROOT), swap("/dev/zd0"))
    assert "cannot determine the disk of the swap area /dev/zd0" in system_disks(host).incomplete_because
