"""Whatever an event source receives, nothing ends the service: a malformed message is a reason for a pass, or nothing.

The messages go through real sockets, pipes and files where another process could send them. No call reads for ever.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacityd.linux.systemd import EntryKind, Priority, log, sd_notify
from capacityd.model.messages import JobRequest
from capacityd.model.reasons import Job, KernelEvents, PassReason
from capacityd.service.file_events import FileEvents
from capacityd.service.netlink_events import NetlinkEvents
from capacityd.service.udev_events import UdevEvents
from capacityd.service.watcher_process import WatcherProcess
from capacityd.service.worker_process import WorkerProcess
from tests.cluster.netlink import UdevSender
from tests.support.forked import forked
from tests.unit.service.test_event_sources import alone, received

DEADLINE_MS = 20_000


def check(property_: Callable[..., None], **strategies: st.SearchStrategy[Any]) -> None:
    """Runs a property in this process, which is a forked one."""
    suppressed = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings(database=None, deadline=None, suppress_health_check=suppressed)(given(**strategies)(property_))()


# The fields that libudev parses, with values that it expects, and others.
NAMED = ("ACTION", "DEVPATH", "SUBSYSTEM", "SEQNUM", "DEVTYPE", "TAGS", "CURRENT_TAGS", "IFINDEX", "MAJOR", "X", "")
VALUES = (b"add", b"/devices/x", b"usb", b"0", b"-1", b"99999999999999999999", b":a:b:", b"", b"\xff")
FIELDS = st.tuples(st.sampled_from(NAMED), st.sampled_from(VALUES) | st.binary(max_size=20))
BODIES = st.lists(FIELDS, max_size=12).map(lambda fields: b"".join(k.encode() + b"=" + v + b"\0" for k, v in fields))
COMPLETE = b"ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=usb\0SEQNUM=7\0"
WITHOUT = {name: b"\0".join(f for f in COMPLETE.split(b"\0") if not f.startswith(name)) for name in (b"ACTION", b"DEV")}


@alone
def test_malformed_udev_events_end_nothing() -> None:
    sender = UdevSender(Path("/proc/self/ns/net"))
    source = UdevEvents(["usb"], PassReason.DEVICES)
    for body in (
        COMPLETE.replace(b"=7", b"=0"),
        *WITHOUT.values(),
        COMPLETE + b"TAGS=x\0",
        COMPLETE + b"DEVPATH=\xff\0",
    ):
        sender.send_raw(body, "usb")
        source.drain()

    def never_ends(body: bytes) -> None:
        sender.send_raw(body, "usb")
        assert source.drain() <= {PassReason.DEVICES}
        sender.send("add", "/devices/usb1/1-1", "usb")
        assert received(source) == {PassReason.DEVICES}, "the source continues"
        assert not select.select([source], [], [], 0)[0], "everything has been read"

    check(never_ends, body=BODIES | st.binary(max_size=200))


@alone
def test_any_rtnetlink_message_is_an_event() -> None:
    def is_event(data: bytes) -> None:
        source = NetlinkEvents(KernelEvents.ROUTES)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sender:
            sender.sendto(data, source._socket.getsockname())
        assert source.drain() == {PassReason.KERNEL}
        assert not select.select([source], [], [], 0)[0], "everything has been read"
        source.close()

    check(is_event, data=st.binary(min_size=1, max_size=100))


NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: not {0, 47} & {*name} and name not in (b".", b".."))


def test_any_names_and_links_end_nothing(tmp_path: Path) -> None:
    """Any names, and links that lead anywhere, also in a circle."""
    folder = os.fsencode(tmp_path)
    watched = tmp_path / "a" / "b"
    source = FileEvents({str(watched): PassReason.FILE, str(tmp_path / "link"): PassReason.FILE})

    def never_ends(name: bytes, target: bytes) -> None:
        for path, link in ((folder + b"/" + name, target), (folder + b"/link", name), (folder + b"/a", target)):
            os.symlink(link, path) if not os.path.lexists(path) else os.unlink(path)
            assert source.drain() <= {PassReason.FILE}
            assert source.compare() <= {PassReason.FILE}

    check(never_ends, name=NAMES, target=NAMES | st.just(b"link") | st.just(b"../") | st.just(b"/"))
    source.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
VARIANTS = ("Probed", "CheckResult", "PassResult", "MetricsResult", "NodeSeen", "NotWatched")
KEYS = ("config", "error", "cause", "requeue_after", "node", "status", "path", "fingerprint", "reason", "changed")
OUTPUT = st.lists(
    st.binary(max_size=60)
    | st.tuples(st.sampled_from(VARIANTS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4)).map(
        lambda variant: json.dumps(variant).encode()
    ),
    max_size=5,
).map(b"\n".join)


def test_any_output_of_the_worker_and_of_the_watcher_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "output"

    def never_ends(output: bytes) -> None:
        path.write_bytes(output)
        worker = WorkerProcess(["/bin/cat", str(path)])
        worker.give(JobRequest(Job.RECONCILE), timeout=60.0, spared=())
        watcher = WatcherProcess(["/bin/cat", str(path)])
        watcher.watch("{}")
        poll = select.poll()
        worker.register(poll)
        while (ready := poll.poll(DEADLINE_MS)) and worker.attend({fd for fd, _ in ready}, spared=()) is None:
            pass
        while watcher.pids:
            poll = select.poll()
            watcher.register(poll)
            assert poll.poll(DEADLINE_MS)
            watcher.read_messages()

    forked(lambda: check(never_ends, output=OUTPUT))


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> socket.socket:
    """The socket of systemd."""
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(path)
    return receiver


def test_any_text_can_be_sent_to_systemd_and_to_the_journal(manager: socket.socket) -> None:
    def never_ends(text: str) -> None:
        sd_notify(f"STATUS={text}")
        manager.recv(65536)
        log(Priority.WARNING, text, EntryKind.DEGRADED)

    forked(lambda: check(never_ends, text=st.text()))
    manager.close()
    sd_notify("WATCHDOG=1")
