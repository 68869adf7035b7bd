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

from capacityd.linux.filesystem_types import KINDS, Backing, backing, has_device, is_of_pods, is_snapshot, kind_of
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, mount_of, mounts_of_whole
from capacityd.linux.paths import is_inside, parents
from capacityd.model.event_filters import MountFilter, Pattern
from capacityd.model.reasons import PassReason

_BUFFER = 65536

SWAPS = "/proc/swaps"
"""Missing if the kernel was built without swap."""


class TableEvents:
    """Changes of a table.

    path: of the table. reason: of the pass that a change starts. relevant_parts: takes the table's text and returns the
    parts that detectors use. Changes of other parts are ignored.
    """

    def __init__(self, path: str, reason: PassReason, relevant_parts: Callable[[str], frozenset[object]]) -> None:
        self._reason = reason
        self._relevant_parts = relevant_parts
        with ExitStack() as opened:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, self._file)
            self._epoll = opened.enter_context(select.epoll())
            self._epoll.register(self._file, select.EPOLLPRI | select.EPOLLERR)  # not EPOLLIN: always readable
            self._last_parts = relevant_parts(self._text())
            opened.pop_all()  # no error has occurred, so the file and the epoll object stay open

    def fileno(self) -> int:
        return self._epoll.fileno()

    def drain(self) -> set[PassReason]:
        """Clears the event, and reads the table. Returns the reason for a pass if a relevant part has changed."""
        self._epoll.poll(0)  # clears the event
        parts = self._relevant_parts(self._text())
        has_changed = parts != self._last_parts
        self._last_parts = parts
        return {self._reason} if has_changed else set()

    def close(self) -> None:
        self._epoll.close()
        os.close(self._file)

    def _text(self) -> str:
        os.lseek(self._file, 0, os.SEEK_SET)
        table = b""
        while piece := os.read(self._file, _BUFFER):
            table += piece
        return os.fsdecode(table)


def mount_events(mount_filter: MountFilter) -> TableEvents:
    """File systems that were mounted, unmounted or remounted, if they concern the configuration."""
    return TableEvents(MOUNT_TABLE, PassReason.MOUNTS, partial(relevant_mounts, mount_filter))


def swap_events() -> TableEvents:
    """Swap areas that were added or removed: swapon(8) sends no udev event."""
    return TableEvents(SWAPS, PassReason.SWAPS, _relevant_swaps)


def relevant_mounts(mount_filter: MountFilter, table: str) -> frozenset[object]:
    """The parts of the mounts that concern the configuration, without the mounts' ids, which no detector uses.

    table: the text of mountinfo.
    """
    mounts = [mount for mount in map(mount_of, table.split("\n")) if mount]
    # The machine's own file systems are mounted at system_points (/, for example) and inside system_trees.
    of_machine = [mount for mount in mounts if any(is_inside(mount.point, tree) for tree in mount_filter.system_trees)]
    relevant = [*_counted(mounts, mount_filter.counted), *of_machine]
    points = {mount.point for mount in relevant} | mount_filter.system_points
    points_and_parents = points.union(*map(parents, points))
    # A mount on one of these points, or above it, may hide a relevant mount.
    relevant += [mount for mount in mounts if mount.point in points_and_parents]
    parts: set[object] = {
        (mount.number, mount.root, mount.point, mount.type, mount.source, mount.options) for mount in relevant
    }
    if mount_filter.system_disks:
        # Of these, only which file systems there are matters, so their parts lack root and mount point.
        on_disks = (mount for mount in mounts if _is_on_disk(mount) and not is_of_pods(mount.point, mount.type))
        parts |= {(mount.number, mount.type, mount.source, mount.options) for mount in on_disks}
    return frozenset(parts)


def _counted(mounts: Sequence[Mount], patterns: Sequence[Pattern]) -> Iterator[Mount]:
    """The mounts of file systems that match one of the patterns, without bind mounts of their folders."""
    by_number: defaultdict[str, list[Mount]] = defaultdict(list)  # major:minor of a file system -> its mounts
    for mount in mounts:
        if not is_snapshot(mount.type, mount.source):  # the detector does not count snapshots either
            by_number[mount.number].append(mount)
    for all_mounts in by_number.values():
        kinds = _possible_kinds(all_mounts[0])
        globs = [pattern.name for pattern in patterns if pattern.kind in ("*", *kinds)]
        if not globs:
            continue
        # mounts_of_whole() leaves out the bind mounts.
        whole = [mount for mount in mounts_of_whole(all_mounts) if not is_of_pods(mount.point, mount.type)]
        if any(fnmatchcase(mount.point, glob) for mount in whole for glob in globs):
            yield from whole


def _possible_kinds(mount: Mount) -> Sequence[str]:
    """The kinds that the file system may have. The file system behind an automount may have any kind."""
    if backing(mount.type) is Backing.TRIGGER:
        return KINDS
    return [kind_of(mount.type, on_device=has_device(mount.number))]


def _is_on_disk(mount: Mount) -> bool:
    return has_device(mount.number) or backing(mount.type) is Backing.LOCAL


def _relevant_swaps(table: str) -> frozenset[object]:
    """The name, type and size of each swap area, without its used space."""
    rows = (line.split() for line in table.split("\n"))
    return frozenset(tuple(row[:3]) for row in rows)
