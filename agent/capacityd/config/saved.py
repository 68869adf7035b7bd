"""Which files of the configuration have been saved since the service read them. Files that only root can read count,
too: only their dates and sizes are compared."""

from __future__ import annotations

import os
from collections.abc import Mapping

from capacityd.config.files import files_at, usual_files


def stamps_of(path: str | None) -> dict[str, str] | None:
    """Path of each file of the configuration -> its date and size; None if a folder can't be read.

    path: as in config.load().
    """
    files = usual_files("/") if path is None else files_at(path)
    return None if files.failures else {path: _stamp(path) for path in files.paths}


def changed_files(path: str | None, stamps: Mapping[str, str] | None) -> tuple[str, ...]:
    """The files that were added, saved or removed since these stamps were made; empty if that is unknown."""
    current = stamps_of(path)
    if stamps is None or current is None:
        return ()
    return tuple(sorted(path for path in {*stamps, *current} if stamps.get(path) != current.get(path)))


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:  # a dangling link, or the file was removed in the meantime
        return ""
    return f"{status.st_mtime_ns} {status.st_size}"
