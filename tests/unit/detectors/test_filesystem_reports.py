"""File systems that people reported to other tools (tests/reports.md)."""

from __future__ import annotations

import pytest

from tests.support.machines import Recording, disk, errors, files, machine, merge, mount_table, stacked
from tests.support.readings import counted, outcome, quantity, read, values

ROOT = "8:2 / / ext4 /dev/sda2 rw"
OSTREE = ("8:4 /ostree/deploy/x/deploy/1.0 / xfs /dev/sda4 rw", "8:4 / /sysroot xfs /dev/sda4 ro")
SNAPPER = (
    "0:25 /@/.snapshots/1/snapshot / btrfs /dev/sda2 rw,subvol=/@/.snapshots/1/snapshot",
    "0:25 /@/.snapshots /.snapshots btrfs /dev/sda2 rw,subvol=/@/.snapshots",
)
AT_SUBVOLUME = "0:25 /@ / btrfs /dev/sda2 rw,subvol=/@"
BACKUP = "0:25 / /run/timeshift/backup btrfs /dev/sda2 rw,subvol=/"
STORE = "8:17 / /nix/store xfs /dev/sdb1 rw"
DOCKER = ("0:26 / /var/lib/docker btrfs /dev/sdb1 rw", "0:26 /btrfs /var/lib/docker/btrfs btrfs /dev/sdb1 rw")


@pytest.mark.parametrize(
    ("lines", "points"),  # mounts, and the mount points of each file system
    [
        (OSTREE, {"/": ("/", "/sysroot")}),
        (SNAPPER, {"/": ("/", "/.snapshots")}),
        ((AT_SUBVOLUME, BACKUP), {"/": ("/", "/run/timeshift/backup")}),
        ((ROOT, STORE, STORE), {"/": "/", "/nix/store": "/nix/store"}),
        ((ROOT, *DOCKER), {"/": "/", "/var/lib/docker": "/var/lib/docker"}),
        # A snapshot of ZFS is mounted for a few minutes after an access.
        (("0:30 / / zfs rpool/root rw", "0:31 / /.zfs/snapshot/daily zfs rpool/root@daily ro"), {"/": "/"}),
    ],
    ids=["ostree", "snapper", "timeshift", "mounted-over-itself", "docker-on-btrfs", "zfs-snapshot"],
)
def test_reported_file_systems_have_their_mount_points(lines: tuple[str, ...], points: dict[str, object]) -> None:
    host = machine(mount_table(*lines))
    assert values(host, "filesystem", "mount") == points
    assert counted(host, "filesystem", {"mount": "/"}) == ["/"]


@pytest.mark.parametrize("option", ["ro", "emergency_ro", "shutdown"])
def test_a_file_system_that_accepts_no_write_is_read_only(option: str) -> None:
    lines = (f"8:17 / /a ext4 /dev/sdb1 rw,{option}", "8:18 / /b ext4 /dev/sdb2 rw,errors=remount-ro")
    assert values(machine(mount_table(*lines)), "filesystem", "read_only") == {"/a": True, "/b": False}


LINKED = {"links": {"/var/lib/docker": "/srv/docker"}, "folders": ["/srv/docker"]}
DISK = "8:32 / /mnt/k8s-disks/0 xfs /dev/sdc rw"
BIND = "8:32 /containerd /var/lib/containerd xfs /dev/sdc rw"
OVERLAY_ROOT = ("8:32 / /media/root-ro ext4 /dev/sdc ro", "0:50 / / overlay x rw,lowerdir=/media/root-ro")


@pytest.mark.parametrize(
    ("lines", "more", "system"),  # mounts, other parts of the machine, and the system's file systems
    [
        ((ROOT, DISK, BIND), {}, "/ /mnt/k8s-disks/0"),
        ((ROOT, DISK), {}, "/"),
        ((ROOT, "8:32 / /srv xfs /dev/sdc rw"), LINKED, "/ /srv"),
        (OVERLAY_ROOT, {}, "/media/root-ro /"),
        (OSTREE, {}, "/"),
        (("0:20 / / tmpfs x rw", STORE), {}, "/ /nix/store"),
    ],
    ids=["bind-mount", "no-bind-mount", "link", "below-the-root", "ostree", "nix"],
)
def test_a_file_system_that_the_machine_needs_is_the_systems(
    lines: tuple[str, ...], more: Recording, system: str
) -> None:
    by_name = values(machine(merge(mount_table(*lines), more)), "filesystem", "system")
    assert [name for name, needed in by_name.items() if needed] == system.split()


