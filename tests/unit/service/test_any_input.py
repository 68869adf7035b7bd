"""Random file names and output of children: none of them ends the service or keeps a call from returning."""

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
PASS_KEYS = ("error", "cause", "requeue_after", "node_fingerprint", "status", "changed")
KEYS = ("config", *PASS_KEYS, "path", "fingerprint", "reason")
MESSAGES = st.tuples(st.sampled_from(VARIANTS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
LINES = st.binary(max_size=60) | MESSAGES.map(lambda message: json.dumps(message).encode())
OUTPUT = st.lists(LINES, max_size=5).map(b"\n".join)


def test_any_output_of_the_worker_and_of_the_watcher_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "output"

    def never_ends(output: bytes) -> None:
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

    forked(lambda: check(never_ends, output=OUTPUT))
