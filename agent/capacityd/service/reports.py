"""Reports the service's state: in the journal, in a line for systemd, and in a file for `capacityd status`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection
from contextlib import suppress

from capacityd import __version__
from capacityd.linux.atomic_file import replace_file
from capacityd.linux.clock import uptime
from capacityd.linux.systemd import Priority, log, sd_notify
from capacityd.model.file_codec import to_file
from capacityd.model.messages import NO_METRICS, SERVICE_STATUS, CheckResult, MetricsResult, ServiceStatus
from capacityd.model.reasons import Job
from capacityd.service.watcher_process import WatcherProcess
from capacityd.service.worker_process import WorkerProcess

WATCHER_LOG_PERIOD = 3600.0  # seconds


class Reports:
    """Reports the service's state, and keeps what was last reported. folder: the runtime directory."""

    def __init__(self, folder: str, worker: WorkerProcess, watcher: WatcherProcess) -> None:
        self._path = os.path.join(folder, SERVICE_STATUS)
        self._worker = worker
        self._watcher = watcher
        self.check = CheckResult()  # the result of the check whose configuration is active
        self._errors: dict[Job, str] = {}
        self._metrics = NO_METRICS  # of the last pass
        self._source_errors: tuple[str, ...] = ()  # the errors of the event sources that could not be opened
        self._watcher_logged_at: dict[str, float] = {}  # reason -> uptime when it was last logged

    def log_error(self, job: Job, error: str) -> None:
        """Logs a job's error when it is new, and "recovered" when no job has an error any more.

        error: the error of the job's last run; "" if it succeeded.
        """
        last_error = self._errors.pop(job, "")
        if error:
            self._errors[job] = error
        if error and error != last_error:
            log(Priority.WARNING, error)
        if last_error and not self._errors:
            log(Priority.NOTICE, "recovered")

    def log_metrics(self, metrics: MetricsResult) -> None:
        """Logs a new error of the metrics file, and the end of an error."""
        last_metrics = self._metrics
        self._metrics = metrics
        if metrics.error and metrics != last_metrics:
            message = f"{metrics.error}; {metrics.advice}" if metrics.advice else metrics.error
            log(Priority.WARNING, message)
        is_written = metrics.path and not metrics.error  # the path is "" if no file is configured
        if last_metrics.error and is_written:
            log(Priority.NOTICE, f"the error of the metrics file {metrics.path} has ended")

    def log_unavailable(self, errors: Collection[str]) -> None:
        """Logs the new errors. errors: those of the event sources that could not be opened."""
        for error in errors:
            if error not in self._source_errors:
                log(Priority.WARNING, f"{error}; a reconcile pass looks for changes once a minute")
        self._source_errors = tuple(errors)

    def log_watcher_end(self, reason: str) -> None:
        """Logs why the watcher does not run, each reason at most once in WATCHER_LOG_PERIOD."""
        now = uptime()
        last_logged_at = self._watcher_logged_at.get(reason, -math.inf)
        if now >= last_logged_at + WATCHER_LOG_PERIOD:
            self._watcher_logged_at[reason] = now
            log(Priority.WARNING, f"{reason}; the next pass starts it again")

    def notify_systemd(self, line: str) -> None:
        """Sends the line that `systemctl status` shows. If it is "", sends the current errors, or "waiting"."""
        text = line or "; ".join(self._errors.values()) or "waiting"
        one_line = " ".join(text.split())
        sd_notify(f"STATUS={one_line}")

    def write_status_file(self, *, next_pass_in: float, overdue_after: float, running: bool) -> None:
        """Replaces service.json.

        next_pass_in: seconds until the next pass. overdue_after: if the file is not replaced within this many seconds
        after the next pass is due, the service is stuck. running: whether a worker has a job, or will soon get a job.
        """
        now = time.time()
        busy_seconds = time.monotonic() - self._worker.began
        status = ServiceStatus(
            pid=os.getpid(),
            next_pass=now + next_pass_in,
            overdue_at_uptime=uptime() + next_pass_in + overdue_after,
            error="; ".join(self._errors.values()),
            event_source_errors=self._source_errors,
            configuration_errors=self.check.configuration_errors,
            previous_active=self.check.previous_active,
            configuration_files=self.check.files,
            metrics_error=self._metrics.error,
            metrics_advice=self._metrics.advice,
            pass_running=running,
            activity=self._worker.activity,
            busy_since=now - busy_seconds,
            watched_since=self._watcher.watched_since,
            not_watched=self._watcher.not_watched_because,
        )
        with suppress(OSError):  # workers write to this folder, too, and report its errors
            replace_file(self._path, to_file(status, __version__), mode=0o644)  # `status` works without root
