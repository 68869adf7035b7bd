"""Mounts and swap as the kernel reports them, in new namespaces: which events wake the service and which don't."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from capacityd.detectors import load
from capacityd.host.recording.replay import RecordedHost
from capacityd.linux import filesystems
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount
from capacityd.model.device import DeviceDetector
from capacityd.service import table_events
from tests.support.forked import can_be_alone
from tests.support.kernel_events import check_events

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
SETUP = 'cd "$(mktemp -d)"; mount -t tmpfs x "$PWD"; cd "$PWD"; mkdir t'


def test_mounts() -> None:
    """Mounts that a detector can count wake the service: tmpfs, bind mounts, overlays. Mounts for pods do not."""
    steps = {
        "mount -t tmpfs tmpfs $PWD/t": True,
        "mkdir t/var; mount -t tmpfs x $PWD/t/var": True,
        "mount --bind t/var $PWD/t": True,
        "umount $PWD/t": True,
        "umount $PWD/t/var $PWD/t": True,
        'mkdir "a b"; mount -t tmpfs tmpfs "$PWD/a b"; umount "$PWD/a b"': False,  # it has ended before it is read
        "mkdir lower upper work; mount -t overlay x -o lowerdir=lower,upperdir=upper,workdir=work $PWD/t": True,
        "touch ns; unshare --net=$PWD/ns true": False,  # how network namespaces of pods are mounted
        "mkdir -p docker/overlay2/x/merged; mount -t tmpfs x $PWD/docker/overlay2/x/merged": False,
        ":": False,
    }
    check_events("mounts", SETUP, steps)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount these, even in namespaces")
def test_mounts_that_need_root() -> None:
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
    types = [*filesystems._TYPES, "fuse.sshfs", "fuse.s3fs", "ext4", "xfs", "vfat", "devtmpfs", "proc", "unheard-of"]
    lines = [f"{n} 1 0:{n} / {point}/{n} rw - {kind} source rw\n" for n, kind in enumerate(types, 30)]
    detector = load("filesystem")
    assert isinstance(detector, DeviceDetector)
    counted = {d.name for d in detector.find(RecordedHost({"files": {MOUNT_TABLE: "".join(lines)}}))}
    relevant = {mount.point for mount in table_events._relevant_mounts("".join(lines)) if isinstance(mount, Mount)}
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


def test_swap(tmp_path: Path) -> None:
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
