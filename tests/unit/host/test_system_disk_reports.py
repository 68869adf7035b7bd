"""Which disks are the system's, on machines that people reported to other tools (tests/reports.md).

The machine has the disks sda, sdb and sdc. A line of a mount table has a device number, a folder of the file system,
the mount point, a type, a source and options.
"""

from __future__ import annotations

import pytest

from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.host.system_disks import system_disks
from tests.support.machines import Recording, files, machine, mount_table, stacked
from tests.unit.host.test_system_disks import BY_UUID, ROOT, SDA, SDB, SDC, in_file, linked, mounted, pool, swap

VAR = "8:17 / /var ext4 /dev/sdb1 rw"
OSTREE, STATE = "8:2 / /sysroot xfs /dev/sda2 rw", "8:17 / /var xfs /dev/sdb1 rw"
COVERED = "0:52 / /etc overlay x rw,lowerdir=/etc,upperdir=/var/u,workdir=/var/w"
COVERED_AGAIN = "0:53 / /etc overlay x rw,lowerdir=/etc,upperdir=/run/u"
INITRAMFS = "0:52 / /etc overlay x rw,lowerdir=/sysroot/usr/etc,upperdir=/sysroot/var/u,workdir=/sysroot/var/w"
RELATIVE = "0:52 / /usr overlay x rw,lowerdir=usr,upperdir=/var/u,workdir=/var/w"
BCACHEFS = "0:25 / / bcachefs /dev/disk/by-uuid/{0} rw"
COMPOSEFS = "0:30 / / overlay {0} ro,lowerdir{1}"
INSTALLED: Recording = {"folders": ["/etc", "/usr/etc", "/var/u", "/var/w"]}
FOLDERS: Recording = {"folders": [*INSTALLED["folders"], "/run/u", "/sysroot/ostree/repo/objects"]}
CRYPT = stacked("dm-0", ["sda3"], "253:0", dm=("root", "CRYPT-LUKS2-x"))
SWAP = "0:25 /@swap /swap btrfs /dev/mapper/root rw,subvol=/@swap"
SWAP_FILE = swap("/swap/swapfile", "file")
RESUME = files({"/sys/power/resume": "253:0\n"})


def link(path: str, target: str) -> Recording:
    """A folder of the node that is a link to another folder."""
    return {"links": {path: target}, "folders": [target]}


def unit_with_tag(tag: str) -> list[Recording]:
    """The systemd unit that mounts sdb1 at /efi, with a tag of the device, and udev's link to it."""
    text = f"[Mount]\nWhat={tag}=X\nWhere=/efi\nType=vfat\n"
    return [files({"/etc/systemd/system/efi.mount": text}), linked(f"/dev/disk/by-{tag.lower()}/X")]


SNAPSHOTS = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
ON_SDC = "8:32 / /data xfs /dev/sdc rw"
POOL = [  # of Stratis, on sdb
    stacked("dm-0", ["sdb"], "253:0", dm=("stratis-1-private-x-physical-originsub", "stratis-1-a")),
    stacked("dm-1", ["dm-0"], "253:1", dm=("stratis-1-private-x-flex-thinmeta", "stratis-1-b")),
    stacked("dm-2", ["dm-1", "dm-0"], "253:2", dm=("stratis-1-private-x-thinpool-pool", "stratis-1-c")),
    stacked("dm-3", ["dm-2"], "253:3", dm=("stratis-1-x-thin-fs-y", "stratis-1-d")),
]
CAS = stacked("cas1-1", number="250:1")  # Open CAS
IMSM = [stacked("md127", ["sda", "sdb"], "9:127", size=0), stacked("md126", ["sda", "sdb"], "9:126")]
LOOP = [stacked("loop0", number="7:0"), in_file("loop0", "/data/foo.img")]
VERITY = stacked("dm-0", ["sdb1"], "253:0", dm=("x", "CRYPT-VERITY-x"))
BY_HASH = stacked("dm-1", ["sda2", "sdb"], "253:1", dm=("y", "CRYPT-VERITY-y"))


