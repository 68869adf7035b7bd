"""The events that the service receives: real netlink in the test's own network namespace, real inotify, real signals.

Most events can be read at once: the kernel delivers a netlink message before the sender continues, and an inotify event
before the file call returns. The tests wait for the other events, with a deadline.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace

import pytest

from capacityd.model.messages import ServiceConfig
from capacityd.model.reasons import KernelEvents, PassReason
from capacityd.service import event_sources, udev_events
from capacityd.service.event_sources import EventSources, Signals
from capacityd.service.file_events import FileEvents
from capacityd.service.kernel_events import PROC_FILES
from capacityd.service.udev_events import UdevEvents
from tests import ROOT
from tests.cluster.netlink import UdevSender
from tests.support.forked import can_be_alone, forked, open_files

DEADLINE_MS = 20_000
MANY = 5_000


def received(source: Signals | UdevEvents) -> Collection[PassReason | signal.Signals]:
    """Waits for the next events, and returns their reasons or signals."""
    poll = select.poll()
    poll.register(source.fileno(), select.POLLIN)
    assert poll.poll(DEADLINE_MS), "nothing was received"
    return source.drain()


def alone(test: Callable[[], None]) -> Callable[[], None]:
    """Runs the test in a process with a network and a /run of its own. Files in this /run say that udev runs."""

    def body() -> None:
        _unshare()
        test()

    @pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
    @functools.wraps(test)
    def run() -> None:
        forked(body)

    return run


def _unshare() -> None:
    """Gives this process namespaces of its own, and a /run in which udev seems to run."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    newuser, newnet, newns = 0x10000000, 0x40000000, 0x00020000  # CLONE_NEWUSER, and so on
    assert libc.unshare(newnet | newns | (newuser if user else 0)) == 0, os.strerror(ctypes.get_errno())
    if user:
        # A file's owner and group must be mapped (else EOVERFLOW). A user must deny setgroups before mapping a group.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    private, recursive = 1 << 18, 1 << 14  # MS_PRIVATE, MS_REC
    assert libc.mount(None, b"/", None, private | recursive, None) == 0
    assert libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, None) == 0
    os.mkdir("/run/udev")
    Path("/run/udev/control").touch()


@alone
def test_only_udev_events_of_the_configured_subsystems_start_a_pass() -> None:
    sender = UdevSender(Path("/proc/self/ns/net"))
    source = UdevEvents(["usb", "tty"], PassReason.DEVICES)
    for subsystem, relevant in (("usb", True), ("block", False), ("tty", True), ("net", False)):
        sender.send("add", "/devices/virtual/x", subsystem)
        assert source.drain() == ({PassReason.DEVICES} if relevant else set())
    for action in ("bind", "unbind", "change", "move", "online", "remove"):
        sender.send(action, "/devices/usb1/1-1", "usb", "usb_device")
        assert received(source) == {PassReason.DEVICES}
    assert source.drain() == set()
    source.close()


@alone
def test_udev_events_of_network_links_have_another_reason_than_those_of_devices() -> None:
    """Each pod causes events of links, so the passes after them may wait."""
    sender = UdevSender(Path("/proc/self/ns/net"))
    sources = EventSources(lambda _: None)
    sources.watch(ServiceConfig(subsystems=("net", "usb")))
    for subsystem, reason in (("net", PassReason.KERNEL), ("usb", PassReason.DEVICES)):
        sender.send("add", "/devices/virtual/x", subsystem)
        assert sources.drain(sources.filenos()) == {reason}


@alone
def test_a_source_that_cannot_be_opened_leaks_no_descriptor() -> None:
    """Each pass tries again to open the source. Here one descriptor is free: enough only for libudev's socket."""
    UdevEvents(["usb"], PassReason.DEVICES).close()
    before = open_files()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 1, limits[1]))
    for _ in range(3):
        with pytest.raises(OSError, match="Too many open files"):
            UdevEvents(["usb"], PassReason.DEVICES)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert open_files() == before


