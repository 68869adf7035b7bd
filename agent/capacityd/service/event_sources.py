"""The service's event sources: devices, links, addresses, mounts, swap, files, the clock, signals, and suspends.

An event says only which kind of thing has changed. The pass that the event starts finds out the details.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from capacityd.linux.clock import suspended_seconds
from capacityd.linux.systemd import EntryKind, Priority, log
from capacityd.model.messages import ServiceConfig
from capacityd.model.reasons import PassReason
from capacityd.service.clock_events import ClockEvents
from capacityd.service.file_events import FileEvents
from capacityd.service.kernel_events import GROUPS, TABLES, NetlinkEvents, TableEvents
from capacityd.service.udev_events import UdevEvents

Source: TypeAlias = UdevEvents | NetlinkEvents | TableEvents | FileEvents | ClockEvents

UDEV = "/run/udev/control"
"""A socket that exists while udev runs."""

_LINKS_OF_UDEV = frozenset({"net"})
"""Subsystems whose events are about network links. Each pod causes some of these events."""
_MIN_SUSPEND = 5.0  # seconds; connections survive a shorter suspend
_PIPE_BYTES = 65536  # the capacity of a pipe (pipe(7))
_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class EventSources:
    """The event sources that a configuration requires. A source that fails or could not be opened is opened again.

    log_unavailable: takes the errors of the sources that could not be opened. It is called each time that the sources
    are opened.
    """

    def __init__(self, log_unavailable: Callable[[Sequence[str]], None]) -> None:
        self._log_unavailable = log_unavailable
        self._suspended_seconds = suspended_seconds()
        self._config = ServiceConfig()
        self._credential_files: set[str] = set()  # watched in addition to the files of the configuration
        self._open: dict[int, Source] = {}  # file descriptor -> source
        self._unavailable: list[str] = []  # the error of each source that could not be opened
        self._reopen()

    def watch(self, config: ServiceConfig) -> None:
        """Opens the sources that this configuration requires, in place of the current ones."""
        self._config = config
        self._reopen()

    def watch_credentials(self, files: Collection[str]) -> set[PassReason]:
        """Also watches these files with credentials, which may not exist yet.

        Returns the reasons for a pass. If the files are not those of the last call, CONFIG is a reason: a new file may
        have changed before it was watched.
        """
        other_files = set(files) - self._config.files.keys()
        if other_files == self._credential_files:
            return set()
        self._credential_files = other_files
        watched = self._files()
        failed = self._collect(partial(source.set_paths, watched) for source in self._file_events())
        return {PassReason.CONFIG} | failed

    def prepare_pass(self) -> set[PassReason]:
        """Sets the watches on files anew, if a file has changed. Returns the reasons for another pass.

        Call it before a pass.
        """
        return self._collect(source.prepare_pass for source in self._file_events())

    def _file_events(self) -> list[FileEvents]:
        return [source for source in self._open.values() if isinstance(source, FileEvents)]

    def _files(self) -> dict[str, PassReason]:
        """The files to watch: path -> the reason for a pass when the file changes."""
        return {**dict.fromkeys(self._credential_files, PassReason.CONFIG), **self._config.files}

    def _reopen(self) -> None:
        for source in self._open.values():
            source.close()
        self._open = {}
        self._unavailable = []
        if self._config.subsystems and not os.path.exists(UDEV):
            # libudev looks for udev only when a monitor starts, so compare() opens the sources again.
            self._unavailable.append("udev is not running: there are no device events")
        for opener in self._openers():
            try:
                source = opener()
            # pyudev raises ImportError if libudev is missing, and the other types for errors of libudev.
            except (OSError, ImportError, MemoryError, OverflowError, ValueError) as e:
                self._unavailable.append(f"an event source could not be opened: {e}")
            else:
                self._open[source.fileno()] = source
        self._log_unavailable(self._unavailable)

    def _openers(self) -> Iterator[Callable[[], Source]]:
        config = self._config
        yield ClockEvents
        if links := _LINKS_OF_UDEV.intersection(config.subsystems):
            yield partial(UdevEvents, links, PassReason.KERNEL)
        if devices := set(config.subsystems) - _LINKS_OF_UDEV:
            yield partial(UdevEvents, devices, PassReason.DEVICES)
        if network := GROUPS.keys() & config.kernel:
            yield partial(NetlinkEvents, network)
        for kind in TABLES.keys() & config.kernel:
            if os.path.exists(TABLES[kind]):
                yield partial(TableEvents, TABLES[kind])
        yield partial(FileEvents, self._files())

    def filenos(self) -> Collection[int]:
        """The file descriptors to poll."""
        return self._open.keys()

    def drain(self, ready: Collection[int]) -> set[PassReason]:
        """Reads the events of these file descriptors, and notices a suspend. Returns the reasons for a pass."""
        return self._collect(self._open[fd].drain for fd in self._open.keys() & ready) | self._drain_suspends()

    def compare(self) -> set[PassReason]:
        """Looks for changes of the watched files that caused no event. Returns the reasons for a pass.

        If a source was not open, DEVICES is one of the reasons. Only a pass can notice the changes that the source
        would have reported.
        """
        reasons = self._collect(source.compare for source in self._file_events())
        if self._unavailable:
            self._reopen()
            reasons.add(PassReason.DEVICES)
        return reasons

    def _collect(self, calls: Iterable[Callable[[], set[PassReason] | None]]) -> set[PassReason]:
        """Calls these methods of sources. Returns the reasons for a pass. If a call fails, opens all sources again."""
        reasons: set[PassReason] = set()
        for call in calls:
            try:
                reasons |= call() or set()
            except OSError as e:
                message = f"an event source failed and is reopened: {e}"
                log(Priority.WARNING, message, EntryKind.DEGRADED)
                self._reopen()
                return reasons | {PassReason.DEVICES}  # events may have been lost
        return reasons

    def _drain_suspends(self) -> set[PassReason]:
        """Returns the reason for a pass if the machine was suspended since the last call.

        The end of a suspend wakes no process, so every drain() calls this method.
        """
        last = self._suspended_seconds
        self._suspended_seconds = suspended_seconds()
        return {PassReason.RESUME} if self._suspended_seconds - last > _MIN_SUSPEND else set()


class Signals:
    """Received signals, as a source for poll(). SIGCHLD only wakes the service."""

    def __init__(self) -> None:
        self._read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)  # without a handler, Python would not write to the descriptor

    def fileno(self) -> int:
        return self._read_fd

    def drain(self) -> set[signal.Signals]:
        """Returns the signals received since the last call."""
        try:
            numbers = os.read(self._read_fd, _PIPE_BYTES)  # set_wakeup_fd() writes the number of each signal as a byte
        except BlockingIOError:
            return set()
        return {handled for handled in _SIGNALS if handled in numbers}


def ignore_signals() -> None:
    """Makes a process that is about to end ignore signals.

    When Python ends, it restores the default actions. A signal would then kill the process, and replace its exit
    status.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
