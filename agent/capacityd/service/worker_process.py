"""A worker of the service: a short-lived process that checks the configuration or runs one reconcile pass."""

from __future__ import annotations

import json
import math
import os
import select
import signal
from contextlib import suppress

from capacityd.model.codec import encode
from capacityd.model.messages import EARLY, NO_METRICS, CheckResult, JobRequest, Message, PassResult, Probed
from capacityd.model.reasons import Activity, Job
from capacityd.service.child_process import ChildProcess, decoded
from capacityd.service.system import REAL_SYSTEM, System
from capacityd.service.watcher_process import WatcherProcess

MAX_WAIT = 10.0  # seconds for which a worker waits for a job
_KILL_TIMEOUT = 1.0  # seconds to wait for killed children, because a child that hangs in the kernel may not end


class WorkerProcess:
    """The worker process, which may not be running. There is at most one worker.

    A worker has a job, or waits for a job. The fields with a job's results remain until the next job begins. Times are
    values of time.monotonic().

    command: the command that starts a worker. watcher: the only child of the service that outlives a worker.
    """

    def __init__(self, command: list[str], watcher: WatcherProcess, system: System = REAL_SYSTEM) -> None:
        self._command = command
        self._watcher = watcher
        self._system = system
        self._process: ChildProcess | None = None
        self._may_start_early = True
        self.deadline = math.inf
        """When attend() ends the worker, because it has worked or waited too long; infinity without a worker."""
        self.job: Job | None = None
        """The current or the last job; None: the worker waits for a job."""
        self.began = 0.0  # when the worker got its last job
        self.probed = False
        """Whether the worker has read the machine."""
        self.check_result: CheckResult | None = None
        """None until the worker has sent the result of a check."""
        self.pass_result: PassResult | None = None
        """None until the worker has sent the result of a pass."""
        self.metrics = NO_METRICS  # until the worker has sent the result of writing the metrics file

    @property
    def is_busy(self) -> bool:
        """Whether the worker has a job."""
        return self._process is not None and self.job is not None

    def start_early(self) -> None:
        """Starts a worker for a later job, if there is no worker. Ignores errors, because give() then starts a worker.

        Starts at most one worker for each job, even if the worker ends before it gets the job.
        """
        if self._process is None and self._may_start_early:
            self._may_start_early = False
            with suppress(OSError):
                self._process = self._system.start_child([*self._command, EARLY])
                self._begin_to_wait()

    def give(self, request: JobRequest, timeout: float) -> None:
        """Gives the job to the waiting worker, or to a new one. Raises OSError if the new worker can't be started.

        timeout: the seconds that the job may take.
        """
        self.attend()  # the worker may have ended while it waited
        self._may_start_early = True
        self.job = request.job
        self.began = self._system.monotonic()
        self.probed = False
        self.check_result = None
        self.pass_result = None
        self.metrics = NO_METRICS
        if self._process is None:
            self._process = self._system.start_child(self._command)
        self.deadline = self.began + timeout
        self._process.send(json.dumps(encode(request)).encode())

    def finish_check(self) -> CheckResult | None:
        """Returns the result of a check, if the worker has sent it. From then on, the worker waits for another job.

        Returns None if the check has failed, because the worker ends then.
        """
        if self.job is not Job.CHECK or self.check_result is None or self.check_result.error:
            return None
        self._begin_to_wait()
        return self.check_result

    def _begin_to_wait(self) -> None:
        self.job = None
        self.deadline = self._system.monotonic() + MAX_WAIT

    def register(self, poll: select.poll) -> None:
        """Lets poll() return when the worker has sent a message."""
        if self._process:
            self._process.register(poll)

    @property
    def activity(self) -> Activity | None:
        """What the worker does now; None if it has no job."""
        if not self.is_busy:
            return None
        if self.job is Job.CHECK:
            return Activity.CHECK
        return Activity.NODE if self.probed else Activity.PROBE

    def attend(self) -> str | None:
        """Reads the worker's messages. Ends the worker if its deadline has passed.

        Returns how the worker has ended, for an error message; None if it still runs, or did not run.
        """
        process = self._process
        if process is None:
            return None
        process.flush()
        for message in decoded(process.read_lines(), Message):
            self._take(message)
        if process.has_ended:
            statuses = self.kill()  # also kills the processes that the worker has started
            status = statuses.get(process.pid, 0)  # 0 if the worker did not end in time
            return _how_it_ended(status)
        if self.deadline <= self._system.monotonic():
            timeout = self.deadline - self.began
            self.kill()
            return f"exceeded its timeout of {timeout:.0f} s"
        return None

    def _take(self, message: Message) -> None:
        if isinstance(message, Probed):
            self.probed = True
        elif isinstance(message, CheckResult):
            self.check_result = message
        elif isinstance(message, PassResult):
            self.pass_result = message
        else:
            self.metrics = message

    def kill(self) -> dict[int, int]:
        """Kills the worker, if it is running, and all other children of the service except the watcher.

        Returns PID -> status from wait(2), for the children that have ended.
        """
        if self._process:
            self._process.kill()
            self._process = None
            self.deadline = math.inf
        kill_deadline = self._system.monotonic() + _KILL_TIMEOUT
        return self._system.kill_children(kill_deadline, self._watcher.pids)


def _how_it_ended(status: int) -> str:
    """How a worker has ended, for an error message. status: from wait(2)."""
    if not os.WIFSIGNALED(status):
        return "exited without a result"
    number = os.WTERMSIG(status)
    hint = " (out of memory?)" if number == signal.SIGKILL else ""
    return f"was killed by {_signal_name(number)}{hint}"


def _signal_name(number: int) -> str:
    """The name of a signal. Most real-time signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