def volume(number: int, *below: str) -> Recording:
    """A logical volume of LVM: dm-0, dm-1, … below: the devices that it is on."""
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
        ("sda sdb", [mounted(VAR, COVERED), FOLDERS]),
        ("sda sdb", [mounted(VAR, COVERED, "0:9 / /run tmpfs x rw", COVERED_AGAIN), FOLDERS]),
        ("sda sdb", [mounted(VAR, INITRAMFS), INSTALLED]),
        ("sda sdb", [mounted(VAR, RELATIVE), FOLDERS]),
        *(
            ("sda sdb", [mount_table(OSTREE, STATE, COMPOSEFS.format(source, layers)), FOLDERS])
            for source, layers in (  # layers: the rest of the option lowerdir, and further options
                ("composefs", "+=/run/private/lower,datadir+=/sysroot/ostree/repo/objects,redirect_dir=on"),
                ("overlay", "=/run/private/lower::/sysroot/ostree/repo/objects,redirect_dir=on,metacopy=on"),
                ("composefs:72446d", "+=/,datadir+=/sysroot/ostree/repo/objects"),
            )
        ),
        ("sda", [CRYPT, RESUME, mount_table("0:25 /@ / btrfs /dev/mapper/root rw", SWAP), SWAP_FILE]),
        # file systems on several devices
        ("sda sdb", [pool("bcachefs", "u/dev-{}/block", "sda2", "sdb1"), BY_UUID, mount_table(BCACHEFS.format("u"))]),
        ("sda sdb", [mount_table("0:25 / / bcachefs /dev/sda2:/dev/sdb1 rw")]),
        ("sda sdb", [pool("btrfs", "u/devices/{}", "sdb1", "sda2"), mount_table("0:25 / / btrfs /dev/sdb1 rw")]),
        (
            "sda sdb sdc",
            [pool("btrfs", "u/devices/{}", "sdb1", "sdc"), mounted(BACKUP), swap("/mnt/backup/swap.10G", "file")],
        ),
        # parts of the node's data on a disk of their own
        ("sda sdc", [link("/var/lib/kubelet/pods", "/data/pods"), mounted(ON_SDC)]),
        ("sda sdc", [link("/var/lib/rancher/k3s", "/data/k3s"), mounted(ON_SDC)]),
        ("sda sdc", [link("/var/lib/containerd", "/data/containerd"), mounted(ON_SDC)]),
        ("sda sdc", [mounted(ON_SDC, "8:32 /c /var/lib/containerd xfs /dev/sdc rw")]),
        *(
            ("sda sdc", [mounted(ON_SDC.replace("/data", point))])
            for point in ("/var/lib", "/var/lib/kubelet/pods", SNAPSHOTS, "/var/lib/docker/volumes")
        ),
        *(
            ("sda", [mounted(ON_SDC.replace("/data", point))])
            for point in ("/var/lib/kubelet/pods/1/volumes/x/y", "/var/lib/kubelet/plugins/kubernetes.io/csi/d/1")
        ),
        # the kubelet's and the runtime's data in other folders, which their mounts show
        *(("sda sdc", [mounted(ON_SDC, of_pod)]) for of_pod in (VOLUME_ELSEWHERE, DOCKER_ELSEWHERE, K3S_ELSEWHERE)),
        # a pod that runs containers of its own: their overlays are in its volume, so they show no folder of the node
        ("sda", [mounted(f"8:17 / {PVC} ext4 /dev/sdb1 rw", f"0:61 / {PVC}/overlay2/1/merged overlay x rw")]),
        # swap areas whose path in /dev has gone, and an automount of a unit that systemd did not generate
        ("sda", [stacked("zram0", number="252:0"), mounted(), swap("/zram0")]),
        ("sda sdb", [mounted(), swap("/sdb1")]),
        *(
            ("sda sdb", [mounted("0:37 / /efi autofs systemd-1 rw,direct"), *unit_with_tag(tag)])
            for tag in ("UUID", "LABEL", "PARTUUID", "PARTLABEL")
        ),
        # systems whose programs are outside of /usr
        (
            "sda sdb",
            [mount_table("0:20 / / tmpfs x rw", "8:1 / /boot vfat /dev/sda1 rw", "8:17 / /nix ext4 /dev/sdb1 rw")],
        ),
        ("sda sdb", [VERITY, mounted("253:0 / /nix/store erofs /dev/mapper/x ro")]),
        # devices on others
        ("sda sdb", [VERITY, BY_HASH, mount_table("8:1 / /boot vfat /dev/sda1 rw", "253:1 / / ext4 /dev/mapper/y ro")]),
        ("sda sdb", [*VOLUME_RAID, mounted("253:2 / /var/lib/containerd xfs /dev/mapper/vg-lv rw")]),
        ("sda sdb", [*CACHED, mount_table("253:6 / / xfs /dev/mapper/vg-root rw")]),
        ("sda sdc", [*LOOP, *IN_LOOP, mounted(ON_SDC, "253:1 / /var/lib/docker ext4 /dev/mapper/f-vm rw")]),
        ("sda sdc", [*DEDUPLICATED, mounted("253:1 / /var xfs /dev/mapper/vg-x rw")]),
        ("sda sdb", [ABROOT, *VOLUMES, mount_table(*ABROOT_MOUNTS)]),
        ("sda", [stacked("zd0", number="230:0"), mounted("230:0 / /mnt/z ext4 /dev/zd0 rw")]),
        (
            "sda",
            [
                stacked("dm-3", number="253:3", dm=("mpathz", "mpath-3600")),
                mounted("253:3 / /var/lib/kubelet/plugins/kubernetes.io/csi/1 xfs /dev/dm-3 rw"),
            ],
        ),
        ("sdb", [*POOL, mount_table("253:3 / / xfs /dev/dm-3 rw")]),
        ("sda sdb", [*MULTIPATH, mount_table("253:1 / / xfs /dev/mapper/mpatha1 rw")]),
        ("sda", [ZRAM_LOG, stacked("zram0", number="252:0"), mounted(*ZRAM_LOG_MOUNTS)]),
        ("sda sdb", [*IMSM, mount_table("9:126 / / xfs /dev/md126 rw")]),
        ("sda sdc", [*LOOP, mounted(ON_SDC, "7:0 / /usr squashfs /dev/loop0 ro")]),
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
    host = machine(SDA, SDB, SDC, *parts)
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
    first = OSTREE if " / / " in line else ROOT  # only one line may mount /
    host = machine(SDA, SDB, CAS, mount_table(first, VAR, line), {"folders": folders})
    assert system_disks(host).incomplete_because


def test_swap_on_a_volume_of_zfs_may_be_on_any_disk() -> None:
    host = machine(SDA, SDB, stacked("zd0", number="230:0"), files({"/dev/zd0": ""}), mounted(), swap("/dev/zd0"))
    assert "cannot determine the disk of the swap area /dev/zd0" in system_disks(host).incomplete_because
