"""The resident process: waits for events and starts a short-lived worker for each reconcile pass.

All decisions are made in the worker. So a detector that hangs or leaks, the Kubernetes client and the TOML parser never
live here, and a worker that crashes loses nothing. Workers keep their state in files; this process only reads their
messages.
"""

from __future__ import annotations

import fcntl
import math
import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import replace

from capacityd import __version__
from capacityd.linux.atomic_file import replace_file
from capacityd.linux.clock import BOOTING, suspended, uptime
from capacityd.linux.subreaper import become_subreaper
from capacityd.linux.systemd import (
    MSGID_DEGRADED,
    MSGID_EVENT_SOURCE_LOST,
    MSGID_METRICS,
    MSGID_RECOVERED,
    log,
    sd_notify,
    use_nonblocking_stderr,
)
from capacityd.model.codec import to_file
from capacityd.model.messages import (
    Activity,
    CheckResult,
    Job,
    MetricsResult,
    PassReason,
    PassResult,
    ServiceStatus,
    Watch,
)
from capacityd.service.event_sources import UDEV, EventSources, Signals
from capacityd.service.schedule import Schedule
from capacityd.service.worker_process import WorkerProcess

WORKER_TIMEOUT_BASE = 180.0  # seconds that a worker may run, in addition to what the configuration allows its programs
WATCHDOG_INTERVAL = 60.0  # seconds: the longest wait, so that systemd's watchdog is fed and a resume is noticed
CHECK_RETRY_PERIOD = 20.0  # seconds until a failed check is retried
_SUSPENDED = 5.0  # seconds by which the clock that includes suspend must have advanced more
_LOCK = "service.lock"
_STOP = {signal.SIGTERM, signal.SIGINT}


