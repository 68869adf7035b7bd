"""Notifications to systemd, and log entries for the journal; for standard error if there is no journal.

Nothing here blocks: output is dropped if the terminal is stopped, nobody reads the pipe, or journald hangs.
"""

from __future__ import annotations

import math
import os
import select
import socket
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, IntEnum

from systemd import daemon, journal

from capacityd.linux.stderr import stderr_is_journal, write_stderr

_JOURNAL = "/run/systemd/journal/socket"


class Priority(IntEnum):
    """The urgency of an entry. The values are those of syslog(3)."""

    ERROR = 3
    WARNING = 4
    NOTICE = 5


class EntryKind(Enum):
    """The kind of a journal entry. The value is the entry's MESSAGE_ID, and never changes: users filter by it."""

    CHANGED = "eadd777d826542e2a4a621486ac5cb71"  # a number on the Node
    CONDITION = (
        "4fde5156bc29436a8c57acafb5bf4dfd"  # something has become wrong with a resource or the Node, or right again
    )
    HELD = "6c8d3cbdb7d44ee8a4fb01b480946878"  # a change waits
    STARTED = "e6a3c1b7f2d94c58b0d7a94e15f8263b"  # the first successful pass, if it changed nothing; otherwise CHANGED
    CONFIGURATION_ERROR = "af9faed3990f4995bae4e7b6d029c156"
    CONFIGURATION_WARNING = "d0a2f6d4a3f94b7c9f2a1c58e7b46d13"
    EVENT_NOT_CREATED = "58dc7ea2a9c74502a2c0ec9a374c10db"  # an Event of Kubernetes
    METRICS = "b81d6a162f624473a3fddfb896f13d6a"  # the file of metrics can't be written, or can be written again
    DEGRADED = "f253b4b980544b33ae4d476e9730fe4a"  # an error prevents reconcile passes
    RECOVERED = "0573ab0967884bb59080e96346d2f0d4"  # after DEGRADED
    EVENT_SOURCE_LOST = "9ff5432e2a714887b421bc9456becb07"  # passes have to look for changes once a minute


def sd_notify(message: str) -> None:
    """Sends a message to systemd (sd_notify(3)), if systemd has started this service."""
    with suppress(OSError):  # the socket is gone
        daemon.notify(_encodable(message.replace("\0", " ")))  # a NUL would end the message


def watchdog_timeout() -> float:
    """Returns the seconds within which systemd expects WATCHDOG=1 again (sd_watchdog_enabled(3)); infinity if never.

    An administrator may have shortened WatchdogSec= of the unit.
    """
    if os.environ.get("WATCHDOG_PID", "") not in ("", str(os.getpid())):  # the watchdog is for another process
        return math.inf
    try:
        microseconds = int(os.environ["WATCHDOG_USEC"])
    except (KeyError, ValueError):
        return math.inf
    return microseconds / 1e6 if microseconds > 0 else math.inf


def log(priority: Priority, message: str, kind: EntryKind) -> None:
    """Logs a message as one line."""
    one_line = " ".join(message.split())
    log_entry(priority, one_line, kind, fields={})


def log_entry(priority: Priority, message: str, kind: EntryKind, fields: Mapping[str, str]) -> None:
    """Writes an entry with these fields (names in capital letters) to the journal, or its message to standard error."""
    if stderr_is_journal() and _journal_is_writable():
        sent = {name: _encodable(value) for name, value in fields.items()}
        sent |= {"MESSAGE_ID": kind.value, "PRIORITY": str(priority.value), "SYSLOG_IDENTIFIER": "capacityd"}
        try:
            # Without CODE_FILE, journal.send() would read the source to find the line.
            journal.send(_encodable(message), CODE_FILE=__file__, **sent)
            return
        except OSError:
            pass  # journald has stopped in the meantime
    write_stderr(f"capacityd: {message}\n")


def _journal_is_writable() -> bool:
    """Whether journald is running and reading. libsystemd blocks if journald hangs, and reports no error if journald is
    gone."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as s:
            s.connect(_JOURNAL)
            _, writable, _ = select.select([], [s], [], 0)
            return bool(writable)
    except OSError:
        return False


def _encodable(text: str) -> str:
    """The text with escapes for lone surrogates, which UTF-8 can't encode."""
    return text.encode(errors="backslashreplace").decode()
