"""The messages of a worker that has ended, and how it ended."""

from __future__ import annotations

import select

import pytest

from capacityd.linux.subreaper import become_subreaper
from capacityd.service.worker_process import WorkerProcess
from tests.support.forked import forked

DEADLINE_MS = 20_000


def ended(script: str) -> tuple[dict[str, object], str]:
    """The result of a shell, and by what it was killed."""
    become_subreaper()
    worker = WorkerProcess(["/bin/sh", "-c", script], 60.0)
    poll = select.poll()
    poll.register(worker.fileno(), select.POLLIN)
    while poll.poll(DEADLINE_MS):
        if worker.read_messages():
            return worker.result, worker.kill()
    pytest.fail("it does not end")


@pytest.mark.parametrize(
    ("script", "result", "killed"),
    [
        ("""echo '{"a": 1, "b": 1}'; echo '{"b": 2}'""", {"a": 1, "b": 2}, ""),
        ("""echo '{"a": 1}'; exit 1""", {"a": 1}, ""),
        ("kill -9 $$", {}, "was killed by SIGKILL (out of memory?)"),
        ("kill -SEGV $$", {}, "was killed by SIGSEGV"),
        ("""echo garbage; echo 4; printf '{"done": tr'""", {}, ""),
        ("head -c 3000000 /dev/zero; sleep 1000", {}, ""),
        ("sleep 1000 > /dev/null & exit 1", {}, ""),
    ],
)
def test_how_it_ends(script: str, result: dict[str, object], killed: str) -> None:
    assert forked(lambda: ended(script)) == (result, killed)
