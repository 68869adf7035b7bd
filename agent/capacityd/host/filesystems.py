"""The file systems that are mounted, each once, and their sizes.

The mount table has a file system once for each place that it, or a folder of it, is mounted on: also for bind mounts,
and for those of a service's sandbox. Only the places where the whole of it is mounted count.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, mount_of
from capacityd.model.errors import HostError
from capacityd.model.host import Host

_STATVFS_TIMEOUT = 5.0  # seconds; statvfs(2) hangs for ever when a server is gone


@dataclass(frozen=True, slots=True)
class Filesystem:
    """A mounted file system."""

    number: str
    """major:minor, the kernel's name for it."""
    type: str
    source: str
    """What was mounted, such as /dev/sda1."""
    points: tuple[str, ...]
    """Its mount points, sorted."""
    read_only: bool
    """Whether the file system itself is read-only, whatever its mounts are."""
    ids: frozenset[str]
    """The ids of its mounts."""


def filesystems(host: Host) -> list[Filesystem]:
    """All mounted file systems, in the order in which they were mounted. Raises HostError."""
    mounts: dict[str, list[Mount]] = {}
    for line in host.lines(MOUNT_TABLE):
        mount = mount_of(line)
        if mount is None:
            raise HostError(f'{MOUNT_TABLE} has the line "{line[:60]}", which is malformed')
        mounts.setdefault(mount.number, []).append(mount)
    if not mounts:
        raise HostError(f"{MOUNT_TABLE} is empty")
    return [_filesystem(mounts_of_one) for mounts_of_one in mounts.values()]


def measure(point: str, ids: Collection[str]) -> int:
    """The size in bytes of the file system on a mount point. ids: of its mounts (mountinfo's first field).

    Raises HostError, also if something else is mounted over it, or if it does not answer.
    """
    thread = _Measurement(point, ids)
    try:
        thread.start()
    except RuntimeError as e:
        raise HostError(f"the size of {point} could not be read: {e}") from e
    thread.join(_STATVFS_TIMEOUT)
    if thread.result is None:
        raise HostError(f"the file system on {point} did not answer within {_STATVFS_TIMEOUT:g} s")
    if isinstance(thread.result, HostError):
        raise thread.result
    return thread.result


class _Measurement(threading.Thread):
    """Measures a file system in a thread, because nothing interrupts a call that hangs in the kernel."""

    def __init__(self, point: str, ids: Collection[str]) -> None:
        super().__init__(daemon=True)
        self.result: int | HostError | None = None  # None: it has not answered yet
        self._point, self._ids = point, ids

    def run(self) -> None:
        """Sets the result."""
        try:
            self.result = _measure(self._point, self._ids)
        except HostError as e:
            self.result = e


def _measure(point: str, ids: Collection[str]) -> int:
    try:
        fd = os.open(point, os.O_PATH | os.O_CLOEXEC)
        try:
            with open(f"/proc/self/fdinfo/{fd}") as f:
                mount = next((line.split()[1] for line in f if line.startswith("mnt_id:")), "")
            if mount not in ids:
                raise HostError(f"{point} is hidden by another mount")
            status = os.statvfs(fd)
            return status.f_blocks * status.f_frsize
        finally:
            os.close(fd)
    except OSError as e:
        raise HostError(f"the size of {point} could not be read: {os.strerror(e.errno or 0)}", e.errno) from e


def _filesystem(mounts: Sequence[Mount]) -> Filesystem:
    first = mounts[0]
    points = sorted({mount.point for mount in _whole(mounts)}, key=lambda point: (len(point), point))
    ids = frozenset(mount.id for mount in mounts)
    return Filesystem(first.number, first.type, first.source, tuple(points), first.read_only, ids)


def _whole(mounts: Sequence[Mount]) -> Iterator[Mount]:
    """The mounts whose root is not inside the root of another one. Subvolumes of btrfs lie beside each other."""
    roots = {mount.root for mount in mounts}
    for mount in mounts:
        root = mount.root
        if not any(root != other and root.startswith(f"{other.rstrip('/')}/") for other in roots):
            yield mount
