"""service.lock: locked as long as the resident process runs. A PID file could name a recycled PID."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

_FILE = "service.lock"


class ServiceLock:
    """The lock in a runtime directory, held for the life of the process."""

    def __init__(self, folder: str) -> None:
        """Raises BlockingIOError if another service holds it, and another OSError if it can't be opened.

        What is in its place (a folder, a link) is removed: the runtime directory is ours alone.
        """
        self.path = os.path.join(folder, _FILE)
        try:
            self._fd = _open(self.path)
        except OSError:
            with suppress(OSError):
                _remove(self.path)
            self._fd = _open(self.path)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_held(self) -> bool:
        """Whether it is still the lock that others find."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except OSError:
            return False


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)
