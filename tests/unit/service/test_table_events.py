"""Mounts and swap as the kernel reports them, in new namespaces: which events wake the service and which don't."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from capacityd.detectors import load_detector
from capacityd.host.recording.replay import RecordedHost
from capacityd.linux import filesystem_types
from capacityd.linux.mountinfo import MOUNT_TABLE
from capacityd.model.event_filters import ALL_EVENTS, EventFilters
from capacityd.model.options import Selection
from capacityd.schema.config import Config
from capacityd.schema.device import DeviceDetector
from capacityd.service import table_events
from capacityd.worker.check_job import service_config
from tests.support.forked import can_be_alone
from tests.support.kernel_events import check_events
from tests.support.readings import resource

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
SETUP = "mount -t tmpfs x /mnt; mkdir -p /mnt/top/t; cd /mnt/top"


def test_mounts_that_a_detector_can_count_start_a_pass() -> None:
    """Mounts that a detector can count wake the service: tmpfs, overlays. Bind mounts of folders and mounts for pods
    do not."""
    steps = {
        "mount -t tmpfs tmpfs $PWD/t": True,
        "mkdir t/var; mount -t tmpfs x $PWD/t/var": True,
        "mount --bind t/var $PWD/t": True,  # hides the mount below
        "umount $PWD/t": True,
        "umount $PWD/t/var $PWD/t": True,
        "mkdir f b; mount --bind f $PWD/b": False,
        'mkdir "a b"; mount -t tmpfs tmpfs "$PWD/a b"; umount "$PWD/a b"': False,  # it has ended before it is read
        "mkdir lower upper work; mount -t overlay x -o lowerdir=lower,upperdir=upper,workdir=work $PWD/t": True,
        "touch ns; unshare --net=$PWD/ns true": False,  # how network namespaces of pods are mounted
        "mkdir -p docker/overlay2/x/merged; mount -t tmpfs x $PWD/docker/overlay2/x/merged": False,
        ":": False,
    }
    check_events("mounts", SETUP, steps)


POD = """
s=$PWD/{store}; mkdir -p $s/1/fs $s/2/fs $s/2/work $PWD/{root} $PWD/k/pods/8e4c/token $PWD/k/pods/8e4c/hosts $PWD/shm
mount -t overlay overlay -o lowerdir=$s/1/fs,upperdir=$s/2/fs,workdir=$s/2/work $PWD/{root}
mount -t tmpfs tmpfs $PWD/k/pods/8e4c/token; mount -t tmpfs shm $PWD/shm; mkdir $PWD/mq; mount -t mqueue mqueue $PWD/mq
mkdir -p $PWD/kata/rootfs $PWD/kata/hosts; mount --bind $PWD/{root} $PWD/kata/rootfs
mount --bind $PWD/k/pods/8e4c/hosts $PWD/kata/hosts; touch $PWD/ns; unshare --net=$PWD/ns true
"""
RUNTIMES = {
    "docker overlay2": ("var/lib/docker/overlay2", "var/lib/docker/overlay2/51d0/merged"),
    "docker 29": ("var/lib/docker/containerd/snapshots", "var/lib/docker/rootfs/overlayfs/51d0"),
    "containerd": ("var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots", "run/containerd/51d0/rootfs"),
    "cri-o": ("var/lib/containers/storage/overlay", "var/lib/containers/storage/overlay/51d0/merged"),
    "stargz": ("var/lib/containerd-stargz-grpc/snapshotter/snapshots", "run/containerd/51d0/rootfs"),
    "elsewhere": ("data/x/snapshots", "data/run/51d0/rootfs"),
}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_mounts_of_pods_concern_nobody_who_counts_disks(runtime: str) -> None:
    """Wherever the container runtime and the kubelet store their data."""
    store, root = RUNTIMES[runtime]
    steps = {
        POD.format(store=store, root=root): False,
        "awk '$5 ~ \"'$PWD'/\" {print $5}' /proc/self/mountinfo | tac | xargs umount": False,
    }
    for wanted in ({"disk": {"system": False}}, {"disk": {"system": False}, "filesystem": {}}):
        check_events("mounts", SETUP, steps, filters_of(wanted), many=True)


def filters_of(tables: Mapping[str, Mapping[str, object]]) -> EventFilters:
    """The filters of a configuration with these tables of detectors."""
    config = Config(tuple(resource(detector, table) for detector, table in tables.items()))
    return service_config(config, Selection()).filters


DISK = "31 1 8:17 / {point} rw - ext4 /dev/sdb1 rw\n"
OVERLAY = "32 1 0:40 / {point} rw - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c\n"
TABLE = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + DISK.format(point="/srv/a")


@pytest.mark.parametrize(
    ("line", "disks", "filesystems"),
    [
        (DISK.format(point="/srv/b"), False, True),  # a second mount point
        (DISK.format(point="/srv/b").replace("8:17 /", "8:17 /folder"), False, False),
        (DISK.format(point="/srv/b").replace("8:17", "8:33"), True, True),
        (DISK.format(point="/var/lib/kubelet"), True, True),
        (DISK.format(point="/var/lib/kubelet").replace("8:17 /", "8:17 /folder"), True, False),
        (OVERLAY.format(point="/var/lib"), True, False),  # above the kubelet's folder
        (OVERLAY.format(point="/etc"), True, False),
        (OVERLAY.format(point="/usr/share/x"), True, False),
        (OVERLAY.format(point="/srv"), False, True),  # hides /srv/a
        (OVERLAY.format(point="/srv/b"), False, False),
        (DISK.format(point="/").replace("8:17", "0:50").replace("ext4", "zfs"), True, True),
    ],
)
def test_mounts_that_change_what_the_detectors_find_start_a_pass(line: str, disks: bool, filesystems: bool) -> None:
    for tables, relevant in (({"disk": {"system": False}}, disks), ({"filesystem": {}}, filesystems)):
        mounts = filters_of(tables).mounts
        before, after = (table_events.relevant_mounts(mounts, table) for table in (TABLE, TABLE + line))
        assert (before != after) is relevant


def test_only_the_mount_points_of_a_resource_concern_it() -> None:
    shm = filters_of({"filesystem": {"kind": "memory", "mount": "/dev/shm"}}).mounts
    for point, relevant in (("/dev/shm", True), ("/srv/shm", False), ("/dev", True), ("/dev/shm/x", False)):
        line = f"40 1 0:41 / {point} rw - tmpfs shm rw\n"
        table = TABLE + "39 1 0:39 / /dev/shm rw - tmpfs tmpfs rw\n"
        changed = table_events.relevant_mounts(shm, table) != table_events.relevant_mounts(shm, table + line)
        assert changed is relevant


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount these, even in namespaces")
def test_mounts_that_need_root_start_a_pass() -> None:
    """Mounts of /proc and of a whole file system, and a mount whose size changes."""
    steps = {
        "mount -t proc proc $PWD/t": True,
        "mount --bind / $PWD/t": True,
        "mkdir u; mount -t tmpfs tmpfs $PWD/u": True,
        "mount -o remount,size=1M $PWD/u": True,
    }
    check_events("mounts", SETUP, steps)


@pytest.mark.parametrize(
    "point", ["/data", "/var/lib/kubelet/pods/1/volumes/x", "/run/k3s/containerd/io.containerd.x/y"]
)
def test_mounts_of_every_counted_file_system_start_a_pass(point: str) -> None:
    """The types and kinds include those that this kernel can't mount, such as Lustre and virtiofs."""
    types = [
        *filesystem_types._TYPES,
        "fuse.sshfs",
        "fuse.s3fs",
        "ext4",
        "xfs",
        "vfat",
        "devtmpfs",
        "proc",
        "unheard-of",
    ]
    lines = [f"{n} 1 0:{n} / {point}/{n} rw - {kind} source rw\n" for n, kind in enumerate(types, 30)]
    detector = load_detector("filesystem")
    assert isinstance(detector, DeviceDetector)
    counted = {d.name for d in detector.find(RecordedHost({"files": {MOUNT_TABLE: "".join(lines)}}))}
    mounts = table_events.relevant_mounts(ALL_EVENTS.mounts, "".join(lines))
    relevant = {mount[2] for mount in mounts if isinstance(mount, tuple)}
    assert relevant == counted
    assert len(counted) == (len(types) - 1 if point == "/data" else 0)  # a mounted namespace is no storage


SWAPS = """Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority
/dev/dm-1                               partition\t1048572\t\t{used}\t\t{priority}
"""


def test_the_use_of_swap_is_ignored() -> None:
    before, after = (table_events._relevant_swaps(SWAPS.format(used=n, priority=n)) for n in (0, 300))
    assert before == after
    other = SWAPS.format(used=0, priority=0)
    for change in ("/dev/dm-1", "partition", "1048572"):
        assert table_events._relevant_swaps(other.replace(change, "7")) != before


def test_swap_that_comes_or_goes_starts_a_pass(tmp_path: Path) -> None:
    """A real swap file. Its name contains a space, which the kernel escapes."""
    area = tmp_path / "a swap"
    area.write_bytes(bytes(1 << 20))
    area.chmod(0o600)
    subprocess.run(["mkswap", area], check=True, capture_output=True)
    try:
        if subprocess.run(["swapon", area], capture_output=True, check=False).returncode:
            pytest.skip("needs the right to swap to a file")
        subprocess.run(["swapoff", area], check=True)
        check_events("swaps", "true", {f"swapon '{area}'": True, f"swapoff '{area}'": True})
    finally:
        subprocess.run(["swapoff", area], capture_output=True, check=False)
