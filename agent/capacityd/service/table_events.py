"""Changes of two tables in /proc: mounts (without those of pods, which are frequent on a node) and swap areas.

The kernel reports a change as an exceptional condition of the file (proc_pid_mountinfo(5)); the file is always
readable.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from capacityd.linux.filesystems import is_of_pods
from capacityd.linux.mountinfo import MOUNT_TABLE, mount_of
from capacityd.model.reasons import PassReason

_BUFFER = 65536

SWAPS = "/proc/swaps"
"""Missing if the kernel was built without swap."""


class TableEvents:
    """Changes of a table.

    relevant: takes the table's text and returns the parts that detectors use. Other changes are ignored.
    """

    def __init__(self, path: str, relevant: Callable[[str], frozenset[object]]) -> None:
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
        return {PassReason.HARDWARE} if self._known != last else set()

    def close(self) -> None:
        self._epoll.close()
        os.close(self._file)

    def _text(self) -> str:
        os.lseek(self._file, 0, os.SEEK_SET)
        table = b""
        while piece := os.read(self._file, _BUFFER):
            table += piece
        return os.fsdecode(table)


def mount_events() -> TableEvents:
    """File systems that were mounted, unmounted or remounted, except those of pods."""
    return TableEvents(MOUNT_TABLE, _relevant_mounts)


def swap_events() -> TableEvents:
    """Swap areas that were added or removed: swapon(8) sends no udev event."""
    return TableEvents(SWAPS, _relevant_swaps)


def _relevant_mounts(table: str) -> frozenset[object]:
    """The parts of each mount that detectors use: everything but the ids. Pods' mounts are left out."""
    mounts = map(mount_of, table.split("\n"))
    return frozenset(
        replace(mount, id="", parent="") for mount in mounts if mount and not is_of_pods(mount.point, mount.type)
    )


def _relevant_swaps(table: str) -> frozenset[object]:
    """The name, type and size of each swap area, without its used space."""
    return frozenset(tuple(line.split()[:3]) for line in table.split("\n"))
