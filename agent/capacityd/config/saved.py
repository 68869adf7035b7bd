"""Which files of the configuration have been saved since the service read them.

Only their dates and sizes are compared, so this works for files that only root can read, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from capacityd.config.files import files_at, files_of_service


def stamps_of(path: str | None) -> dict[str, str] | None:
    """Path of each file of the configuration -> its date and size; None if a folder can't be read.

    path: of a file or folder; None for the files that the service reads.
    """
    files = files_of_service("/") if path is None else files_at(path)
    return None if files.failures else {file: _stamp(file) for file in files.paths}


def changed_files(path: str | None, stamps: Mapping[str, str] | None) -> tuple[str, ...]:
    """The files that were added, saved or removed since stamps_of(path) returned these stamps.

    Empty if a folder could not be read then (stamps is None), or can't be read now.
    """
    present = stamps_of(path)
    if stamps is None or present is None:
        return ()
    return tuple(sorted(file for file in {*stamps, *present} if stamps.get(file) != present.get(file)))


def _stamp(path: str) -> str:
    """The date and size of a file; "" if it does not exist now."""
    try:
        status = os.stat(path)
    except OSError:  # a dangling link, or the file was removed after the folder was listed
        return ""
    return f"{status.st_mtime_ns} {status.st_size}"