class Service:
    """The main loop.

    command: starts a worker; its job and the job's arguments are appended. folder: the runtime directory.
    """

    def __init__(self, command: list[str], folder: str) -> None:
        self._command = command
        self._folder = folder
        self._signals = Signals()
        self._watch: Watch | None = None  # what the last check asked to watch
        self._sources = EventSources(Watch())
        self._awaited_files: set[str] = set()  # further files whose change may end an error
        self._worker: WorkerProcess | None = None
        self._job = Job.CHECK  # of the worker
        self._worker_timeout = WORKER_TIMEOUT_BASE
        self._ready = False  # whether systemd has been notified
        self._errors: dict[Job, str] = {}
        self._check = CheckResult()  # the last one
        self._metrics = MetricsResult("")  # of the last pass
        self._lost = 0  # passes that ended without a result since the last one that had one
        self._schedule = Schedule(time.monotonic(), _uniform, settle=uptime() < BOOTING)
        self._suspended = suspended()

    def run(self) -> int:
        """Runs until a signal ends it; returns the exit status."""
        self._write_status_file(time.monotonic())
        while True:
            if self._worker is not None and self._worker.waits and self._next_worker_at() <= time.monotonic():
                self._worker.kill()  # the next one waits, if there still is no Node
                self._worker = None
            if self._worker is None:
                if not os.path.exists(os.path.join(self._folder, _LOCK)):  # only systemd can create the folder again
                    log(3, f"{self._folder} is gone; the service exits so that it is created again", MSGID_DEGRADED)
                    return 1
                self._start_worker(time.monotonic())
            signals, reasons = self._wait()
            if signals & _STOP:
                sd_notify("STOPPING=1")
                if self._worker is not None:
                    self._worker.kill()
                return 0
            now = time.monotonic()
            if signal.SIGHUP in signals:
                self._schedule.request_check(now)
            if self._sources.awaits_udev and os.path.exists(UDEV):
                self._open_sources()
                reasons.add(PassReason.HARDWARE)
            self._schedule.notify(reasons, now)

    def _start_worker(self, now: float) -> None:
        """Starts a worker if a check or a pass is due."""
        if self._schedule.pop_check(now):
            if self._ready:
                sd_notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
            self._job, arguments = Job.CHECK, ["reload" if self._ready else "boot"]
        elif self._watch and (reasons := self._schedule.pop_due(now)):
            if self._sources.retry:  # this pass detects what changed until they are open again
                self._open_sources()
            self._job, arguments = Job.RECONCILE, [",".join(sorted(reason.value for reason in reasons))]
            arguments += [str(self._lost)] if self._lost else []
        else:
            return
        try:
            self._worker = WorkerProcess([*self._command, self._job.value, *arguments], self._worker_timeout)
        except OSError as e:  # out of memory, processes or file descriptors
            self._on_worker_exit(None, f"could not be started: {e.strerror}")

    def _wait(self) -> tuple[set[signal.Signals], set[PassReason]]:
        """Waits for an event, a message or a deadline; returns the signals, and the reasons for a pass that came up."""
        poll = select.poll()
        worker = self._worker
        for fd in (self._signals.fileno(), *self._sources.filenos(), *([worker.fileno()] if worker else [])):
            poll.register(fd, select.POLLIN)
        until = min(worker.deadline, worker.slow_at()) if worker else math.inf
        if worker is None or worker.waits:
            until = min(until, self._next_worker_at())
        timeout = min(max(0.0, until - time.monotonic()), WATCHDOG_INTERVAL)
        ready = {fd for fd, _ in poll.poll(timeout * 1000 + 1)}
        sd_notify("WATCHDOG=1")
        events, failures = self._sources.drain(ready)
        signals, reasons = self._signals.drain(), self._check_resumed() | events
        if failures:
            log(4, f"an event source failed and is reopened: {failures[0]}", MSGID_EVENT_SOURCE_LOST)
            self._open_sources()
            reasons.add(PassReason.HARDWARE)
        if worker:
            if worker.fileno() in ready:
                self._read_worker(worker)
            elif worker.deadline <= time.monotonic():
                worker.kill()
                self._on_worker_exit(worker.result, f"exceeded its timeout of {self._worker_timeout:.0f} s")
            elif worker.slow_at() <= time.monotonic():
                worker.is_slow = True
                self._write_status_file(time.monotonic())
        return signals, reasons

    def _next_worker_at(self) -> float:
        """When the next worker is started, unless an event comes before."""
        check_at = self._schedule.check_at()
        times = [] if check_at is None else [check_at]
        if self._watch:  # a check that is retried delays no pass
            times.append(self._schedule.wakes_at())
        return min(times, default=math.inf)

    def _check_resumed(self) -> set[PassReason]:
        before, self._suspended = self._suspended, suspended()
        return {PassReason.RESUME} if self._suspended - before > _SUSPENDED else set()

    def _read_worker(self, worker: WorkerProcess) -> None:
        waited, probed = worker.waits, worker.probed
        closed = worker.read_messages()
        if waited and not worker.waits:
            self._schedule.node_found()
        if worker.probed and not self._ready:
            self._ready = True
            sd_notify("READY=1")
        if closed:
            self._on_worker_exit(worker.result, worker.kill() or "exited without a result")
        elif worker.waits and not waited and isinstance(worker.result, PassResult):
            worker.deadline += worker.result.awaits_node
            self._on_pass_result(worker.result, time.monotonic())
            self._schedule.postpone(worker.result.awaits_node)
            self._report(worker.result.status)
        elif worker.is_slow and worker.probed != probed:
            self._write_status_file(time.monotonic())

    def _on_worker_exit(self, result: CheckResult | PassResult | None, failure: str) -> None:
        """Takes over the result of a worker that has ended. failure: how it ended, if it sent no result."""
        metrics, self._worker = self._worker.metrics if self._worker else None, None
        now = time.monotonic()
        if self._job is Job.CHECK:
            self._on_check_result(result if isinstance(result, CheckResult) else CheckResult(error=failure), now)
        elif isinstance(result, PassResult):
            self._on_pass_result(result, now)
            self._log_metrics(metrics or MetricsResult(""))
        else:
            self._lost += 1
            self._log_transition(Job.RECONCILE, f"the reconcile worker {failure}; retrying")
            self._schedule.failed(now, None)
        self._report(result.status if isinstance(result, PassResult) else "")

    def _report(self, line: str) -> None:
        """For `status` and `systemctl status`. line: that of a pass."""
        self._write_status_file(time.monotonic())
        sd_notify(f"STATUS={' '.join((line or '; '.join(self._errors.values()) or 'waiting').split())}")

    def _on_pass_result(self, result: PassResult, now: float) -> None:
        self._lost = 0
        failure = result.failure
        self._log_transition(Job.RECONCILE, failure.message if failure else "")
        if failure:
            self._schedule.failed(now, failure.retry_after, failure.cause)
        else:
            self._schedule.succeeded(now, result.requeue_after, result.node_read)
            if result.start_in is not None:
                self._schedule.start_in(result.start_in, now)
        files = set(failure.files) if failure else set()
        if files or not failure:  # another error in between does not end the wait for the files
            self._await_files(files, now)

    def _log_metrics(self, metrics: MetricsResult) -> None:
        """Logs an error of the file of metrics when it is new, and once that it is written again."""
        before, self._metrics = self._metrics, metrics
        if metrics.error and metrics != before:
            log(4, "; ".join(filter(None, (metrics.error, metrics.advice))), MSGID_METRICS)
        elif before.error and metrics.path and not metrics.error:
            log(5, f"{metrics.path} is written again", MSGID_METRICS)

    def _await_files(self, files: set[str], now: float) -> None:
        """Watches the files whose change may end an error. A pass follows, as one may have changed before."""
        files -= self._watch.files.keys() if self._watch else set()
        if files != self._awaited_files:
            self._awaited_files = files
            self._open_sources()
            self._schedule.notify({PassReason.CREDENTIALS if files else PassReason.HARDWARE}, now)

    def _on_check_result(self, result: CheckResult, now: float) -> None:
        """Takes over what a check asks to watch; without that, the previous configuration stays active."""
        error = f"the configuration check failed and is retried: {result.error}" if result.error else ""
        self._log_transition(Job.CHECK, error)
        if error:
            self._schedule.request_check(now + CHECK_RETRY_PERIOD)
        if result.watch:
            self._check = result
        if result.watch and result.watch != self._watch:
            if not self._watch:  # events of the booting machine are received from now on, so debouncing starts now
                self._schedule.notify({PassReason.BOOT}, now)
            self._watch = result.watch
            self._open_sources()
            self._schedule.set_resync_period(result.watch.resync, now)
        self._worker_timeout = WORKER_TIMEOUT_BASE + (self._watch.allowed if self._watch else 0.0)
        if self._ready:
            sd_notify("READY=1")
            self._schedule.checked(now)

    def _open_sources(self) -> None:
        """Opens the event sources again, and logs each that is newly unavailable."""
        before = self._sources.unavailable
        self._sources.close()
        watch = self._watch or Watch()
        files = dict.fromkeys(self._awaited_files, PassReason.CREDENTIALS) | dict(watch.files)
        self._sources = EventSources(replace(watch, files=files))
        for error in self._sources.unavailable:
            if error not in before:
                log(4, f"{error}; changes are detected at the next reconcile pass", MSGID_EVENT_SOURCE_LOST)

    def _log_transition(self, job: Job, error: str) -> None:
        """Logs an error of a job when it is new, and once that there is none any more."""
        before = self._errors.pop(job, "")
        if error:
            if error != before:
                log(4, error, MSGID_DEGRADED)
            self._errors[job] = error
        elif before and not self._errors:
            log(5, "recovered", MSGID_RECOVERED)

    def _activity(self) -> Activity:
        """What the worker is doing."""
        if self._job is Job.CHECK:
            return Activity.CHECK
        return Activity.NODE if self._worker and self._worker.probed else Activity.PROBE

    def _write_status_file(self, now: float) -> None:
        """Writes service.json for `capacityd status`; atomically, by renaming."""
        path = os.path.join(self._folder, "service.json")
        left = max(0.0, self._schedule.wakes_at() - now)
        worker = self._worker
        status = ServiceStatus(
            pid=os.getpid(),
            next_reconcile=time.time() + left,
            overdue_at_uptime=uptime() + left + self._worker_timeout + WATCHDOG_INTERVAL,
            error="; ".join(self._errors.values()),
            event_source_errors=tuple(self._sources.unavailable),
            configuration_errors=self._check.configuration_errors,
            previous_active=self._check.previous_active,
            metrics_error=self._metrics.error,
            metrics_advice=self._metrics.advice,
            slow_activity=self._activity() if worker and worker.is_slow else None,
            slow_since=time.time() - (now - worker.began) if worker and worker.is_slow else 0.0,
        )
        with suppress(OSError):  # workers write here too and report the error; `status` shows the file as stale
            replace_file(path, to_file(status, __version__), 0o644)  # `status` needs no root


def _uniform(low: float, high: float) -> float:
    """A random number. The module random would take 4 MiB."""
    return low + (high - low) * int.from_bytes(os.urandom(4), "little") / 2**32


def main(arguments: list[str]) -> int:
    """FOLDER COMMAND...: runs the service; COMMAND starts its workers. Returns the exit status."""
    use_nonblocking_stderr()
    folder, *command = arguments
    path = os.path.join(folder, _LOCK)
    try:
        # Held for the life of the process. A PID file could name a recycled PID.
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log(3, f"the service is already running; see {folder}/service.json", MSGID_DEGRADED)
        return 1
    except OSError as e:
        log(3, f"{path} could not be opened: {e.strerror}", MSGID_DEGRADED)
        return 1
    become_subreaper()
    return Service(command, folder).run()
