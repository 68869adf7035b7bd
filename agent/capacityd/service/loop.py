"""The main loop: waits for events and starts a short-lived worker for each reconcile pass.

Workers make all decisions, so no detector, Kubernetes client or TOML parser runs in this process. The loop keeps the
text that a pass leaves for the next pass. Another child process, the watcher, reports each change of the Node.
"""

from __future__ import annotations

import math
import select
import signal
import time

from capacityd.linux.systemd import Priority, log, sd_notify, watchdog_timeout
from capacityd.model.messages import CheckResult, JobRequest, NotWatched, PassResult, ServiceConfig
from capacityd.model.reasons import Job, PassReason
from capacityd.service.reports import Reports
from capacityd.service.schedule import DEBOUNCE, Schedule
from capacityd.service.service_lock import ServiceLock
from capacityd.service.system import REAL_SYSTEM, System
from capacityd.service.watcher_process import WatcherProcess
from capacityd.service.worker_process import WorkerProcess

WORKER_TIMEOUT_BASE = 180.0  # seconds that a worker may run, in addition to the time that its detectors may take
COMPARE_PERIOD = 60.0  # seconds between two searches for changed files, in case an event was lost
CHECK_RETRY_PERIOD = 20.0  # seconds until a failed check of the configuration is retried
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


