"""A child of the service that sends its messages as lines of JSON on its standard output."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

_MAX_LINE_BYTES = 1 << 20


class ChildProcess:
    """A running child, in a process group of its own. Raises OSError if it can't be started."""

    def __init__(self, command: list[str]) -> None:
        self._read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read, False)
        try:
            out = [(os.POSIX_SPAWN_DUP2, write, 1)]
            self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=out, setpgroup=0)
        except OSError:
            os.close(self._read)
            raise
        finally:
            os.close(write)
        self.ended = False
        """Whether the child has closed its output."""
        self.closed = False
        """Whether nothing more can be read: the output has ended, or contains a line without an end."""
        self._buffer = b""

    def fileno(self) -> int:
        return self._read

    def read_lines(self) -> list[bytes]:
        """Returns the complete lines since the last call."""
        try:
            data = os.read(self._read, 65536)
        except BlockingIOError:
            return []
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        self.ended = not data
        self.closed = self.ended or len(self._buffer) > _MAX_LINE_BYTES
        return lines

    def kill(self) -> None:
        """Kills the child's process group, if it still exists. The caller reaps the child."""
        os.close(self._read)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
