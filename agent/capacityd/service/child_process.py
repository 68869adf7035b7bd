"""A child of the service that sends its messages as lines of JSON on its standard output."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

_BUFFER = 65536
_MAX_LINE_BYTES = 1 << 20
_STDOUT = 1  # file descriptor


class ChildProcess:
    """A running child, in a process group of its own. Raises OSError if it can't be started."""

    def __init__(self, command: list[str]) -> None:
        self._read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_fd, False)
        try:
            connect_stdout = [(os.POSIX_SPAWN_DUP2, write_fd, _STDOUT)]
            self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=connect_stdout, setpgroup=0)
        except OSError:
            os.close(self._read_fd)
            raise
        finally:
            os.close(write_fd)
        self.output_ended = False
        """Whether the child has closed its output: it has ended, or is about to."""
        self.has_no_more_messages = False
        """Whether no message follows: the output has ended, or a line is longer than any message."""
        self._buffer = b""  # the start of a line whose end has not arrived yet

    def fileno(self) -> int:
        return self._read_fd

    def read_lines(self) -> list[bytes]:
        """Returns the complete lines since the last call."""
        try:
            data = os.read(self._read_fd, _BUFFER)
        except BlockingIOError:
            return []
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        self.output_ended = not data
        self.has_no_more_messages = self.output_ended or len(self._buffer) > _MAX_LINE_BYTES
        return lines

    def kill(self) -> None:
        """Kills the child's process group, if it still exists, and closes the pipe. The caller reaps the child."""
        os.close(self._read_fd)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
