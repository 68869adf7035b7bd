"""The file service.lock, which the resident process locks while it runs.

The kernel releases the lock when the process ends. A PID file would remain, and its PID could belong to another process
later.
"""

from __future__ import annotations

import fcntl
import os

_FILE = "service.lock"


class ServiceLock:
    """The lock in a runtime directory, held for the life of the process."""

    def __init__(self, folder: str) -> None:
        """Raises BlockingIOError if another service holds the lock, and another OSError if the file can't be opened."""
        self.path = os.path.join(folder, _FILE)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_in_place(self) -> bool:
        """Whether the locked file is still at the path. It is not if somebody has removed the runtime directory."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except OSError:
            return False
