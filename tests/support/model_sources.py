"""A model of event sources that miss every event: the real ones, whose events nobody reads. What remains is their
comparison of what is watched with what is there.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from capacityd.model.messages import ServiceConfig
from capacityd.model.reasons import PassReason
from capacityd.service import event_sources
from capacityd.service.event_sources import EventSources
from tests.support.model_machine import replaced_by


class _UsedUp:
    """Replaces FileEvents while no more inotify instances can be opened."""

    def __init__(self, _: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class ModelSources:
    """A service's event sources. folder: has the file that they watch."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "watched"
        self._file.touch()
        self._sources: EventSources | None = None
        self.used_up = False
        """Whether inotify is used up."""

    def open(self) -> None:
        """The service opens its sources."""
        self.close()
        self._sources = EventSources(lambda _: None)
        self._watch()

    def close(self) -> None:
        """The service ends."""
        for fd in self._sources.filenos() if self._sources else ():
            os.close(fd)
        self._sources = None

    def replace_file(self) -> None:
        """Another file is in the place of the watched one, as after a mount over its folder."""
        (new := self._file.with_name("new")).touch()
        new.replace(self._file)

    def use_up(self, *, used_up: bool) -> None:
        """inotify becomes used up, and the sources are opened again; or it is free again, which nothing reports."""
        self.used_up = used_up
        if used_up:
            self._watch()

    def check(self) -> set[PassReason]:
        """The reasons for a pass that the comparison finds."""
        with replaced_by(self._doubles()):
            return self._sources.check() if self._sources else set()

    def _watch(self) -> None:
        with replaced_by(self._doubles()):
            if self._sources:
                self._sources.watch(ServiceConfig(files={str(self._file): PassReason.FILE}))

    def _doubles(self) -> list[tuple[Any, str, object]]:
        return [(event_sources, "FileEvents", _UsedUp)] if self.used_up else []
