"""The mounted file systems, each listed once, and their sizes.

The mount table has a line for each mount of a file system or of one of its folders, including bind mounts and the
mounts of a service's sandbox. Only mounts of the whole file system count, and only if no other mount hides them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from capacityd.host.mounts import mounts
from capacityd.host.time_limit import within_time_limit
from capacityd.linux.filesystem_types import (
    Backing,
    backing,
    has_device,
    is_attached_volume,
    is_of_pods,
    is_snapshot,
    may_hang,
)
from capacityd.linux.mountinfo import Mount, MountTree, mounts_of_whole
from capacityd.linux.sandbox import sandbox_advice
from capacityd.model.errors import HostError
from capacityd.model.host import Host


@dataclass(frozen=True, slots=True)
class Filesystem:
    """A mounted file system."""

    number: str
    """The major:minor, by which the kernel identifies the file system."""
    type: str
    source: str
    """The mounted device or share, such as /dev/sda1."""
    points: tuple[str, ...]
    """The machine's mount points of the whole file system (mounts_of_whole), the shortest first; empty if the
    file system is only for pods."""
    read_only: bool
    """Whether the file system itself is read-only, regardless of its mounts."""
    mount_ids: frozenset[str]
    """The ids of the file system's mounts: the first field in mountinfo."""
    is_trigger: bool
    """Whether this is only the mount point of a file system that is mounted at the first access."""


def filesystems(host: Host) -> list[Filesystem]:
    """The mounted file systems that no other mount hides, in mount order, without snapshots. Raises HostError."""
    by_number: dict[str, list[Mount]] = {}
    table = mounts(host)
    tree = MountTree(table)
    for mount in table:
        if tree.is_visible(mount) and not is_snapshot(mount.type, mount.source):
            by_number.setdefault(mount.number, []).append(mount)
    return [_filesystem(mounts_of_one) for mounts_of_one in by_number.values()]


def local_filesystems(host: Host) -> list[Filesystem]:
    """The file systems on a disk or in memory. Reading their size does not wait for a server. Raises HostError."""
    return [filesystem for filesystem in filesystems(host) if _is_local(filesystem)]


def _is_local(filesystem: Filesystem) -> bool:
    """Whether a file system is on a block device or in memory, or consists of layers that the kernel joins."""
    if has_device(filesystem.number):
        return True
    if filesystem.type == "devtmpfs":  # backing() does not know this type, which is in memory and has a size
        return True
    if may_hang(filesystem.type):  # also layers that a FUSE program joins
        return False
    return backing(filesystem.type) in (Backing.LOCAL, Backing.MEMORY, Backing.LAYERS)


def filesystem_size(point: str, mount_ids: Collection[str]) -> int:
    """The size in bytes of the file system mounted at this point; 0 if it reports none.

    mount_ids: the ids of the file system's mounts, the first field in mountinfo. Raises HostError, also if the point
    now leads to a mount with another id, or if the file system does not respond in time.
    """
    # statvfs(2) hangs forever if a server does not respond.
    return within_time_limit(f"the file system on {point}", partial(_measure, point, mount_ids))


def _measure(point: str, mount_ids: Collection[str]) -> int:
    """The size that filesystem_size() returns. Raises HostError. May hang in the kernel."""
    try:
        fd = os.open(point, os.O_PATH | os.O_CLOEXEC)
        try:
            with open(f"/proc/self/fdinfo/{fd}") as f:
                mount_id = next((line.split()[1] for line in f if line.startswith("mnt_id:")), "")
            if mount_id not in mount_ids:
                raise HostError(f"{point} is hidden by another mount")
            status = os.statvfs(fd)
            return status.f_blocks * status.f_frsize
        finally:
            os.close(fd)
    except OSError as e:
        why = f"the size of {point} could not be read: {os.strerror(e.errno or 0)}{sandbox_advice([point])}"
        raise HostError(why, e.errno) from e


def _filesystem(mounts_of_one: Sequence[Mount]) -> Filesystem:
    first = mounts_of_one[0]
    # Some programs that attach a device for a pod, such as Portworx, also mount it in a folder of their own.
    attached = {mount.root for mount in mounts_of_one if has_device(first.number) and is_attached_volume(mount.point)}
    points = {
        mount.point
        for mount in mounts_of_whole(mounts_of_one)
        if mount.root not in attached and not is_of_pods(mount.point, mount.type)
    }
    return Filesystem(
        number=first.number,
        type=first.type,
        source=first.source,
        points=tuple(sorted(points, key=lambda point: (len(point), point))),
        read_only=first.read_only,
        mount_ids=frozenset(mount.id for mount in mounts_of_one),
        is_trigger=first.is_trigger,
    )
