"""What the service learns of its watcher process, which is a shell here."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from capacityd.service.watcher_process import WatcherProcess
from tests.support.forked import forked

DEADLINE = 20.0
SEEN = """echo '["NodeSeen", {"fingerprint": "f"}]'"""
NOT_WATCHED = """echo '["NotWatched", {"reason": "a role is missing"}]'"""


@pytest.mark.parametrize(
    ("script", "is_watched", "reason"),
    [
        (f"{SEEN}; exec sleep 60", True, ""),
        (f"echo 'a library prints'; {SEEN}; exec sleep 60", True, ""),
        (NOT_WATCHED, False, "a role is missing"),
        ("exit 0", False, "the watcher has ended unexpectedly"),
    ],
)
def test_the_service_learns_whether_the_node_is_watched(
    tmp_path: Path, script: str, is_watched: bool, reason: str
) -> None:
    def learned() -> tuple[bool, str]:
        watcher = WatcherProcess(["/bin/sh", "-c", script], str(tmp_path))
        watcher.start()
        while watcher.filenos() and watcher.watched_since is None:
            assert select.select(watcher.filenos(), [], [], DEADLINE)[0]
            watcher.read_messages()
        result = (watcher.watched_since is not None, watcher.not_watched_because)
        watcher.stop()
        return result

    assert forked(learned) == (is_watched, reason)
