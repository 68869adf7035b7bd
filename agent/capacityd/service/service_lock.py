"""The file service.lock, which the resident process locks while it runs. A PID file could contain a recycled PID."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

_FILE = "service.lock"


class ServiceLock:
    """The lock in a runtime directory, held for the life of the process."""

    def __init__(self, folder: str) -> None:
        """Raises BlockingIOError if another service holds the lock, and another OSError if the file can't be opened.

        Removes anything else at the lock's path, such as a link, because only capacityd uses the runtime directory.
        """
        self.path = os.path.join(folder, _FILE)
        try:
            self._fd = _open(self.path)
        except OSError:
            # rmdir() removes an empty folder, unlink() anything else.
            with suppress(OSError):
                os.rmdir(self.path)
            with suppress(OSError):
                os.unlink(self.path)
            self._fd = _open(self.path)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_held(self) -> bool:
        """Whether the file at the path is still the locked file."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except OSError:
            return False


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