def test_whether_the_machine_needs_a_file_system_is_unknown_if_a_folder_of_the_node_is() -> None:
    host = machine(mount_table(ROOT, DISK), errors({"/var/lib/docker": "EIO"}))
    assert values(host, "filesystem", "system")["/"] is True
    assert "/var/lib/docker" in str(values(host, "filesystem", "system")["/mnt/k8s-disks/0"])


@pytest.mark.parametrize(
    "snapshot", ["/logs/.snapshot/hourly.1", "/ifs/logs/.snapshot/1", "/logs/~snapshot/1", "/logs/.zfs/snapshot/1"]
)
def test_a_snapshot_of_a_server_does_not_count(snapshot: str) -> None:
    share, below = "0:40 / /logs nfs 192.0.2.5:/logs rw", f"0:41 / /logs/x nfs 192.0.2.5:{snapshot} rw"
    assert counted(machine(mount_table(share, below)), "filesystem", {"kind": "network"}) == ["/logs"]


@pytest.mark.parametrize(
    ("line", "point"),
    [
        ("31 30 0:40 / /tmp/b rw shared:147 - tmpfs  rw", "/tmp/b"),
        ("31 30 0:40 / /dev/shm rw,nosuid - tmpfs - rw", "/dev/shm"),
        ("31 30 0:40 /snapd/ns /run/snapd/ns rw - tmpfs tmpfs rw", "/run/snapd/ns"),
        (r"31 30 0:40 / /a\040b rw - cifs //s/A\040B rw,unc=\s\A B,user=x", "/a b"),
    ],
    ids=["no-source", "hyphen", "no-optional-fields", "spaces"],
)
def test_unusual_lines_of_the_mount_table_are_parsed(line: str, point: str) -> None:
    table = {"/proc/self/mountinfo": f"30 1 8:2 / / rw - ext4 /dev/sda2 rw\n{line}\n"}
    assert counted(machine(files(table)), "filesystem", {"kind": ["memory", "network", "local"]}) == ["/", point]


@pytest.mark.parametrize("size", [2**63, 2**64 - 4096])
def test_a_share_without_a_real_size_is_too_large_to_be_published_in_bytes(size: int) -> None:
    host = machine(mount_table("0:40 / /efs nfs4 fs-1:/ rw"), {"filesystem_sizes": {"/efs": size}})
    assert outcome(read(host, "filesystem", {"kind": "network"}, measure="size")) == "unknown"
    assert quantity(host, "filesystem", {"kind": "network"}, measure="size", unit="GiB") == size >> 30
    assert counted(host, "filesystem", {"kind": "network", "size": "<1000PiB"}) == []


KUBE = "/data/kube"
# Mounts of pods. The kubelet and Docker have their data in KUBE, and not in /var/lib.
PODS = (
    f"0:40 / {KUBE}/docker/overlay2/3258/merged overlay overlay rw,lowerdir=/x",
    f"0:41 / {KUBE}/docker/containers/{'9f' * 32}/mounts/shm tmpfs shm rw",
    "0:42 net:[4026532136] /run/docker/netns/default nsfs nsfs rw",
    f"0:43 / {KUBE}/kubelet/pods/1/volumes/kubernetes.io~secret/t tmpfs tmpfs rw",
    f"251:0 / {KUBE}/kubelet/pods/1/volumes/kubernetes.io~csi/p/mount ext4 /dev/rbd0 rw",
    f"251:0 / {KUBE}/kubelet/plugins/kubernetes.io/csi/pv/p/globalmount ext4 /dev/rbd0 rw",
)
POOLS = ("0:44 / /home zfs pool/home rw,xattr", "230:0 / /mnt/z ext4 /dev/zd0 rw", "0:45 /@srv /srv btrfs /dev/sdb1 rw")
LAYERS = (  # of other storage drivers of Docker, whose ids have 64 digits
    f"253:29 / /var/lib/docker/devicemapper/mnt/{'5d' * 32} ext4 /dev/mapper/docker-253:2-1-5d rw",
    f"0:46 /subvolumes/{'6e' * 32} /var/lib/docker/btrfs/subvolumes/{'6e' * 32} btrfs /dev/sdb1 rw",
    "0:46 / /var/lib/docker/btrfs btrfs /dev/sdb1 rw",
    f"8:33 / /srv/engine/plugins/{'7f' * 32}/propagated-mount ext4 /dev/sdc1 rw",
)
ATTACHED = (  # a driver mounts a volume in its own folder, and the kubelet mounts it for the pod
    "252:1 / /var/lib/osd/mounts/pvc-1 ext4 /dev/pxd/pxd1 rw",
    f"252:1 / {KUBE}/kubelet/pods/1/volumes/kubernetes.io~csi/pvc-1/mount ext4 /dev/pxd/pxd1 rw",
    # The machine's own file systems, which pods use as a local volume or a folder.
    "8:17 / /mnt/disks/ssd1 xfs /dev/sdb1 rw",
    f"8:17 / {KUBE}/kubelet/pods/1/volumes/kubernetes.io~local-volume/ssd1 xfs /dev/sdb1 rw",
    "8:33 / /srv xfs /dev/sdc1 rw",
    f"8:33 /pvc-2 {KUBE}/kubelet/pods/1/volumes/kubernetes.io~csi/pvc-2/mount xfs /dev/sdc1 rw",
)
SHARED = ("8:17 / /ftp xfs /dev/sdb1 rw", "8:17 /test /ftp/share/test xfs /dev/sdb1 rw")


