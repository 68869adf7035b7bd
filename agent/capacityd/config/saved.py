"""Finds files of the configuration that have changed since the service read them.

Compares dates and sizes, which every user can see, even if only root can read a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from capacityd.config.files import files_at, files_of_service


def stamps_of(path: str | None) -> dict[str, str] | None:
    """Path of each file of the configuration -> its date and size; None if a folder can't be read.

    path: a file or folder. None: the files that the service reads.
    """
    files = files_of_service("/") if path is None else files_at(path)
    # A file with a wrong name is a failure, too, but does not hide other files.
    has_unreadable_folder = any(not os.path.isfile(path) for path in files.failures)
    return None if has_unreadable_folder else {file: _stamp(file) for file in files.paths}


def changed_files(path: str | None, stamps: Mapping[str, str] | None) -> tuple[str, ...]:
    """The files that were added, saved or removed since stamps_of(path) returned these stamps.

    Empty if stamps is None, or if a folder can't be read now.
    """
    current = stamps_of(path)
    if stamps is None or current is None:
        return ()
    return tuple(sorted(file for file in {*stamps, *current} if stamps.get(file) != current.get(file)))


def _stamp(path: str) -> str:
    """The date and size of a file; "" if it does not exist now."""
    try:
        status = os.stat(path)
    except OSError:  # a dangling link, or the file was removed after the folder was listed
        return ""
    return f"{status.st_mtime_ns} {status.st_size}"
