"""Writing output never blocks the service. The tests use real pipes, terminals and sockets."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import resource
import signal
import socket
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from capacityd.linux import systemd
from capacityd.linux.stderr import use_nonblocking_stderr
from tests.support.forked import can_be_alone, forked, run_alone

_TOO_LONG = 20  # seconds


def _terminal() -> tuple[int, int]:
    reads, writes = pty.openpty()
    termios.tcflow(writes, termios.TCOOFF)  # stops the output, like Ctrl+S
    return reads, writes


def _sockets() -> tuple[int, int]:
    """A pair of sockets; the journal's stream is a socket."""
    reads, writes = socket.socketpair()
    return reads.detach(), writes.detach()


def _fill(fd: int) -> None:
    os.set_blocking(fd, False)
    try:
        while True:
            os.write(fd, b"x" * 512)
    except BlockingIOError:
        os.set_blocking(fd, True)


@pytest.mark.parametrize("make_channel", [os.pipe, _terminal, _sockets])
@pytest.mark.parametrize("full", [True, False])
def test_an_unread_standard_error_does_not_block_logging(
    make_channel: Callable[[], tuple[int, int]], full: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Logging does not wait, opens no file, drops text that does not fit, and keeps standard error's flags."""

    def write() -> tuple[int, bytes]:
        signal.alarm(_TOO_LONG)
        os.environ.pop("JOURNAL_STREAM", None)
        reads, writes = make_channel()
        if full:
            _fill(writes)
        elif make_channel is _terminal:
            termios.tcflow(writes, termios.TCOON)
        os.dup2(reads, 0)
        os.dup2(writes, 2)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))  # from now on, no file can be opened
        for _ in range(100):
            systemd.log(systemd.Priority.WARNING, "degraded \ud800")
        use_nonblocking_stderr()
        print("a traceback", file=sys.stderr)
        received = b""
        while not full and received.count(b"\n") < 2:  # a terminal may deliver text late
            received += os.read(0, 65536)
        return fcntl.fcntl(2, fcntl.F_GETFL) & os.O_NONBLOCK, received

    flags, output = forked(write)
    assert flags == 0
    if not full:
        assert output.replace(b"\r\n", b"\n").startswith(b"capacityd: degraded \\ud800\ncapacityd: degraded \\ud800\n")


def test_a_closed_standard_error_is_no_failure() -> None:
    def write() -> None:
        reads, writes = os.pipe()
        os.dup2(writes, 2)
        os.close(reads)
        systemd.log(systemd.Priority.WARNING, "degraded")
        os.close(2)
        systemd.log(systemd.Priority.WARNING, "degraded")

    forked(write)


JOURNAL = """
import json, os, signal, socket, sys
from capacityd.linux import systemd

signal.alarm(20)
os.makedirs("/run/systemd/journal")
journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
journal.bind("/run/systemd/journal/socket")
errors, stream = os.pipe()
os.dup2(stream, 2)
stderr = os.fstat(2)

def output():
    os.set_blocking(errors, False)
    try:
        return os.read(errors, 65536).decode()
    except BlockingIOError:
        return ""

def received():
    journal.setblocking(False)
    entries = []
    while True:
        try:
            entries.append(dict(l.split("=", 1) for l in journal.recv(65536).decode().splitlines() if "=" in l))
        except BlockingIOError:
            return entries

steps = []
os.environ["JOURNAL_STREAM"] = "1:1"
systemd.log(systemd.Priority.WARNING, "inherited")
steps.append([received(), output()])
os.environ["JOURNAL_STREAM"] = f"{stderr.st_dev}:{stderr.st_ino}"
systemd.log_entry(systemd.Priority.NOTICE, "a\\udcff", systemd.EntryKind.DEGRADED, {"RESOURCE": "example.com/x"})
steps.append([received(), output()])
for n in range(10000):
    systemd.log(systemd.Priority.WARNING, "many")
    if text := output():
        break
steps.append([len(received()) == n, text])
journal.close()
systemd.log(systemd.Priority.WARNING, "nobody listens")
steps.append([[], output()])
os.unlink("/run/systemd/journal/socket")
systemd.log(systemd.Priority.WARNING, "gone")
steps.append([[], output()])
print(json.dumps(steps))
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_entries_go_to_the_journal_or_else_to_standard_error() -> None:
    """JOURNAL_STREAM names another file; the journal's queue is full; the journal has ended; its socket is missing."""
    other, entry, full, ended, gone = json.loads(run_alone("mount -t tmpfs none /run", JOURNAL))
    assert other == [[], "capacityd: inherited\n"]
    ((fields,), output) = entry
    assert output == ""
    wanted = {
        "MESSAGE": r"a\udcff",
        "MESSAGE_ID": systemd.EntryKind.DEGRADED.value,
        "PRIORITY": "5",
        "SYSLOG_IDENTIFIER": "capacityd",
    }
    assert fields.items() >= (wanted | {"RESOURCE": "example.com/x"}).items()
    assert full == [True, "capacityd: many\n"]
    assert (ended, gone) == ([[], "capacityd: nobody listens\n"], [[], "capacityd: gone\n"])


def test_any_text_can_be_sent_to_systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    systemd.sd_notify("WATCHDOG=1")  # the socket does not exist
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        systemd.sd_notify("STATUS=a\0b\ud800")
        assert manager.recv(1024) == b"STATUS=a b\\ud800"
