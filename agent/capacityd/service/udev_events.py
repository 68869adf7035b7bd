"""Device events from udev: devices that were added, removed or changed, after udev's rules have run.

The kernel filters them by subsystem. Nothing else is parsed: any process with CAP_NET_ADMIN can send such events, so
libudev and pyudev might fail at one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from functools import cache
from typing import Any

import pyudev

from capacityd.linux.netlink import read_all
from capacityd.model.reasons import PassReason


class UdevEvents:
    """Events of these subsystems. reason: of the pass that they start.

    pyudev maps the errors of libudev: raises OSError, ValueError, OverflowError or MemoryError, and ImportError without
    libudev.
    """

    def __init__(self, subsystems: Iterable[str], reason: PassReason) -> None:
        self._reason = reason
        self._monitor: Any = pyudev.Monitor.from_netlink(_context())
        for subsystem in subsystems:
            self._monitor.filter_by(subsystem)
        self._monitor.start()
        # A duplicate: libudev closes its own descriptor with the last reference to the monitor.
        self._socket = socket.socket(fileno=os.dup(self._monitor.fileno()))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads the queued events; returns the reason for a pass, if any."""
        return {self._reason} if read_all(self._socket) else set()

    def close(self) -> None:
        self._socket.close()
        self._monitor = None


@cache
def _context() -> Any:
    """The context of all monitors. A context for each would load libudev again: 65 KiB until garbage collection."""
    return pyudev.Context()
