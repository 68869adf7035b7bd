"""Sends notifications to systemd, and log entries to the journal or, if there is no journal, to standard error.

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
    """The kind of a journal entry. The value is the MESSAGE_ID, by which users select entries, so it never changes."""

    CHANGED = "eadd777d826542e2a4a621486ac5cb71"  # a number on the Node has been changed
    CONDITION = "4fde5156bc29436a8c57acafb5bf4dfd"  # a problem of a resource or of the Node has begun or ended
    CONFIGURATION_REJECTED = "af9faed3990f4995bae4e7b6d029c156"
    DEGRADED = "f253b4b980544b33ae4d476e9730fe4a"  # an error that prevents passes, events or metrics has begun or ended


def sd_notify(message: str) -> None:
    """Sends a message to systemd (sd_notify(3)), if systemd has started this service."""
    with suppress(OSError):  # the socket is gone
        daemon.notify(_encodable(message.replace("\0", " ")))  # a NUL would end the message


def watchdog_timeout() -> float:
    """Returns the seconds within which systemd expects WATCHDOG=1 again (sd_watchdog_enabled(3)); infinity if never."""
    own_pid = str(os.getpid())
    watched_pid = os.environ.get("WATCHDOG_PID", own_pid)
    if watched_pid != own_pid:  # the watchdog is for another process
        return math.inf
    try:
        microseconds = int(os.environ["WATCHDOG_USEC"])
    except (KeyError, ValueError):
        return math.inf
    return microseconds / 1e6 if microseconds > 0 else math.inf


def log(priority: Priority, message: str) -> None:
    """Logs a message about the service, such as an error that prevents passes, as one line."""
    one_line = " ".join(message.split())
    log_entry(priority, one_line, EntryKind.DEGRADED, fields={})


def log_entry(priority: Priority, message: str, kind: EntryKind | None, fields: Mapping[str, str]) -> None:
    """Writes an entry with these fields to the journal or, if there is no journal, the message to standard error.

    fields: their names are in capital letters. kind: sets the entry's MESSAGE_ID, by which a journal can be searched;
    None: the entry has no MESSAGE_ID.
    """
    is_logged = stderr_is_journal() and log_to_journal(priority, message, kind, fields)
    if not is_logged:
        write_stderr(f"capacityd: {message}\n")


def log_to_journal(priority: Priority, message: str, kind: EntryKind | None, fields: Mapping[str, str]) -> bool:
    """Writes an entry to the journal. Returns whether journald is running and takes the entry."""
    if not _journal_is_writable():
        return False
    all_fields = {name: _encodable(value) for name, value in fields.items()}
    all_fields |= {"PRIORITY": str(priority.value), "SYSLOG_IDENTIFIER": "capacityd"}
    if kind is not None:
        all_fields["MESSAGE_ID"] = kind.value
    try:
        # Without CODE_FILE, journal.send() would read the source to find the line.
        journal.send(_encodable(message), CODE_FILE=__file__, **all_fields)
    except OSError:
        return False  # journald has stopped in the meantime
    return True


def _journal_is_writable() -> bool:
    """Whether journald is running and reading. libsystemd's send() does not tell: it blocks if journald hangs, and
    reports no error if journald is gone."""
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
