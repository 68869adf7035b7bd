"""Standard error that never blocks: output is dropped if the terminal is stopped or nobody reads the pipe."""

from __future__ import annotations

import io
import os
import select
import sys

_STDERR = 2  # file descriptor


def stderr_is_journal() -> bool:
    """Whether systemd writes standard error to the journal, which others may read.

    A process with another standard error may have inherited the variable JOURNAL_STREAM, so the variable is compared
    with the open file (systemd.exec(5)).
    """
    try:
        stream = os.fstat(_STDERR)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stream.st_dev}:{stream.st_ino}"


def write_stderr(text: str) -> None:
    """Writes as much of the text as standard error accepts without blocking, and drops what remains."""
    data = text.encode(errors="backslashreplace")
    try:
        while data and _accepts_data():
            written = os.write(_STDERR, data[: select.PIPE_BUF])  # a ready pipe accepts PIPE_BUF bytes without blocking
            data = data[written:]
    except OSError:
        pass  # no reader


def _accepts_data() -> bool:
    _, writable, _ = select.select([], [_STDERR], [], 0)
    return bool(writable)


class NonblockingStderr(io.TextIOBase):
    """Replaces sys.stderr, for tracebacks and the output of libraries."""

    def write(self, text: str) -> int:
        write_stderr(text)
        return len(text)


def use_nonblocking_stderr() -> None:
    """From now on, output to sys.stderr never blocks."""
    sys.stderr = NonblockingStderr()
