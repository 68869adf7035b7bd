"""The status file that the service writes for `status`, and the messages that it logs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from capacityd.model.messages import CheckResult, JobRequest, MetricsResult, ServiceStatus
from capacityd.model.reasons import Activity, Job
from capacityd.service.reports import Reports
from capacityd.service.watcher_process import WatcherProcess
from capacityd.service.worker_process import WorkerProcess
from capacityd.worker import runtime_files
from tests.support.forked import forked


def reports_in(folder: Path, worker: WorkerProcess | None = None) -> Reports:
    watcher = WatcherProcess([])
    return Reports(str(folder), worker or WorkerProcess([], watcher), watcher)


def status_after(folder: Path, reports: Reports) -> ServiceStatus:
    """Writes the status file, and returns its content."""
    reports.write_status_file(next_pass_in=5.0, overdue_after=60.0, running=False)
    status = runtime_files.read_service(str(folder))
    assert status
    return status


def test_each_error_is_in_the_status_file(tmp_path: Path) -> None:
    reports = reports_in(tmp_path)
    good = status_after(tmp_path, reports)
    assert (good.error, good.configuration_errors, good.previous_active, good.metrics_error) == ("", (), False, "")
    assert (good.event_source_errors, good.activity) == ((), None)
    reports.check = CheckResult(configuration_errors=("a.toml:3: x",), previous_active=True)
    reports.log_error(Job.RECONCILE, "the Node is missing")
    reports.log_metrics(MetricsResult("/m", "it is full", "make room"))
    reports.log_unavailable(["there are no device events"])
    wrong = status_after(tmp_path, reports)
    assert (wrong.error, wrong.configuration_errors) == ("the Node is missing", ("a.toml:3: x",))
    assert wrong.previous_active
    assert (wrong.metrics_error, wrong.metrics_advice) == ("it is full", "make room")
    assert wrong.event_source_errors == ("there are no device events",)


def test_the_status_file_says_what_a_worker_does_and_since_when(tmp_path: Path) -> None:
    def status() -> ServiceStatus:
        worker = WorkerProcess(["/bin/sleep", "1000"], WatcherProcess([]))
        worker.give(JobRequest(Job.RECONCILE), timeout=60.0)
        worker.began -= 40.0
        try:
            return status_after(tmp_path, reports_in(tmp_path, worker))
        finally:
            worker.kill()

    busy = forked(status)
    assert busy.activity is Activity.PROBE
    assert 40.0 <= time.time() - busy.busy_since < 100.0


def test_an_error_is_logged_once_and_recovered_is_logged_when_all_have_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reports = reports_in(tmp_path)
    for check_error, pass_error in (("no room", ""), ("no room", "nobody there"), ("no room", ""), ("", ""), ("", "")):
        reports.log_error(Job.CHECK, check_error)
        reports.log_error(Job.RECONCILE, pass_error)
    full = MetricsResult("/m", "it is full", "make room")
    for metrics in (full, full, MetricsResult("/m"), MetricsResult("/m")):
        reports.log_metrics(metrics)
    for _ in range(2):
        reports.log_unavailable(["there are no device events"])
        reports.log_watcher_end("the watcher has ended unexpectedly")
    assert [line.removeprefix("capacityd: ") for line in capfd.readouterr().err.splitlines()] == [
        "no room",
        "nobody there",
        "recovered",
        "it is full; make room",
        "the error of the metrics file /m has ended",
        "there are no device events; a reconcile pass looks for changes once a minute",
        "the watcher has ended unexpectedly; the next pass starts it again",
    ]