def test_signals_are_received() -> None:
    def test() -> None:
        signals = Signals()
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            os.kill(os.getpid(), number)
            assert received(signals) == {number}
        for _ in range(MANY):
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received(signals) == {signal.SIGHUP, signal.SIGTERM}
        assert signals.drain() == set()

    forked(test)


# Sends itself signals when Python deletes the object `late`, at the very end.
_SIGNALLED_AT_ITS_END = """
import os, signal
from capacityd.service.event_sources import Signals, ignore_signals
class Late:
    def __del__(self):
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
late, signals = Late(), Signals()
ignore_signals()
raise SystemExit(3)
"""


def test_a_signal_at_the_end_leaves_the_exit_status_as_it_is() -> None:
    """At the very end, Python has already restored the default signal handlers."""
    command = [sys.executable, "-c", _SIGNALLED_AT_ITS_END]
    assert subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT / "agent")}).returncode == 3


def test_while_a_source_cannot_be_opened_each_comparison_starts_a_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such a pass, once a minute, notices what the source would have reported."""
    monkeypatch.setattr(udev_events, "UDEV", str(tmp_path / "control"))

    def test() -> None:
        errors: list[Collection[str]] = []
        sources = EventSources(errors.append)
        sources.watch(ServiceConfig(subsystems=("net", "usb")))
        for _ in range(2):
            assert errors[-1] == ["an event source could not be opened: udev is not running"]
            assert sources.compare() == {PassReason.DEVICES}
        (tmp_path / "control").touch()
        assert sources.compare() == {PassReason.DEVICES}, "an event may have been lost before"
        assert errors[-1] == []
        assert sources.compare() == set()

    forked(test)


@pytest.mark.parametrize("exists", [True, False])
def test_a_kernel_without_swap_lacks_no_event_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exists: bool
) -> None:
    if not exists:
        monkeypatch.setitem(PROC_FILES, KernelEvents.SWAPS, str(tmp_path / "swaps"))
    errors: list[Collection[str]] = []
    sources = EventSources(errors.append)
    before = len(sources.filenos())
    sources.watch(ServiceConfig(kernel=(KernelEvents.SWAPS,)))
    assert errors[-1] == []
    assert len(sources.filenos()) == (before + 1 if exists else before)


def test_a_source_that_fails_is_opened_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_: FileEvents) -> set[PassReason]:
        raise OSError(errno.ENOSPC, "no more files can be watched (fs.inotify.max_user_watches)")

    sources = EventSources(lambda _: None)
    sources.watch(ServiceConfig(files={str(tmp_path / "seats"): PassReason.FILE}))
    monkeypatch.setattr(FileEvents, "compare", fail)
    assert sources.compare() == {PassReason.DEVICES}
    monkeypatch.undo()
    (tmp_path / "seats").write_text("4")
    assert sources.drain(sources.filenos()) == {PassReason.FILE}


@pytest.mark.parametrize("seconds", [-60.0, 0.1, 60.0])
def test_a_jump_of_the_clock_starts_a_pass(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A suspend looks like this, too."""
    sources = EventSources(lambda _: None)
    monkeypatch.setattr(event_sources, "time", SimpleNamespace(time=lambda: seconds, monotonic=lambda: 0.0))
    monkeypatch.setattr(sources, "_clock_offset", 0.0)
    expected = {PassReason.RESUME} if abs(seconds) > 1.0 else set()
    assert sources.drain([]) == expected
    assert sources.drain([]) == set()


@alone
def test_watching_new_credentials_loses_no_event() -> None:
    """Before the call, no file is watched. The event of udev and that of the new token are both received."""
    sender = UdevSender(Path("/proc/self/ns/net"))
    sources = EventSources(lambda _: None)
    sources.watch(ServiceConfig(subsystems=("usb",)))
    sender.send("add", "/devices/usb1/1-1", "usb")
    token = "/run/token"
    for expected in ({PassReason.CONFIG}, set()):
        assert sources.watch_credentials([token]) == expected
    Path(token).touch()
    assert sources.drain(sources.filenos()) == {PassReason.DEVICES, PassReason.CONFIG}
