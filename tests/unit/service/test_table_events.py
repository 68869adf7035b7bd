"""Mounts and swap as the kernel reports them, in new namespaces: which events wake the service."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.forked import can_be_alone
from tests.support.kernel_events import check_events

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")


def test_each_mount_is_an_event() -> None:
    """Also a bind mount of a folder, which may move the node's data to another disk."""
    steps = {
        "mkdir f b; mount -t tmpfs tmpfs $PWD/f": True,
        "mount --bind f $PWD/b": True,
        "mount -o remount,bind,ro $PWD/f": True,
        "umount $PWD/b": True,
        "touch b/x": False,
        ":": False,
    }
    check_events("mounts", "mount -t tmpfs x /mnt; cd /mnt", steps)


def test_swap_that_comes_or_goes_is_an_event(tmp_path: Path) -> None:
    """A real swap file."""
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
