"""Random file names and random output of children neither end the service nor keep a call from returning."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacityd.model.messages import JobRequest
from capacityd.model.reasons import Job, PassReason
from capacityd.service.file_events import FileEvents
from capacityd.service.watcher_process import WatcherProcess
from capacityd.service.worker_process import WorkerProcess
from tests.support.forked import forked

DEADLINE_MS = 20_000


def check_property(property_: Callable[..., None], **strategies: st.SearchStrategy[Any]) -> None:
    """Runs a Hypothesis property in this process, without pytest."""
    suppressed = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings(database=None, deadline=None, suppress_health_check=suppressed)(given(**strategies)(property_))()


def is_file_name(name: bytes) -> bool:
    return b"\0" not in name and b"/" not in name and name not in (b".", b"..")


NAMES = st.binary(min_size=1, max_size=40).filter(is_file_name)


def test_any_names_and_links_let_the_calls_return(tmp_path: Path) -> None:
    """The links lead anywhere, also in a circle."""
    folder = os.fsencode(tmp_path)
    watched = tmp_path / "a" / "b"
    source = FileEvents({str(watched): PassReason.FILE, str(tmp_path / "link"): PassReason.FILE})

    def calls_return(name: bytes, target: bytes) -> None:
        for link, to in ((folder + b"/" + name, target), (folder + b"/link", name), (folder + b"/a", target)):
            if os.path.lexists(link):
                os.unlink(link)
            else:
                os.symlink(to, link)
            assert source.drain() <= {PassReason.FILE}
            assert source.compare() <= {PassReason.FILE}

    check_property(calls_return, name=NAMES, target=NAMES | st.just(b"link") | st.just(b"../") | st.just(b"/"))
    source.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
MESSAGE_TYPES = ("Probed", "CheckResult", "PassResult", "MetricsResult", "NodeSeen", "NotWatched")
PASS_FIELDS = ("error", "cause", "requeue_after", "node_fingerprint", "status", "changed")
FIELDS = ("config", *PASS_FIELDS, "path", "fingerprint", "reason")
MESSAGES = st.tuples(st.sampled_from(MESSAGE_TYPES), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
LINES = st.binary(max_size=60) | MESSAGES.map(lambda message: json.dumps(message).encode())
OUTPUT = st.lists(LINES, max_size=5).map(b"\n".join)


def test_any_output_of_worker_and_watcher_lets_the_calls_return(tmp_path: Path) -> None:
    path = tmp_path / "output"

    def calls_return(output: bytes) -> None:
        path.write_bytes(output)
        watcher = WatcherProcess(["/bin/cat", str(path)])
        watcher.watch("{}")
        worker = WorkerProcess(["/bin/cat", str(path)], watcher)
        worker.give(JobRequest(Job.RECONCILE), timeout=60.0)
        poll = select.poll()
        worker.register(poll)
        while worker.attend() is None:
            assert poll.poll(DEADLINE_MS)
        while watcher.pids:
            poll = select.poll()
            watcher.register(poll)
            assert poll.poll(DEADLINE_MS)
            watcher.read_messages()

    forked(lambda: check_property(calls_return, output=OUTPUT))
