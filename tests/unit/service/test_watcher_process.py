"""What the service learns from its watcher process. Here the watcher is a shell script."""

from __future__ import annotations

import select
from dataclasses import replace
from pathlib import Path

import pytest

from capacityd.model.messages import NotWatched
from capacityd.service.system import REAL_SYSTEM
from capacityd.service.watcher_process import SILENCE, WatcherProcess
from tests.support.forked import forked

DEADLINE_MS = 20_000
SEEN = """echo '["NodeSeen", {"fingerprint": "f"}]'"""
NOT_WATCHED = """echo '["NotWatched", {"reason": "a role is missing"}]'"""


def wait(watcher: WatcherProcess) -> None:
    """Waits for a message."""
    poll = select.poll()
    watcher.register(poll)
    assert poll.poll(DEADLINE_MS)


@pytest.mark.parametrize(
    ("script", "is_watched", "reason", "looks_now"),  # looks_now: of the message NotWatched; None: there is none
    [
        (f"{SEEN}; exec sleep 60", True, "", None),
        (f"echo 'a library prints'; {SEEN}; exec sleep 60", True, "", None),
        (f"{NOT_WATCHED}; exec sleep 60", False, "a role is missing", False),
        ("exit 0", False, "the watcher has ended unexpectedly", True),
        ("kill -SEGV $$", False, "the watcher has ended unexpectedly", True),
        ("cat /dev/zero", False, "the watcher has ended unexpectedly", True),
    ],
)
def test_the_service_learns_whether_the_node_is_watched(
    script: str, is_watched: bool, reason: str, looks_now: bool | None
) -> None:
    def learned() -> tuple[bool, str, bool | None]:
        watcher = WatcherProcess(["/bin/sh", "-c", script])
        watcher.watch("{}")
        failure = None
        while watcher.pids and watcher.watched_since is None and failure is None:
            wait(watcher)
            failure = watcher.read_messages()
        result = (watcher.watched_since is not None, watcher.not_watched_because, failure.look_now if failure else None)
        watcher.stop()
        return result

    assert forked(learned) == (is_watched, reason, looks_now)


@pytest.mark.parametrize("script", [f"{SEEN}; kill -STOP $$", "echo; exec sleep 60"])
def test_a_watcher_that_is_silent_is_ended(script: str) -> None:
    """The watcher hangs, or the API server does. Even an empty line from the watcher is a sign of life."""
    now = [0.0]

    def learned() -> tuple[str, list[int]]:
        watcher = WatcherProcess(["/bin/sh", "-c", script], replace(REAL_SYSTEM, monotonic=lambda: now[0]))
        watcher.watch("{}")
        now[0] = 9.0
        wait(watcher)
        assert watcher.read_messages() is None
        assert watcher.silent_at == 9.0 + SILENCE
        now[0] = 9.0 + SILENCE
        assert watcher.read_messages() == NotWatched("the watcher has received nothing for 65 s", look_now=True)
        return watcher.not_watched_because, watcher.pids

    assert forked(learned) == ("the watcher has received nothing for 65 s", [])


def test_the_watcher_gets_what_to_watch_and_is_replaced_only_if_that_changes(tmp_path: Path) -> None:
    """The target may contain credentials, so the watcher reads it from a pipe."""
    script = f"IFS= read -r target; echo $target >> {tmp_path}/targets; {SEEN}; exec sleep 60"
    long = "x" * 200_000  # more than a pipe holds

    def watched() -> list[str]:
        watcher = WatcherProcess(["/bin/sh", "-c", script])
        pids = set()
        for target in (long, long, "other", long):
            watcher.watch(target)
            while watcher.watched_since is None:
                wait(watcher)
                watcher.read_messages()
            pids.update(watcher.pids)
        watcher.stop()
        assert len(pids) == 3
        return (tmp_path / "targets").read_text().split()

    assert forked(watched) == [long, "other", long]
