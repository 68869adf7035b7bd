"""Notifications to systemd, and log entries for the journal or, without one, standard error.

Nothing here blocks. Output is dropped if the terminal is stopped, nobody reads the pipe, or journald hangs.
"""

from __future__ import annotations

import io
import os
import select
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress

from systemd import daemon, journal

MSGID_DEGRADED = "f253b4b980544b33ae4d476e9730fe4a"
MSGID_RECOVERED = "0573ab0967884bb59080e96346d2f0d4"
MSGID_EVENT_SOURCE_LOST = "9ff5432e2a714887b421bc9456becb07"
MSGID_METRICS = "b81d6a162f624473a3fddfb896f13d6a"
"""MESSAGE_IDs of the entries of the resident process; worker/journal.py has the others."""

_JOURNAL = "/run/systemd/journal/socket"
_STDERR = 2  # file descriptor


def sd_notify(message: str) -> None:
    """Sends a message to systemd (sd_notify(3)), if this is a service of systemd."""
    with suppress(OSError):  # the socket is gone
        daemon.notify(_encodable(message))


def log(level: int, message: str, message_id: str) -> None:
    """Logs a message as one line. level: a priority of syslog(3)."""
    log_entry(level, " ".join(message.split()), message_id, {})


def log_entry(level: int, message: str, message_id: str, fields: Mapping[str, str]) -> None:
    """Writes an entry with these fields (names in capitals) to the journal, or its message to standard error."""
    if _stderr_is_journal() and _journal_is_writable():
        sent = {name: _encodable(value) for name, value in fields.items()}
        sent |= {"MESSAGE_ID": message_id, "PRIORITY": str(level), "SYSLOG_IDENTIFIER": "capacityd"}
        try:
            # Without CODE_FILE, it would read the source to find the line.
            journal.send(_encodable(message), CODE_FILE=__file__, **sent)
            return
        except OSError:
            pass  # journald has stopped since
    write_stderr(f"capacityd: {message}\n")


def write_stderr(text: str) -> None:
    """Writes to standard error as much as it accepts without blocking; the rest is lost."""
    data = text.encode(errors="backslashreplace")
    try:
        while data and select.select([], [_STDERR], [], 0)[1]:
            data = data[os.write(_STDERR, data[: select.PIPE_BUF]) :]
    except OSError:
        pass  # no reader


class NonblockingStderr(io.TextIOBase):
    """Replaces sys.stderr, for tracebacks and the output of libraries."""

    def write(self, text: str) -> int:
        write_stderr(text)
        return len(text)


def use_nonblocking_stderr() -> None:
    """From now on, output to sys.stderr never blocks."""
    sys.stderr = NonblockingStderr()


def _stderr_is_journal() -> bool:
    """Whether standard error is connected to the journal. JOURNAL_STREAM alone may be inherited (systemd.exec(5))."""
    try:
        stream = os.fstat(_STDERR)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stream.st_dev}:{stream.st_ino}"


def _journal_is_writable() -> bool:
    """Whether journald runs and reads: libsystemd blocks if it hangs, and reports no error if it is gone."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as s:
            s.connect(_JOURNAL)
            return bool(select.select([], [s], [], 0)[1])
    except OSError:
        return False


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
