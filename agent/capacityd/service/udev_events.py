"""Notices when devices are added, removed or changed, by the events that udev sends after its rules have run.

The kernel filters the events by subsystem. Their content is not parsed: any process with CAP_NET_ADMIN can send events,
and libudev and pyudev might fail to parse a malformed event.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from functools import cache
from typing import Any

import pyudev

from capacityd.model.reasons import PassReason
from capacityd.service.kernel_events import read_all


class UdevEvents:
    """Events of these subsystems. reason: why each event starts a pass.

    Raises ImportError if libudev is missing. For errors of libudev, pyudev raises OSError, ValueError, OverflowError or
    MemoryError.
    """

    def __init__(self, subsystems: Iterable[str], reason: PassReason) -> None:
        self._reason = reason
        self._monitor: Any = pyudev.Monitor.from_netlink(_context())
        for subsystem in subsystems:
            self._monitor.filter_by(subsystem)
        self._monitor.start()
        # A duplicate, because libudev closes its own descriptor with the last reference to the monitor.
        self._socket = socket.socket(fileno=os.dup(self._monitor.fileno()))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads the queued events. Returns the reason for a pass if there was an event."""
        return {self._reason} if read_all(self._socket) else set()

    def close(self) -> None:
        self._socket.close()
        self._monitor = None


@cache
def _context() -> Any:
    """The context that all monitors share. Each new context would load libudev again, which takes 65 KiB of memory."""
    return pyudev.Context()
