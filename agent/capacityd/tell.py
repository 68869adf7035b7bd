"""What the resident process tells systemd and the journal. By hand: their library would keep 2 to 4 MiB here."""

from __future__ import annotations

import os
import socket
import sys

TROUBLE = "f253b4b980544b33ae4d476e9730fe4a"
WELL = "0573ab0967884bb59080e96346d2f0d4"
DEAF = "9ff5432e2a714887b421bc9456becb07"
"""MESSAGE_IDs of the journal's entries, as journal.MESSAGE_IDS has those of the children's."""

_JOURNAL = "/run/systemd/journal/socket"


def notify(message: str) -> None:
    """Tells systemd (sd_notify(3)), if it listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        _send(f"\0{address[1:]}" if address.startswith("@") else address, message)


def report(level: int, message: str, kind: str) -> None:
    """Writes to the journal, or to standard error. level: syslog(3)'s. kind: as above."""
    line = " ".join(message.split())
    fields = {"MESSAGE": line, "MESSAGE_ID": kind, "PRIORITY": str(level), "SYSLOG_IDENTIFIER": "capacityd"}
    # https://systemd.io/JOURNAL_NATIVE_PROTOCOL/
    entry = "".join(f"{name}={value}\n" for name, value in fields.items())
    try:
        if is_journal(os.fstat(2)) and _send(_JOURNAL, entry):
            return
        print(f"capacityd: {line}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody listens any more


def is_journal(stream: os.stat_result) -> bool:
    """Whether it is the journal's, as systemd.exec(5) says to find out: the variable may be inherited."""
    return os.environ.get("JOURNAL_STREAM") == f"{stream.st_dev}:{stream.st_ino}"


def _send(address: str, text: str) -> bool:
    """Whether it was taken."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as s:
            s.sendto(text.encode(errors="backslashreplace"), address)
    except OSError:
        return False
    return True
