"""The resident process: waits for events and starts a short-lived worker for each reconcile pass.

All decisions are made in the worker. So a detector that hangs or leaks, the Kubernetes client and the TOML parser never
live here, and a worker that crashes loses nothing. Workers keep their state in files; this process only reads their
messages.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import time
from contextlib import suppress
from typing import Any

from capacityd.linux.atomic_file import replace_file
from capacityd.linux.clock import BOOTING, suspended, uptime
from capacityd.linux.subreaper import become_subreaper
from capacityd.linux.systemd import (
    MSGID_DEGRADED,
    MSGID_EVENT_SOURCE_LOST,
    MSGID_RECOVERED,
    log,
    sd_notify,
    use_nonblocking_stderr,
)
from capacityd.service.event_sources import UDEV, EventSources, Signals
from capacityd.service.schedule import RESYNC_PERIOD, Schedule
from capacityd.service.worker_process import WorkerProcess

WORKER_TIMEOUT_BASE = 180.0  # seconds that a worker may run, in addition to what the configuration allows its programs
WATCHDOG_INTERVAL = 60.0  # seconds: the longest wait, so that systemd's watchdog is fed and a resume is noticed
CHECK_RETRY_PERIOD = 20.0  # seconds until a failed check is retried
_SUSPENDED = 5.0  # seconds by which the clock that includes suspend must have advanced more
_LOCK = "service.lock"


class Service:
    """The main loop.

    command: starts a worker; its arguments "check" or "reconcile" are appended. folder: the runtime directory.
    """

    def __init__(self, command: list[str], folder: str) -> None:
        self._command = command
        self._folder = folder
        self._signals = Signals()
        self._sources = EventSources({})
        self._watch: dict[str, Any] = {}  # what the last check asked to watch, see EventSources
        self._awaited_files: set[str] = set()  # further files whose change may end an error
        self._worker: WorkerProcess | None = None
        self._job = ""  # of the worker: "check" or "reconcile"
        self._worker_timeout = WORKER_TIMEOUT_BASE
        self._check_at: float | None = 0.0  # when a check is due
        self._ready = False  # whether systemd has been notified
        self._errors: dict[str, str] = {}  # job -> its error
        self._schedule = Schedule(time.monotonic(), _uniform, settle=uptime() < BOOTING)
        self._suspended = suspended()

    def run(self) -> int:
        """Runs until a signal ends it; returns the exit status."""
        self._write_status_file(time.monotonic())
        while True:
            if self._worker is None:
                if not os.path.exists(os.path.join(self._folder, _LOCK)):  # only systemd can create the folder again
                    log(3, f"{self._folder} is gone; the service exits so that it is created again", MSGID_DEGRADED)
                    return 1
                self._start_worker(time.monotonic())
            reasons = self._wait()
            if "stop" in reasons:
                sd_notify("STOPPING=1")
                if self._worker is not None:
                    self._worker.kill()
                return 0
            if "reload" in reasons:
                self._check_at = 0.0
            if "udev" in reasons and os.path.exists(UDEV):
                self._open_sources()
                reasons.add("hardware")
            self._schedule.notify(reasons - {"reload", "child", "udev"}, time.monotonic())

    def _start_worker(self, now: float) -> None:
        """Starts a worker if a check or a pass is due."""
        if self._check_at is not None and now >= self._check_at:
            self._check_at = None
            if self._ready:
                sd_notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
            self._job, arguments = "check", ["check", "reload" if self._ready else "boot"]
        elif self._watch and (reasons := self._schedule.pop_due(now)):
            if self._sources.retry:  # this pass detects what changed until they are open again
                self._open_sources()
            self._job, arguments = "reconcile", ["reconcile", ",".join(sorted(reasons))]
        else:
            return
        try:
            self._worker = WorkerProcess([*self._command, *arguments], self._worker_timeout)
        except OSError as e:  # out of memory, processes or file descriptors
            self._on_worker_exit({}, f"could not be started: {e.strerror}")

    def _wait(self) -> set[str]:
        """Waits for an event, a message or a deadline; returns the reasons for a pass that came up."""
        poll = select.poll()
        worker = self._worker
        for fd in (self._signals.fileno(), *self._sources.filenos(), *([worker.fileno()] if worker else [])):
            poll.register(fd, select.POLLIN)
        times = [worker.deadline] if worker else [] if self._check_at is None else [self._check_at]
        if not worker and self._watch:  # a check that is retried delays no pass
            times.append(self._schedule.wakes_at())
        timeout = min(max(0.0, min(times) - time.monotonic()), WATCHDOG_INTERVAL) if times else WATCHDOG_INTERVAL
        ready = {fd for fd, _ in poll.poll(timeout * 1000 + 1)}
        sd_notify("WATCHDOG=1")
        events, failures = self._sources.drain(ready)
        reasons = self._signals.drain() | self._check_resumed() | events
        if failures:
            log(4, f"an event source failed and is reopened: {failures[0]}", MSGID_EVENT_SOURCE_LOST)
            self._open_sources()
            reasons.add("hardware")
        if worker:
            if worker.fileno() in ready:
                self._read_worker(worker)
            elif worker.deadline <= time.monotonic():
                worker.kill()
                self._on_worker_exit(worker.result, f"exceeded its timeout of {self._worker_timeout:.0f} s")
        return reasons

    def _check_resumed(self) -> set[str]:
        before, self._suspended = self._suspended, suspended()
        return {"resume"} if self._suspended - before > _SUSPENDED else set()

    def _read_worker(self, worker: WorkerProcess) -> None:
        closed = worker.read_messages()
        if worker.result.get("probed") and not self._ready:
            self._ready = True
            sd_notify("READY=1")
        if closed:
            self._on_worker_exit(worker.result, worker.kill() or "exited without a result")

    def _on_worker_exit(self, result: dict[str, Any], failure: str) -> None:
        """Takes over the result of a worker that has ended. failure: how it ended, if it sent no result."""
        self._worker = None
        now = time.monotonic()
        if self._job == "check":
            self._on_check_result(result, failure)
        elif result.get("done"):
            self._log_transition("reconcile", str(result.get("error", "")))
            if result.get("failed"):
                self._schedule.failed(now, result.get("retry_after"), str(result.get("cause", "other")))
            else:
                self._schedule.succeeded(now, result.get("requeue_after"), bool(result.get("node_read", True)))
                if (start_in := result.get("start_in")) is not None:
                    self._schedule.start_in(float(start_in), now)
            files = {str(path) for path in result.get("files", ())}
            if files or not result.get("failed"):  # another error in between does not end the wait for the files
                self._await_files(files, now)
        else:
            self._log_transition("reconcile", f"the reconcile worker {failure}; retrying")
            self._schedule.failed(now, None)
        self._write_status_file(now)
        status = result.get("status") or "; ".join(self._errors.values()) or "waiting"
        sd_notify(f"STATUS={' '.join(status.split())}")

    def _await_files(self, files: set[str], now: float) -> None:
        """Watches the files whose change may end an error. A pass follows, as one may have changed before."""
        files -= self._watch.get("files", {}).keys()
        if files != self._awaited_files:
            self._awaited_files = files
            self._open_sources()
            self._schedule.notify({"credentials"} if files else {"hardware"}, now)

    def _on_check_result(self, result: dict[str, Any], failure: str) -> None:
        """Takes over what a check asks to watch; without that, the previous configuration stays active."""
        if result.get("done") and not result.get("failed"):
            self._log_transition("check", "")
        else:
            why = str(result.get("error") or failure)
            self._log_transition("check", f"the configuration check failed and is retried: {why}")
            self._check_at = time.monotonic() + CHECK_RETRY_PERIOD
        watch = result.get("watch")
        if watch is not None and watch != self._watch:
            if not self._watch:  # events of the booting machine are received from now on, so debouncing starts now
                self._schedule.notify({"boot"}, time.monotonic())
            self._watch = watch
            self._open_sources()
            self._schedule.set_resync_period(float(watch.get("resync", RESYNC_PERIOD)), time.monotonic())
        self._worker_timeout = WORKER_TIMEOUT_BASE + float(self._watch.get("allowed", 0.0))
        if self._ready:
            sd_notify("READY=1")
            self._schedule.notify({"config"}, time.monotonic())

    def _open_sources(self) -> None:
        """Opens the event sources again, and logs each that is newly unavailable."""
        before = self._sources.unavailable
        self._sources.close()
        files = dict.fromkeys(self._awaited_files, "credentials") | self._watch.get("files", {})
        self._sources = EventSources(self._watch | {"files": files})
        for error in self._sources.unavailable:
            if error not in before:
                log(4, f"{error}; changes are detected at the next reconcile pass", MSGID_EVENT_SOURCE_LOST)

    def _log_transition(self, job: str, error: str) -> None:
        """Logs an error of a job when it is new, and once that there is none any more."""
        before = self._errors.pop(job, "")
        if error:
            if error != before:
                log(4, error, MSGID_DEGRADED)
            self._errors[job] = error
        elif before and not self._errors:
            log(5, "recovered", MSGID_RECOVERED)

    def _write_status_file(self, now: float) -> None:
        """Writes service.json for `capacityd status`; atomically, by renaming."""
        path = os.path.join(self._folder, "service.json")
        left = max(0.0, self._schedule.wakes_at() - now)
        content = {
            "pid": os.getpid(),
            "next_reconcile": time.time() + left,
            # The uptime by which the file is written again, unless this process is stuck.
            "overdue_at_uptime": uptime() + left + self._worker_timeout + WATCHDOG_INTERVAL,
            "error": "; ".join(self._errors.values()),
            "event_source_errors": self._sources.unavailable,
        }
        with suppress(OSError):  # workers write here too and report the error; `status` shows the file as stale
            replace_file(path, json.dumps(content).encode(), 0o644)  # `status` needs no root


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
