"""Changes of two tables in /proc: mounts (those that concern the configuration) and swap areas.

The kernel reports a change as an exceptional condition of the file (proc_pid_mountinfo(5)); the file is always
readable.
"""

from __future__ import annotations

import os
import select
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial

from capacityd.linux.filesystems import KINDS, Backing, backing, has_device, is_of_pods, is_snapshot, kind_of
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, is_inside, mount_of, parents, whole
from capacityd.model.event_filters import MountFilter, Pattern
from capacityd.model.reasons import PassReason

_BUFFER = 65536

SWAPS = "/proc/swaps"
"""Missing if the kernel was built without swap."""


class TableEvents:
    """Changes of a table.

    reason: for a pass. relevant: takes the table's text and returns the parts that detectors use. Other changes are
    ignored.
    """

    def __init__(self, path: str, reason: PassReason, relevant: Callable[[str], frozenset[object]]) -> None:
        self._reason = reason
        self._relevant = relevant
        with ExitStack() as opened:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, self._file)
            self._epoll = opened.enter_context(select.epoll())
            self._epoll.register(self._file, select.EPOLLPRI | select.EPOLLERR)
            self._known = relevant(self._text())
            opened.pop_all()  # no error has occurred, so both stay open

    def fileno(self) -> int:
        return self._epoll.fileno()

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reason for a pass, if any."""
        self._epoll.poll(0)
        last, self._known = self._known, self._relevant(self._text())
        return {self._reason} if self._known != last else set()

    def close(self) -> None:
        self._epoll.close()
        os.close(self._file)

    def _text(self) -> str:
        os.lseek(self._file, 0, os.SEEK_SET)
        table = b""
        while piece := os.read(self._file, _BUFFER):
            table += piece
        return os.fsdecode(table)


def mount_events(concerned: MountFilter) -> TableEvents:
    """File systems that were mounted, unmounted or remounted, if they concern the configuration."""
    return TableEvents(MOUNT_TABLE, PassReason.MOUNTS, partial(relevant_mounts, concerned))


def swap_events() -> TableEvents:
    """Swap areas that were added or removed: swapon(8) sends no udev event."""
    return TableEvents(SWAPS, PassReason.SWAPS, _relevant_swaps)


def relevant_mounts(concerned: MountFilter, table: str) -> frozenset[object]:
    """The parts of the mounts that concern the configuration. The ids of mounts concern nobody."""
    mounts = [mount for line in table.split("\n") if (mount := mount_of(line))]
    of_machine = [mount for mount in mounts if any(is_inside(mount.point, tree) for tree in concerned.trees)]
    kept = [*_counted(mounts, concerned.counted), *of_machine]
    points = {mount.point for mount in kept} | concerned.points
    above = points.union(*map(parents, points)) if points else points
    kept += [mount for mount in mounts if mount.point in above]  # such a mount may hide the others
    parts: set[object] = {
        (mount.number, mount.root, mount.point, mount.type, mount.source, mount.options) for mount in kept
    }
    if concerned.disks:  # where else a file system is mounted changes nothing
        on_disks = (mount for mount in mounts if _is_on_disk(mount) and not is_of_pods(mount.point, mount.type))
        parts |= {(mount.number, mount.type, mount.source, mount.options) for mount in on_disks}
    return frozenset(parts)


def _counted(mounts: Sequence[Mount], patterns: Sequence[Pattern]) -> Iterator[Mount]:
    """The mounts of file systems that match one of the patterns, without bind mounts of their folders."""
    by_number: defaultdict[str, list[Mount]] = defaultdict(list)
    for mount in mounts:
        if not is_snapshot(mount.type, mount.source):
            by_number[mount.number].append(mount)
    for number, same in by_number.items():
        type_ = same[0].type
        # Any file system may be behind an automount.
        kinds = KINDS if backing(type_) is Backing.TRIGGER else (kind_of(type_, on_device=has_device(number)),)
        names = [pattern.name for pattern in patterns if pattern.kind in ("*", *kinds)]
        own = [mount for mount in whole(same) if names and not is_of_pods(mount.point, mount.type)]
        if any(fnmatchcase(mount.point, name) for mount in own for name in names):
            yield from own


def _is_on_disk(mount: Mount) -> bool:
    return has_device(mount.number) or backing(mount.type) is Backing.LOCAL


def _relevant_swaps(table: str) -> frozenset[object]:
    """The name, type and size of each swap area, without its used space."""
    return frozenset(tuple(line.split()[:3]) for line in table.split("\n"))
