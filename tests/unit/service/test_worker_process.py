"""The messages of a worker process, and how the process ended. Here the worker is a shell script."""

from __future__ import annotations

import select
import time

import pytest

from capacityd.linux.subreaper import become_subreaper
from capacityd.model.messages import CheckResult, JobRequest, PassResult
from capacityd.model.reasons import Job
from capacityd.service import worker_process
from capacityd.service.watcher_process import WatcherProcess
from capacityd.service.worker_process import WorkerProcess
from tests.support.forked import forked

DEADLINE_MS = 20_000
EXITED = "exited without a result"
KILLED = "was killed by SIGKILL (out of memory?)"


def worker_of(script: str) -> WorkerProcess:
    become_subreaper()
    return WorkerProcess(["/bin/sh", "-c", script], WatcherProcess([]))


def ended(script: str) -> tuple[bool, CheckResult | PassResult | None, str]:
    """Runs the script as a worker. Returns whether it sent Probed, its result, and how it ended without a result."""
    worker = worker_of(script)
    worker.give(JobRequest(Job.RECONCILE), timeout=60.0)
    poll = select.poll()
    worker.register(poll)
    while poll.poll(DEADLINE_MS):
        how_it_ended = worker.attend()
        if how_it_ended is not None:
            return worker.probed, worker.pass_result or worker.check_result, how_it_ended
    pytest.fail("it does not end")


@pytest.mark.parametrize(
    ("script", "probed", "result", "failure"),
    [
        ("""echo '["Probed", {}]'; echo '["PassResult", {"status": "x"}]'""", True, PassResult(status="x"), EXITED),
        ("""echo '["CheckResult", {}]'; exit 1""", False, CheckResult(), EXITED),
        ("""echo '["Probed", {}]'; kill -9 $$""", True, None, KILLED),
        ("kill -37 $$", False, None, "was killed by signal 37"),  # a signal without a name
        ("kill -SEGV $$", False, None, "was killed by SIGSEGV"),
        ("""echo garbage; echo 4; echo '["Other", {}]'; printf '["PassResult", {'""", False, None, EXITED),
        ("""echo '["PassResult", {"status": 4}]'; echo '["PassResult", {"other": ""}]'""", False, None, EXITED),
        ("head -c 9000000 /dev/zero; sleep 1000", False, None, KILLED),  # by the service, because the line is too long
        ("sleep 1000 > /dev/null & exit 1", False, None, EXITED),
    ],
)
def test_each_end_of_a_worker_has_its_result_or_failure(
    script: str, probed: bool, result: CheckResult | PassResult | None, failure: str
) -> None:
    assert forked(lambda: ended(script)) == (probed, result, failure)


def test_a_worker_that_takes_too_long_is_killed_and_its_result_counts() -> None:
    def attend() -> tuple[str | None, PassResult | None]:
        worker = worker_of("""echo '["PassResult", {"status": "x"}]'; exec sleep 1000""")
        worker.give(JobRequest(Job.RECONCILE), timeout=0.5)
        poll = select.poll()
        worker.register(poll)
        assert poll.poll(DEADLINE_MS)
        time.sleep(max(0.0, worker.deadline - time.monotonic()))
        return worker.attend(), worker.pass_result

    assert forked(attend) == ("exceeded its timeout of 0 s", PassResult(status="x"))  # 0.5 s, rounded


def test_a_worker_that_is_not_needed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "MAX_WAIT", 0.1)

    def ended() -> bool:
        worker = worker_of("exec sleep 1000")
        worker.start_early()
        while worker.attend() is None:
            time.sleep(max(0.0, worker.deadline - time.monotonic()))
        return worker.job is None

    assert forked(ended)