class Service:
    """The main loop.

    worker_command, watcher_command: the commands that start these child processes. folder: the runtime directory.
    """

    def __init__(
        self,
        worker_command: list[str],
        watcher_command: list[str],
        folder: str,
        lock: ServiceLock,
        system: System = REAL_SYSTEM,
    ) -> None:
        self._system = system
        self._lock = lock
        self._signals = system.open_signals()
        self._config: ServiceConfig | None = None  # the active configuration; None until a check has sent one
        self._watcher = WatcherProcess(watcher_command, system)
        self._worker = WorkerProcess(worker_command, self._watcher, system)
        self._worker_timeout = WORKER_TIMEOUT_BASE
        self._reports = Reports(folder, self._worker, self._watcher)
        self._sources = system.open_sources(self._reports.log_unavailable)
        self._compare_files_at = system.monotonic() + COMPARE_PERIOD  # the next search for changed files
        self._check_config_at = system.monotonic()  # the next check of the configuration
        self._longest_wait = watchdog_timeout() / 2  # in seconds; sd_watchdog_enabled(3) recommends half of the timeout
        self._is_ready = False  # whether systemd was told that the service is ready
        self._memory = ""  # the text that the last pass has left for the next pass
        self._schedule = Schedule(system.monotonic(), system.uniform)

    def run(self) -> int:
        """Runs until a signal ends it. Returns the exit status."""
        self._write_status_file()
        exit_status = None
        while exit_status is None:
            exit_status = self.run_once()
        return exit_status

    def run_once(self) -> int | None:
        """Waits once, and handles what has happened. Returns the exit status; None if the service continues."""
        if not self._worker.is_busy:
            if not self._lock.is_in_place():  # the runtime directory was removed, and only systemd can recreate it
                message = f"{self._lock.path} is gone; the service exits so that systemd recreates it"
                log(Priority.ERROR, message)
                return 1
            self._start_worker_if_due(self._system.monotonic())
        ready = self._wait()
        sd_notify("WATCHDOG=1")
        signals = self._signals.drain()
        reasons = self._sources.drain(ready)
        self._read_watcher()
        if self._compare_files_at <= self._system.monotonic():  # events may have been lost
            self._compare_files_at = self._system.monotonic() + COMPARE_PERIOD
            reasons |= self._sources.compare()
        self._attend_worker()
        if signals & _STOP_SIGNALS:
            sd_notify("STOPPING=1")
            self._watcher.stop()
            self._worker.kill()
            return 0
        now = self._system.monotonic()
        if signal.SIGHUP in signals:
            self._check_config_at = now
        if PassReason.RESUME in reasons:
            self._watcher.stop()  # its connection may be dead; the next pass starts the watcher again
        self._schedule.notify(reasons, now)
        return None

    def _start_worker_if_due(self, now: float) -> None:
        """Starts a worker if a check or a pass is due. A pass comes first, so that many reloads do not delay it."""
        if self._watcher.comparison.pop_change(any_report=self._schedule.retries_at_report):
            self._schedule.notify({PassReason.NODE}, now)
        pass_at = self._pass_at()
        if pass_at <= now:
            reasons = self._schedule.pop_due(now)
            self._watcher.comparison.begin_pass()
            self._schedule.notify(self._sources.prepare_pass(), now)
            self._give_job(Job.RECONCILE, reasons)
        elif self._check_config_at <= now:
            self._check_config_at = math.inf
            is_reload = self._is_ready  # before READY=1, this is a check at the start
            if is_reload:
                microseconds = time.monotonic_ns() // 1000
                sd_notify(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")
            check_reason = PassReason.CONFIG if is_reload else PassReason.START
            self._give_job(Job.CHECK, frozenset({check_reason}))
        elif pass_at <= now + DEBOUNCE and self._watcher.is_running:
            # The watcher runs, so the pass will probably use the API server. The worker imports the client meanwhile.
            self._worker.start_early()

    def _give_job(self, job: Job, reasons: frozenset[PassReason]) -> None:
        unchanged = self._watcher.comparison.is_unchanged
        request = JobRequest(job, reasons, memory=self._memory, node_unchanged=unchanged)
        try:
            self._worker.give(request, self._worker_timeout)
        except OSError as e:  # out of memory, processes or file descriptors
            self._on_job_end(job, f"could not be started: {e.strerror}")
        else:
            self._write_status_file()

    def _wait(self) -> set[int]:
        """Waits for an event, a message or a deadline. Returns the file descriptors that can be read."""
        poll = select.poll()
        for fd in (self._signals.fileno(), *self._sources.filenos()):
            poll.register(fd, select.POLLIN)
        self._watcher.register(poll)
        self._worker.register(poll)
        until = min(self._worker.deadline, self._watcher.silent_at, self._compare_files_at)
        if not self._worker.is_busy:
            until = min(until, self._check_config_at, self._pass_at())
        seconds_left = max(0.0, until - self._system.monotonic())
        return self._system.wait(poll, min(seconds_left, self._longest_wait))

    def _pass_at(self) -> float:
        """When the next pass starts, unless an event comes first. No pass starts without a configuration."""
        return self._schedule.wakes_at() if self._config else math.inf

    def _read_watcher(self) -> None:
        watcher = self._watcher
        last_since = watcher.watched_since
        last_reason = watcher.not_watched_because
        self._note_watch(watcher.read_messages())
        if watcher.watched_since != last_since or watcher.not_watched_because != last_reason:
            self._write_status_file()

    def _note_watch(self, failure: NotWatched | None) -> None:
        """Tells the schedule whether the Node is watched. failure: the watcher's new failure, if there is one."""
        if self._watcher.watched_since is not None:
            self._schedule.watch_begins()
        elif failure:
            self._schedule.watch_fails(self._system.monotonic(), look_now=failure.look_now)
            if not self._watcher.is_running:
                self._reports.log_watcher_end(failure.reason)

    def _attend_worker(self) -> None:
        """Reads the worker's messages, and handles its end."""
        worker = self._worker
        last_activity = worker.activity
        how_it_ended = worker.attend()
        if worker.probed and not self._is_ready:  # the machine has been read for the first time
            self._is_ready = True
            sd_notify("READY=1")
        if check_result := worker.finish_check():
            self._on_check_result(check_result)
        if how_it_ended is not None:
            if worker.job is not None:  # a worker without a job was not needed
                self._on_job_end(worker.job, how_it_ended)
        elif worker.activity != last_activity:
            self._write_status_file()

    def _on_job_end(self, job: Job, how_it_ended: str) -> None:
        """Handles the end of a worker. how_it_ended: the error message if the worker has sent no result."""
        if job is Job.CHECK:
            self._on_check_result(self._worker.check_result or CheckResult(error=how_it_ended))
            return
        # Without a result, the memory becomes empty: the pass may have written what the last memory does not mention.
        no_result = PassResult(error=f"the reconcile worker {how_it_ended}; retrying")
        self._on_pass_result(self._worker.pass_result or no_result)

    def _on_pass_result(self, result: PassResult) -> None:
        now = self._system.monotonic()
        self._memory = result.memory
        self._schedule.end_pass(result, now)
        self._watcher.comparison.end_pass(result.node_fingerprint)
        if result.credential_files:
            reasons = self._sources.watch_credentials(result.credential_files)
            if not result.error:
                reasons.discard(PassReason.CONFIG)  # changed credentials can end an error, but there is none
            self._schedule.notify(reasons, now)
        if result.watch_target:
            self._note_watch(self._watcher.watch(result.watch_target))
        self._reports.log_error(Job.RECONCILE, result.error)
        self._reports.log_metrics(self._worker.metrics)
        self._report_result(result.status)

    def _on_check_result(self, result: CheckResult) -> None:
        """Applies the check's configuration. If the check has sent none, the previous configuration stays active."""
        now = self._system.monotonic()
        error = f"the configuration check failed and is retried: {result.error}" if result.error else ""
        self._reports.log_error(Job.CHECK, error)
        if error:
            self._check_config_at = now + CHECK_RETRY_PERIOD
        if result.config:
            self._reports.check = result
            self._schedule.resync_period = result.config.resync
            self._config = result.config
            self._sources.watch(result.config)
            self._worker_timeout = WORKER_TIMEOUT_BASE + result.config.detectors_timeout
        if self._is_ready:  # otherwise, the first pass follows in any case
            sd_notify("READY=1")  # ends RELOADING=1
            self._schedule.notify({PassReason.CONFIG}, now)
        self._report_result(line="")

    def _report_result(self, line: str) -> None:
        """Reports the state to `capacityd status` and systemd.

        line: what `systemctl status` shows. If it is "", the current errors or "waiting" are shown.
        """
        self._write_status_file()
        self._reports.notify_systemd(line)

    def _write_status_file(self) -> None:
        """Writes service.json, for `capacityd status`."""
        next_pass_in = max(0.0, self._schedule.wakes_at() - self._system.monotonic())
        is_running = self._worker.is_busy or next_pass_in <= DEBOUNCE
        self._reports.write_status_file(
            next_pass_in=0.0 if is_running else next_pass_in,
            overdue_after=self._worker_timeout + COMPARE_PERIOD,
            running=is_running,
        )
