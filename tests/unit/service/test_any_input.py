"""Random file names, output of children and texts: none of them ends the service or keeps a call from returning."""

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
from capacityd.model.reasons import Job, PassReason
from capacityd.service.file_events import FileEvents
from capacityd.service.watcher_process import WatcherProcess
from capacityd.service.worker_process import WorkerProcess
from tests.support.forked import forked

DEADLINE_MS = 20_000


def check(property_: Callable[..., None], **strategies: st.SearchStrategy[Any]) -> None:
    """Runs a Hypothesis property in this process, without pytest."""
    suppressed = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings(database=None, deadline=None, suppress_health_check=suppressed)(given(**strategies)(property_))()


def is_file_name(name: bytes) -> bool:
    return b"\0" not in name and b"/" not in name and name not in (b".", b"..")


NAMES = st.binary(min_size=1, max_size=40).filter(is_file_name)


def test_any_names_and_links_end_nothing(tmp_path: Path) -> None:
    """The links lead anywhere, also in a circle."""
    folder = os.fsencode(tmp_path)
    watched = tmp_path / "a" / "b"
    source = FileEvents({str(watched): PassReason.FILE, str(tmp_path / "link"): PassReason.FILE})

    def never_ends(name: bytes, target: bytes) -> None:
        for path, link in ((folder + b"/" + name, target), (folder + b"/link", name), (folder + b"/a", target)):
            if os.path.lexists(path):
                os.unlink(path)
            else:
                os.symlink(link, path)
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
MESSAGES = st.tuples(st.sampled_from(VARIANTS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
LINES = st.binary(max_size=60) | MESSAGES.map(lambda message: json.dumps(message).encode())
OUTPUT = st.lists(LINES, max_size=5).map(b"\n".join)


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
    """The socket at which systemd receives notifications."""
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
