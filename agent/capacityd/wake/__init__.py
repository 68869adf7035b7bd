"""What makes the service look again: events of devices, links, addresses, mounts and files, and signals.

It hears; it looks at nothing itself. Memory counts here, because this stays resident: no dataclasses, and no parsing of
events beyond what it takes to leave out those of pods, which come and go all day.
"""

from __future__ import annotations

import os
import select
import signal

from capacityd.wake.files import FileEvents
from capacityd.wake.kernel import AddressEvents, LinkEvents, MountEvents
from capacityd.wake.udev import UdevEvents

TYPE_CHECKING = False  # typing itself would stay in memory
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any, TypeAlias

    Source: TypeAlias = UdevEvents | LinkEvents | AddressEvents | MountEvents | FileEvents

UDEV = "/run/udev/control"
"""It is there while udev runs."""

_KERNEL: dict[str, Callable[[], Source]] = {"links": LinkEvents, "addresses": AddressEvents, "mounts": MountEvents}
_SIGNALS = {signal.SIGHUP: "reload", signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGCHLD: "child"}


class Sources:
    """All that there is to hear for a configuration, opened.

    deaf: what can't be heard, in words. failed: whether some of that could not be opened: another attempt may do it.
    watch: as the check of the configuration says it: subsystems of udev's, of the kernel links, addresses and mounts,
    files: path -> the reason that its change is.
    """

    def __init__(self, watch: Mapping[str, Any]) -> None:
        self.deaf: list[str] = []
        self.failed = False
        self._open: dict[int, Source] = {}
        openers: list[Callable[[], Source]] = []
        files = dict(watch.get("files", {}))
        if watch.get("subsystems"):
            openers.append(lambda: UdevEvents(watch["subsystems"]))
            if not os.path.exists(UDEV):
                # libudev decides when it begins to listen whether there is anything to hear.
                self.deaf.append("udev does not run, so no device event is heard")
                files[UDEV] = "udev"
        openers += [_KERNEL[what] for what in watch.get("kernel", ()) if what in _KERNEL]
        openers += [lambda: FileEvents(files)] if files else []
        for opener in openers:
            try:
                source = opener()
            except (OSError, ImportError) as e:
                self.deaf.append(f"events can't be heard: {e}")
                self.failed = True
            else:
                self._open[source.fileno()] = source

    def filenos(self) -> Collection[int]:
        """What to wait for."""
        return self._open.keys()

    def drain(self, ready: Collection[int]) -> tuple[set[str], list[OSError]]:
        """The reasons to look again that these have, and what went wrong: then it has to be opened anew."""
        reasons: set[str] = set()
        failures = []
        for fd in self._open.keys() & ready:
            try:
                reasons |= self._open[fd].drain()
            except OSError as e:
                failures.append(e)
        return reasons, failures

    def close(self) -> None:
        """Hears nothing any more."""
        for source in self._open.values():
            source.close()


class Signals:
    """Signals, made readable: SIGHUP, SIGTERM, SIGINT, SIGCHLD as the reasons reload, stop, stop and child."""

    def __init__(self) -> None:
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        return self._read

    def drain(self) -> set[str]:
        """The reasons for which signals have come."""
        found: set[str] = set()
        while select.select([self._read], [], [], 0)[0]:
            found |= {_SIGNALS[signal.Signals(n)] for n in os.read(self._read, 512) if n in _SIGNALS}
        return found
