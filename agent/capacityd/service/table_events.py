"""Notices changes of two tables in /proc: mounts and swap areas. The tables are not read.

The kernel reports a change as an exceptional condition of the file (proc_pid_mountinfo(5)).
"""

from __future__ import annotations

import os
import select

from capacityd.model.reasons import PassReason

SWAPS = "/proc/swaps"
"""Missing if the kernel was built without swap."""


class TableEvents:
    """Changes of the table at this path. Raises OSError."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._epoll = select.epoll()
        except OSError:
            os.close(self._file)
            raise
        self._epoll.register(self._file, select.EPOLLPRI | select.EPOLLERR)  # not EPOLLIN: the file is always readable

    def fileno(self) -> int:
        return self._epoll.fileno()

    def drain(self) -> set[PassReason]:
        """Clears the event, and returns the reason for a pass. Call it only if poll() reports fileno() as readable.

        That poll() has already taken the event from the table's file, so this method can't check for it again.
        """
        self._epoll.poll(0)
        return {PassReason.KERNEL}

    def close(self) -> None:
        self._epoll.close()
        os.close(self._file)
