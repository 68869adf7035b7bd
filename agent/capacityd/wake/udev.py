"""Events of udev: devices that come, go or change, once its rules have run."""

from __future__ import annotations

import ctypes
import os
import socket

from capacityd.wake.kernel import any_counts

TYPE_CHECKING = False  # typing itself would stay in memory
if TYPE_CHECKING:
    from collections.abc import Sequence


class UdevEvents:
    """Events of these subsystems, after udev's rules have run. The kernel filters them; the others don't wake us."""

    def __init__(self, subsystems: Sequence[str]) -> None:
        # libudev itself rather than pyudev, which would keep 3 MiB here for these five calls (libudev(3)).
        self._udev = udev = ctypes.CDLL("libudev.so.1", use_errno=True)
        udev.udev_new.restype = udev.udev_monitor_new_from_netlink.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(udev.udev_new())
        self._monitor = ctypes.c_void_p(udev.udev_monitor_new_from_netlink(self._context, b"udev"))
        if not self._monitor:
            raise OSError(ctypes.get_errno(), "udev's events can't be listened to")
        for subsystem in subsystems:
            udev.udev_monitor_filter_add_match_subsystem_devtype(self._monitor, os.fsencode(subsystem), None)
        if udev.udev_monitor_enable_receiving(self._monitor) < 0:
            raise OSError(ctypes.get_errno(), "udev's events can't be listened to")
        # Reading ourselves: what an event says does not matter, and an overflow has to be read away.
        self._socket = socket.socket(fileno=os.dup(udev.udev_monitor_get_fd(self._monitor)))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[str]:
        """Takes all events there are and returns the reasons to look again."""
        return {"hardware"} if any_counts(self._socket, lambda data: b"ID_NET_DRIVER=veth\0" not in data) else set()

    def close(self) -> None:
        self._socket.close()
        self._udev.udev_monitor_unref(self._monitor)
        self._udev.udev_unref(self._context)
