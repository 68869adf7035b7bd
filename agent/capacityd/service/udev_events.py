"""Device events from udev: devices that were added, removed or changed, after udev's rules have run."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyudev

from capacityd.model.reasons import PassReason


class UdevEvents:
    """Events of these subsystems. The kernel filters them, so other events do not wake this process."""

    def __init__(self, subsystems: Sequence[str]) -> None:
        self._monitor: Any = pyudev.Monitor.from_netlink(_context())
        for subsystem in subsystems:
            self._monitor.filter_by(subsystem)
        self._monitor.start()
        # pyudev's poll() can't clear the error of an overflow, so it would fail forever. A socket can.
        self._socket = socket.socket(fileno=os.dup(self._monitor.fileno()))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reason for a pass, if any. An overflow is a reason."""
        relevant = False
        while True:
            try:
                device = self._monitor.poll(0)
            except OSError as e:
                if e.errno != errno.ENOBUFS and self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    raise
                relevant = True  # getsockopt has cleared the error
                continue
            if device is None:
                return {PassReason.HARDWARE} if relevant else set()
            relevant = not _is_of_pod(device) or relevant

    def close(self) -> None:
        self._socket.close()
        self._monitor = None  # libudev closes its socket with the last reference


@cache
def _context() -> Any:
    """One context for all monitors: each context loads libudev again, 65 KiB until garbage collection."""
    return pyudev.Context()


def _is_of_pod(device: Any) -> bool:
    try:
        return bool(device.properties.get("ID_NET_DRIVER") == "veth")
    except ValueError:  # the value is not UTF-8
        return False
