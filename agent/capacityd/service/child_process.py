"""A child process of the service, which reads and writes lines of JSON on its standard input and output."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from capacityd.model.codec import Malformed, decode_variant, parse

_READ_BYTES = 65536
_MAX_LINE_BYTES = 4 * 1024 * 1024
_STDIN, _STDOUT = 0, 1  # file descriptors


class ChildProcess:
    """A running child, in a process group of its own. Raises OSError if the child can't be started."""

    def __init__(self, command: list[str]) -> None:
        stdin, self._write_fd = os.pipe2(os.O_CLOEXEC)
        self._read_fd, stdout = os.pipe2(os.O_CLOEXEC)
        for fd in (self._write_fd, self._read_fd):
            os.set_blocking(fd, False)
        try:
            connect_pipes = [(os.POSIX_SPAWN_DUP2, stdin, _STDIN), (os.POSIX_SPAWN_DUP2, stdout, _STDOUT)]
            self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=connect_pipes, setpgroup=0)
        except OSError:
            self._close()
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        self.has_ended = False
        """Whether the child has closed its output, or has written a line that is longer than any message."""
        self._unfinished_line = b""  # the start of a line whose end has not arrived yet
        self._unsent = b""  # bytes that did not fit into the pipe to the child yet

    def register(self, poll: select.poll) -> None:
        """Lets poll() return when the child has written something, or when unsent bytes can be sent."""
        poll.register(self._read_fd, select.POLLIN)
        if self._unsent:
            poll.register(self._write_fd, select.POLLOUT)

    def send(self, line: bytes) -> None:
        """Sends as much of a line as the pipe has room for. flush() sends the remaining bytes."""
        self._unsent += line + b"\n"
        self.flush()

    def flush(self) -> None:
        """Sends as many of the unsent bytes as the pipe has room for."""
        try:
            while self._unsent:
                sent_bytes = os.write(self._write_fd, self._unsent)
                self._unsent = self._unsent[sent_bytes:]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the child has ended, which read_lines() notices
            self._unsent = b""

    def read_lines(self) -> list[bytes]:
        """Returns the complete lines since the last call."""
        try:
            data = os.read(self._read_fd, _READ_BYTES)
        except BlockingIOError:
            return []
        text = self._unfinished_line + data
        *lines, self._unfinished_line = text.split(b"\n")
        is_closed = not data
        self.has_ended = is_closed or len(self._unfinished_line) > _MAX_LINE_BYTES
        return lines

    def kill(self) -> None:
        """Kills the child's process group, if it still exists, and closes the pipes. The caller reaps the child."""
        self._close()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)


def decoded(lines: Iterable[bytes], union: Any) -> Iterator[Any]:
    """Yields the messages in these lines. Ignores empty lines, and lines that a library has printed.

    union: the classes of messages (model/messages.py).
    """
    for line in lines:
        with suppress(Malformed):
            yield decode_variant(union, parse(line))
