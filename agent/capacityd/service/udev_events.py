"""Device events from udev: devices that were added, removed or changed, after udev's rules have run.

Any process with CAP_NET_ADMIN can send such events, so libudev and pyudev may fail at one. Such a failure counts
as an event of a device.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyudev

from capacityd.model.reasons import PassReason

_SOFTWARE_LINKS = "/devices/virtual/net/"

_LIBUDEV_ERRORS = (OSError, ValueError, OverflowError, MemoryError)
"""What pyudev raises for the errors of libudev: exception_from_errno in its _ctypeslib/_errorcheckers.py."""

_MAX_EVENTS = 4096
"""Events that one call reads; the rest remain in the queue."""


class UdevEvents:
    """Events of these subsystems. The kernel filters them, so other events do not wake this process.

    software_links: whether events of network links without hardware, such as those of pods, count.
    """

    def __init__(self, subsystems: Sequence[str], *, software_links: bool = True) -> None:
        self._software_links = software_links
        self._monitor: Any = pyudev.Monitor.from_netlink(_context())
        for subsystem in subsystems:
            self._monitor.filter_by(subsystem)
        self._monitor.start()
        # pyudev's poll() can't clear the error of an overflow, so it would fail forever. A socket can.
        self._socket = socket.socket(fileno=os.dup(self._monitor.fileno()))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads the queued events; returns the reason for a pass, if any. An overflow is a reason.

        Raises OSError if the source is broken.
        """
        relevant = False
        for _ in range(_MAX_EVENTS):
            try:
                device = self._monitor.poll(0)
            except _LIBUDEV_ERRORS as e:
                # pyudev's poll() raises an OSError without errno while the socket has an error, such as an overflow of
                # the queue. SO_ERROR returns the socket's error and clears it. If there was none, poll() would fail
                # again at each call.
                cleared_error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                is_of_poll = isinstance(e, OSError) and e.errno is None
                if is_of_poll and not cleared_error:
                    raise
                relevant = True
                continue
            if device is None:
                break
            if self._is_relevant(device):
                relevant = True
        return {PassReason.DEVICES} if relevant else set()

    def _is_relevant(self, device: Any) -> bool:
        try:
            return self._software_links or not device.device_path.startswith(_SOFTWARE_LINKS)
        except (AttributeError, TypeError, ValueError):  # no path, or one that is not UTF-8
            return True

    def close(self) -> None:
        self._socket.close()
        self._monitor = None  # libudev closes its own descriptor with the last reference


@cache
def _context() -> Any:
    """The context of all monitors. A context for each would load libudev again: 65 KiB until garbage collection."""
    return pyudev.Context()
