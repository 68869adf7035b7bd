"""The mounted file systems, each listed once, and their sizes.

The mount table has a line for each mount of a file system or of one of its folders, including bind mounts and the
mounts of a service's sandbox. Only mounts of the whole file system count, and only if no other mount hides them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from capacityd.host.mounts import mounts
from capacityd.host.time_limit import within_time_limit
from capacityd.linux.filesystem_types import belongs_to_pods, has_device, is_attached_volume, is_snapshot
from capacityd.linux.mountinfo import Mount, MountTree, mounts_of_whole_filesystem
from capacityd.linux.sandbox import sandbox_advice
from capacityd.model.errors import HostError
from capacityd.model.host import Host


@dataclass(frozen=True, slots=True)
class Filesystem:
    """A mounted file system."""

    mount: Mount
    """The file system's first mount. Its major:minor identifies the file system."""
    points: tuple[str, ...]
    """Mount points of the whole file system, without those of pods, the shortest first; empty if only pods use it."""
    mount_ids: frozenset[str]
    """The ids of the file system's mounts: the first field in mountinfo."""


def filesystems(host: Host) -> list[Filesystem]:
    """The mounted file systems that no mount hides, in the mount table's order, without snapshots. Raises HostError."""
    by_major_minor: dict[str, list[Mount]] = {}
    table = mounts(host)
    tree = MountTree(table)
    for mount in table:
        if tree.is_visible(mount) and not is_snapshot(mount.type, mount.source):
            by_major_minor.setdefault(mount.major_minor, []).append(mount)
    return [_filesystem(mounts_of_one) for mounts_of_one in by_major_minor.values()]


def filesystem_size(point: str, mount_ids: Collection[str]) -> int:
    """The size in bytes of the file system mounted at this point; 0 if it reports none.

    mount_ids: the ids of the file system's mounts, the first field in mountinfo. Raises HostError, also if the point
    now leads to a mount with another id, or if the file system does not respond in time.
    """
    # statvfs(2) hangs forever if a server does not respond.
    return within_time_limit(f"the file system on {point}", partial(_size, point, mount_ids))


def _size(point: str, mount_ids: Collection[str]) -> int:
    """The size that filesystem_size() returns. Raises HostError. May hang in the kernel."""
    try:
        fd = os.open(point, os.O_PATH | os.O_CLOEXEC)
        try:
            with open(f"/proc/self/fdinfo/{fd}") as f:
                match = re.search(r"^mnt_id:\s*(\d+)", f.read(), re.MULTILINE)
            if match is None or match[1] not in mount_ids:
                raise HostError(f"{point} is hidden by another mount")
            status = os.statvfs(fd)
            return status.f_blocks * status.f_frsize
        finally:
            os.close(fd)
    except OSError as e:
        why = f"{os.strerror(e.errno or 0)}{sandbox_advice([point])}"
        raise HostError(f"the size of {point} could not be read: {why}", e.errno) from e


def _filesystem(all_mounts: Sequence[Mount]) -> Filesystem:
    """The file system with these mounts."""
    # Some programs that attach a device for a pod, such as Portworx, also mount the device in a folder of their own.
    # That mount has the same root, and does not count either.
    attached_roots = set()
    for mount in all_mounts:
        if has_device(mount.major_minor) and is_attached_volume(mount.point):
            attached_roots.add(mount.root)
    points = set()
    for mount in mounts_of_whole_filesystem(all_mounts):
        if mount.root not in attached_roots and not belongs_to_pods(mount.point, mount.type):
            points.add(mount.point)
    return Filesystem(
        mount=all_mounts[0],
        points=tuple(sorted(points, key=lambda point: (len(point), point))),
        mount_ids=frozenset(mount.id for mount in all_mounts),
    )