@pytest.mark.parametrize(
    ("lines", "points"),  # mounts besides /, and the mount points that count
    [
        (("8:32 / /data xfs /dev/sdc rw", *PODS), "/ /data"),
        (POOLS, "/ /home /mnt/z /srv"),
        (SHARED, "/ /ftp"),
        (("0:50 / /mnt/mac apfs /dev/sdb1 ro",), "/ /mnt/mac"),
        (LAYERS, "/ /var/lib/docker/btrfs"),
        (ATTACHED, "/ /mnt/disks/ssd1 /srv"),
    ],
    ids=["pods-elsewhere", "zfs-and-btrfs", "bind-mount", "apfs", "layers", "attached"],
)
def test_reported_local_file_systems_count(lines: tuple[str, ...], points: str) -> None:
    host = machine(mount_table(ROOT, *lines))
    for keys in ({}, {"kind": ["overlay", "memory", "network", "local"]}):
        assert counted(host, "filesystem", keys) == points.split()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("252:0 / /x ext4 /dev/disk/by-label/log rw", "memory"),  # zram
        ("7:0 / /x ext4 /dev/loop0 rw", "image"),
        ("7:1 / /x squashfs /dev/loop0p1 ro", "image"),
        ("0:51 / /x btrfs /dev/loop0 rw", "image"),
        ("0:51 / /x btrfs /dev/mapper/home rw", "image"),  # LUKS in a file: systemd-homed
        ("253:0 / /x ext4 /dev/mapper/home rw", "image"),
        ("253:1 / /x ext4 /dev/mapper/vg-data rw", "local"),  # LVM on a disk and a file
        ("0:52 / /x zfs pool/loop0 rw", "local"),
        ("1:0 / /x ext2 /dev/ram0 rw", "memory"),
    ],
)
def test_a_file_system_in_memory_or_in_a_file_is_not_on_a_further_disk(line: str, kind: str) -> None:
    devices = (stacked("zram0", number="252:0"), stacked("loop0", number="7:0", partitions=["loop0p1"]), disk())
    home = stacked("dm-0", ["loop0p1"], "253:0", dm=("home", "CRYPT-LUKS2-home"))
    data = stacked("dm-1", ["sda", "loop0"], "253:1", dm=("vg-data", "LVM-data"))
    host = machine(mount_table(ROOT, line), *devices, home, data, stacked("ram0", number="1:0"))
    assert values(host, "filesystem", "kind") == {"/": "local", "/x": kind}


@pytest.mark.parametrize(("lines", "count"), [((ROOT, "0:50 / /ibm/fs1 gpfs fs1 rw"), 1), ((ROOT,), 0)])
def test_a_share_that_is_not_mounted_is_not_the_disk_below_its_folder(lines: tuple[str, ...], count: int) -> None:
    host = machine(mount_table(*lines), {"folders": ["/ibm/fs1"]})
    assert len(counted(host, "filesystem", {"mount": "/ibm/fs1", "kind": "network"})) == count
