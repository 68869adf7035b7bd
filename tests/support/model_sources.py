"""A model of event sources that miss every event: the real ones, without the kernel. What remains is their comparison
of what is watched with what is there.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Any

from capacityd.model.messages import ServiceConfig
from capacityd.model.reasons import PassReason
from capacityd.service import event_sources
from capacityd.service.event_sources import EventSources
from capacityd.service.file_events import FileEvents
from tests.support.model_machine import replaced_by

_FILES, _CLOCK = 1_000_000, 1_000_001  # numbers that no open file has


class _Inotify:
    """Replaces the C library: watches each path that exists, and reports nothing. A machine has few real instances of
    inotify."""

    def inotify_init1(self, _: int) -> int:
        return _FILES

    def inotify_add_watch(self, _: int, path: bytes, __: int) -> int:
        return 1 if os.path.lexists(path) else -1

    def inotify_rm_watch(self, _: int, __: int) -> int:
        return 0


class _Files(FileEvents):
    """Changes of files, without an open file."""

    def close(self) -> None:
        """Nothing is open."""


class _NoFiles:
    """Replaces FileEvents while inotify is used up."""

    def __init__(self, _: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class _Clock:
    """Replaces ClockEvents: no clock is ever set."""

    def fileno(self) -> int:
        return _CLOCK

    def close(self) -> None:
        """Nothing is open."""


class ModelSources:
    """A service's event sources. folder: has the file that they watch."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "watched"
        self._file.touch()
        self.used_up = False
        """Whether inotify is used up."""
        self.open()

    def open(self) -> None:
        """The service starts, and opens its sources."""
        with replaced_by(self._doubles()):
            self._sources = EventSources(lambda _: None)
        self._watch()

    def replace_file(self) -> None:
        """Another file is in the place of the watched one, as after a mount over its folder."""
        (new := self._file.with_name("new")).touch()
        new.replace(self._file)

    def use_up(self, *, used_up: bool) -> None:
        """inotify becomes used up, and the sources are opened again; or it is free again, which nothing reports."""
        self.used_up = used_up
        if used_up:
            self._watch()

    def compare(self) -> set[PassReason]:
        """The reasons for a pass that the comparison finds."""
        with replaced_by(self._doubles()):
            return self._sources.compare()

    def _watch(self) -> None:
        with replaced_by(self._doubles()):
            self._sources.watch(ServiceConfig(files={str(self._file): PassReason.FILE}))

    def _doubles(self) -> list[tuple[Any, str, object]]:
        return [
            (event_sources, "ClockEvents", _Clock),
            (event_sources, "FileEvents", _NoFiles if self.used_up else _Files),
            (ctypes, "CDLL", lambda *_, **__: _Inotify()),
        ]
