"""The messages of a worker process, for which a shell script stands here, and how the process ended."""

from __future__ import annotations

import select
import time

import pytest

from capacityd.linux.subreaper import become_subreaper
from capacityd.model.messages import CheckResult, JobRequest, PassResult
from capacityd.model.reasons import Job
from capacityd.service import worker_process
from capacityd.service.worker_process import WorkerProcess
from tests.support.forked import forked

DEADLINE_MS = 20_000
EXITED = "exited without a result"


def ended(script: str) -> tuple[bool, CheckResult | PassResult | None, str]:
    """Runs the script as a worker. Returns whether it sent Probed, its result, and how it ended without a result."""
    become_subreaper()
    worker = WorkerProcess(["/bin/sh", "-c", script])
    worker.give(JobRequest(Job.RECONCILE), timeout=60.0, spared=())
    poll = select.poll()
    worker.register(poll)
    while ready := poll.poll(DEADLINE_MS):
        how_it_ended = worker.attend({fd for fd, _ in ready}, spared=())
        if how_it_ended is not None:
            return worker.probed, worker.result, how_it_ended
    pytest.fail("it does not end")


@pytest.mark.parametrize(
    ("script", "probed", "result", "failure"),
    [
        ("""echo '["Probed", {}]'; echo '["PassResult", {"status": "x"}]'""", True, PassResult(status="x"), EXITED),
        ("""echo '["CheckResult", {}]'; exit 1""", False, CheckResult(), EXITED),
        ("""echo '["Probed", {}]'; kill -9 $$""", True, None, "was killed by SIGKILL (out of memory?)"),
        ("kill -9 $$", False, None, "was killed by SIGKILL (out of memory?)"),
        ("kill -37 $$", False, None, "was killed by signal 37"),
        ("kill -SEGV $$", False, None, "was killed by SIGSEGV"),
        ("""echo garbage; echo 4; echo '["Other", {}]'; printf '["PassResult", {'""", False, None, EXITED),
        ("""echo '["PassResult", {"status": 4}]'; echo '["PassResult", {"other": ""}]'""", False, None, EXITED),
        ("head -c 9000000 /dev/zero; sleep 1000", False, None, EXITED),
        ("sleep 1000 > /dev/null & exit 1", False, None, EXITED),
    ],
)
def test_each_end_of_a_worker_has_its_result_or_failure(
    script: str, probed: bool, result: CheckResult | PassResult | None, failure: str
) -> None:
    assert forked(lambda: ended(script)) == (probed, result, failure)


def test_a_worker_that_is_not_needed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "MAX_WAIT", 0.1)

    def ended() -> bool:
        become_subreaper()
        worker = WorkerProcess(["/bin/sh", "-c", "exec sleep 1000"])
        worker.start_early()
        while worker.attend(ready=(), spared=()) is None:
            select.select([], [], [], max(0.0, worker.wakes_at - time.monotonic()))
        return worker.job is None

    assert forked(ended)
