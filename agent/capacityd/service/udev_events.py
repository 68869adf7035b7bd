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
from capacityd.service.kernel_events import discard_datagrams

UDEV = "/run/udev/control"
"""A socket that exists while udev runs."""


class UdevEvents:
    """The events of some udev subsystems. reason: why each event starts a reconcile pass. Raises OSError."""

    def __init__(self, subsystems: Iterable[str], reason: PassReason) -> None:
        if not os.path.exists(UDEV):  # the monitor might then never report an event
            raise OSError("udev is not running")
        self._reason = reason
        self._monitor = _started_monitor(subsystems)
        # The socket needs a descriptor of its own, because libudev closes the monitor's descriptor with the monitor.
        fd = os.dup(self._monitor.fileno())
        self._socket = socket.socket(fileno=fd)

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads the queued events. Returns the reason for a pass if there was an event."""
        return {self._reason} if discard_datagrams(self._socket) else set()

    def close(self) -> None:
        self._socket.close()
        self._monitor = None


def _started_monitor(subsystems: Iterable[str]) -> Any:
    """Returns a monitor of pyudev that receives the events of these subsystems. Raises OSError."""
    try:
        monitor = pyudev.Monitor.from_netlink(_context())
        for subsystem in subsystems:
            monitor.filter_by(subsystem)
        monitor.start()
    except (ImportError, MemoryError, OverflowError, ValueError) as e:  # libudev is missing, or has returned an error
        raise OSError(f"libudev failed: {e}") from e
    return monitor


@cache
def _context() -> Any:
    """The context that all monitors share. Each new context would load libudev again, which takes 65 KiB of memory."""
    return pyudev.Context()
