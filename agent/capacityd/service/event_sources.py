"""The service's event sources: devices, links, addresses, mounts, swap, files, signals, and jumps of the clock.

An event says only which kind of thing has changed. The event starts a reconcile pass, which finds out the details.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from capacityd.linux.systemd import Priority, log
from capacityd.model.messages import ServiceConfig
from capacityd.model.reasons import PassReason
from capacityd.service.file_events import FileEvents
from capacityd.service.kernel_events import GROUPS, PROC_FILES, NetlinkEvents, ProcFileEvents
from capacityd.service.udev_events import UdevEvents

Source: TypeAlias = UdevEvents | NetlinkEvents | ProcFileEvents | FileEvents

_NETWORK_LINKS = "net"
"""The udev subsystem whose events are about network links. Each pod causes some of these events."""
_MIN_JUMP = 5.0  # seconds; connections survive a shorter suspend
_PIPE_BYTES = 65536  # the capacity of a pipe (pipe(7))
_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class EventSources:
    """The event sources that a configuration requires. A source that fails or could not be opened is opened again.

    log_unavailable: takes the errors of the sources that could not be opened. It is called each time that the sources
    are opened.
    """

    def __init__(self, log_unavailable: Callable[[Collection[str]], None]) -> None:
        self._log_unavailable = log_unavailable
        self._clock_offset = _clock_offset()
        self._config = ServiceConfig()
        self._credential_files: set[str] = set()  # watched in addition to the files of the configuration
        self._open: dict[int, Source] = {}  # file descriptor -> source
        self._is_complete = True  # whether all sources could be opened
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
        unwatched_files = set(files) - self._config.files.keys()
        if unwatched_files == self._credential_files:
            return set()
        self._credential_files = unwatched_files
        watched = self._files()
        calls = [partial(source.set_paths, watched) for source in self._file_events()]
        return self._collect(calls) | {PassReason.CONFIG}

    def prepare_pass(self) -> set[PassReason]:
        """Sets the watches on files anew, if a file has changed. Returns the reasons for another pass.

        Call it before a pass.
        """
        return self._collect(source.prepare_pass for source in self._file_events())

    def _file_events(self) -> list[FileEvents]:
        return [source for source in self._open.values() if isinstance(source, FileEvents)]

    def _files(self) -> dict[str, PassReason]:
        """The files to watch: path -> the reason for a pass when the file changes."""
        credential_files = dict.fromkeys(self._credential_files, PassReason.CONFIG)
        return {**credential_files, **self._config.files}

    def _reopen(self) -> None:
        for source in self._open.values():
            source.close()
        self._open = {}
        errors: set[str] = set()
        for opener in self._openers():
            try:
                source = opener()
            except OSError as e:
                errors.add(f"an event source could not be opened: {e}")
            else:
                self._open[source.fileno()] = source
        self._is_complete = not errors
        self._log_unavailable(sorted(errors))

    def _openers(self) -> Iterator[Callable[[], Source]]:
        """Yields a function for each source that the configuration requires. The function opens the source."""
        config = self._config
        if _NETWORK_LINKS in config.subsystems:
            yield partial(UdevEvents, [_NETWORK_LINKS], PassReason.KERNEL)
        device_subsystems = [subsystem for subsystem in config.subsystems if subsystem != _NETWORK_LINKS]
        if device_subsystems:
            yield partial(UdevEvents, device_subsystems, PassReason.DEVICES)
        network_kinds = [kind for kind in config.kernel if kind in GROUPS]
        if network_kinds:
            yield partial(NetlinkEvents, network_kinds)
        for kind in config.kernel:
            if kind in PROC_FILES and os.path.exists(PROC_FILES[kind]):
                yield partial(ProcFileEvents, PROC_FILES[kind])
        yield partial(FileEvents, self._files())

    def filenos(self) -> Collection[int]:
        """The file descriptors to poll."""
        return self._open.keys()

    def drain(self, ready: Collection[int]) -> set[PassReason]:
        """Reads the events of these file descriptors, and looks at the clock. Returns the reasons for a pass."""
        reasons = self._collect(self._open[fd].drain for fd in self._open.keys() & ready)
        if self._clock_has_jumped():
            reasons.add(PassReason.RESUME)
        return reasons

    def compare(self) -> set[PassReason]:
        """Looks for changes of the watched files that caused no event. Returns the reasons for a pass.

        If a source was not open, DEVICES is one of the reasons. Only a pass can notice the changes that the source
        would have reported.
        """
        reasons = self._collect(source.compare for source in self._file_events())
        if not self._is_complete:
            self._reopen()
            reasons.add(PassReason.DEVICES)
        return reasons

    def _collect(self, calls: Iterable[Callable[[], set[PassReason] | None]]) -> set[PassReason]:
        """Calls these methods of sources. Returns the reasons for a pass. If a call fails, opens all sources again."""
        reasons: set[PassReason] = set()
        try:
            for call in calls:
                new_reasons = call()
                if new_reasons:  # None from prepare_pass() and set_paths()
                    reasons |= new_reasons
        except OSError as e:
            log(Priority.WARNING, f"an event source failed and is reopened: {e}")
            self._reopen()
            reasons.add(PassReason.DEVICES)  # events may have been lost
        return reasons

    def _clock_has_jumped(self) -> bool:
        """Whether the machine was suspended, or its clock was set, since the last call.

        Nothing wakes this process when a suspend ends or the clock is set, so every drain() calls this method.
        """
        last_offset = self._clock_offset
        self._clock_offset = _clock_offset()
        return abs(self._clock_offset - last_offset) > _MIN_JUMP


def _clock_offset() -> float:
    """The difference in seconds between the machine's clock and a clock that stops during a suspend.

    Gradual corrections of the clock change the difference by milliseconds a minute.
    """
    return time.time() - time.monotonic()


class Signals:
    """Received signals, as a source for poll(). SIGCHLD only wakes the service."""

    def __init__(self) -> None:
        self._read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for number in _SIGNALS:
            # Without a handler, Python would not write to the descriptor.
            signal.signal(number, lambda _number, _frame: None)

    def fileno(self) -> int:
        return self._read_fd

    def drain(self) -> set[signal.Signals]:
        """Returns the signals received since the last call."""
        try:
            received = os.read(self._read_fd, _PIPE_BYTES)
        except BlockingIOError:
            return set()
        # set_wakeup_fd() writes the number of each signal as a byte.
        return {number for number in _SIGNALS if number in received}


def ignore_signals() -> None:
    """Makes a process that is about to end ignore signals.

    When Python ends, it restores the default actions. A signal would then kill the process, and replace its exit
    status.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
