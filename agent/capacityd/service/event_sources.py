"""The service's event sources: devices, links, addresses, mounts, swap, files, signals, and suspends.

An event is only a reason for a reconcile pass. It is parsed only as far as needed to ignore the events of pods, which
are frequent on a node.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Collection
from typing import TypeAlias

from capacityd.linux.clock import suspended
from capacityd.model.messages import Watch
from capacityd.model.reasons import KernelEvents, PassReason
from capacityd.service.file_events import FileEvents
from capacityd.service.netlink_events import AddressEvents, LinkEvents
from capacityd.service.table_events import SWAPS, TableEvents, mount_events, swap_events
from capacityd.service.udev_events import UdevEvents

Source: TypeAlias = UdevEvents | LinkEvents | AddressEvents | TableEvents | FileEvents

UDEV = "/run/udev/control"
"""A socket that exists while udev runs."""

_KERNEL: dict[KernelEvents, Callable[[], Source]] = {
    KernelEvents.LINKS: LinkEvents,
    KernelEvents.ADDRESSES: AddressEvents,
    KernelEvents.MOUNTS: mount_events,
    KernelEvents.SWAPS: swap_events,
}
_SUSPENDED = 5.0  # seconds; a longer suspend is a reason for a pass
_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class EventSources:
    """The open event sources of a configuration."""

    def __init__(self, watch: Watch) -> None:
        self.unavailable: list[str] = []  # the error of each source that is not open
        self.retry = False  # whether opening the sources again may help
        self.awaits_udev = False  # whether the sources must be opened again once udev runs
        self._open: dict[int, Source] = {}
        openers: list[Callable[[], Source]] = []
        files = dict(watch.files)
        if watch.subsystems:
            openers.append(lambda: UdevEvents(watch.subsystems))
            if not os.path.exists(UDEV):
                # libudev decides only when the monitor starts whether udev sends events.
                self.unavailable.append("udev is not running: there are no device events")
                self.awaits_udev = True
                files[UDEV] = PassReason.HARDWARE
        without_swap = {KernelEvents.SWAPS} if not os.path.exists(SWAPS) else set()
        openers += [_KERNEL[events] for events in watch.kernel if events not in without_swap]
        openers += [lambda: FileEvents(files)] if files else []
        for opener in openers:
            try:
                source = opener()
            except (OSError, ImportError) as e:
                self.unavailable.append(f"an event source could not be opened: {e}")
                self.retry = True
            else:
                self._open[source.fileno()] = source

    def filenos(self) -> Collection[int]:
        """The file descriptors to poll."""
        return self._open.keys()

    def drain(self, ready: Collection[int]) -> tuple[set[PassReason], list[OSError]]:
        """Reads the events of these file descriptors. Returns reasons for a pass, and errors.

        After an error, the caller must open the sources again.
        """
        reasons: set[PassReason] = set()
        failures = []
        for fd in self._open.keys() & ready:
            try:
                reasons |= self._open[fd].drain()
            except OSError as e:
                failures.append(e)
        return reasons, failures

    def close(self) -> None:
        """Closes all sources."""
        for source in self._open.values():
            source.close()


class Signals:
    """SIGHUP, SIGTERM, SIGINT and SIGCHLD as a pollable source."""

    def __init__(self) -> None:
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        return self._read

    def drain(self) -> set[signal.Signals]:
        """The received signals."""
        received: set[signal.Signals] = set()
        while select.select([self._read], [], [], 0)[0]:
            numbers = os.read(self._read, 512)
            received |= {number for number in _SIGNALS if number in numbers}
        return received


def ignore_signals() -> None:
    """Ignores signals while the process ends: Python restores their default actions, which would replace the exit
    status."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Suspends:
    """Suspends of the machine. A suspend wakes no process, so the service calls drain() whenever it is awake."""

    def __init__(self) -> None:
        self._suspended = suspended()

    def drain(self) -> set[PassReason]:
        """Returns the reason for a pass if the machine was suspended since the last call."""
        last, self._suspended = self._suspended, suspended()
        return {PassReason.RESUME} if self._suspended - last > _SUSPENDED else set()
