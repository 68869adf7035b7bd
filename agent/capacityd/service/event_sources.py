"""The event sources of the service: devices, links, addresses, mounts, swap, files, and signals.

An event is only a reason for a reconcile pass. It is parsed only as far as needed to ignore those of pods, which are
frequent on a node.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from capacityd.service.file_events import FileEvents
from capacityd.service.netlink_events import AddressEvents, LinkEvents
from capacityd.service.table_events import SWAPS, TableEvents, mount_events, swap_events
from capacityd.service.udev_events import UdevEvents

Source: TypeAlias = UdevEvents | LinkEvents | AddressEvents | TableEvents | FileEvents

UDEV = "/run/udev/control"
"""It exists while udev runs."""

_KERNEL: dict[str, Callable[[], Source]] = {
    "links": LinkEvents,
    "addresses": AddressEvents,
    "mounts": mount_events,
    "swaps": swap_events,
}
_SIGNALS = {signal.SIGHUP: "reload", signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGCHLD: "child"}


class EventSources:
    """The open event sources of a configuration.

    watch: what the configuration check asks for. "subsystems": of udev; "kernel": any of "links", "addresses",
    "mounts" and "swaps"; "files": path -> the reason for a pass that its change is.
    """

    def __init__(self, watch: Mapping[str, Any]) -> None:
        self.unavailable: list[str] = []  # error of each source that is not open
        self.retry = False  # whether opening them again may help
        self._open: dict[int, Source] = {}
        openers: list[Callable[[], Source]] = []
        files = dict(watch.get("files", {}))
        if watch.get("subsystems"):
            openers.append(lambda: UdevEvents(watch["subsystems"]))
            if not os.path.exists(UDEV):
                # libudev decides when the monitor starts whether udev sends events.
                self.unavailable.append("udev is not running: there are no device events")
                files[UDEV] = "udev"
        kernel = [name for name in watch.get("kernel", ()) if name != "swaps" or os.path.exists(SWAPS)]
        openers += [_KERNEL[name] for name in kernel if name in _KERNEL]
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

    def drain(self, ready: Collection[int]) -> tuple[set[str], list[OSError]]:
        """Reads the events of these file descriptors: reasons for a pass, and errors: then reopen the sources."""
        reasons: set[str] = set()
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
    """Signals as a pollable source: SIGHUP, SIGTERM, SIGINT, SIGCHLD are the reasons reload, stop, stop and child."""

    def __init__(self) -> None:
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        return self._read

    def drain(self) -> set[str]:
        """The reasons of the signals that were received."""
        reasons: set[str] = set()
        while select.select([self._read], [], [], 0)[0]:
            reasons |= {_SIGNALS[signal.Signals(n)] for n in os.read(self._read, 512) if n in _SIGNALS}
        return reasons
