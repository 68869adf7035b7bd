"""A worker of the service: a short-lived process that checks the configuration or runs one reconcile pass."""

from __future__ import annotations

import json
import math
import os
import select
import signal
from collections.abc import Collection
from contextlib import suppress

from capacityd.model.codec import Malformed, decode_variant, encode, parse
from capacityd.model.messages import (
    EARLY,
    NO_METRICS,
    CheckResult,
    JobRequest,
    Message,
    MetricsResult,
    NodeToWatch,
    PassResult,
    Probed,
)
from capacityd.model.reasons import Activity, Job
from capacityd.service.child_process import ChildProcess
from capacityd.service.surroundings import REAL, Surroundings

SLOW = 30.0  # seconds after which `status` shows a worker's activity
MAX_WAIT = 10.0  # seconds for which a worker waits for a job
_NO_RESULT = "exited without a result"
_KILL_TIMEOUT = 1.0  # seconds; a child that hangs in the kernel must not stop the service


class WorkerProcess:
    """The worker process, which may not be running. There is at most one worker. It has a job, or waits for a job.

    command: the command that starts a worker. The fields with a job's results remain until the next job begins. Times
    are values of time.monotonic().
    """

    def __init__(self, command: list[str], around: Surroundings = REAL) -> None:
        self._command = command
        self._around = around
        self._process: ChildProcess | None = None
        self._may_start_early = True
        self._waits_since = 0.0
        self._timeout = 0.0
        self.job: Job | None = None
        """The current or the last job; None: the worker waits for a job."""
        self.began = 0.0
        self.is_slow = False
        """Whether the job has taken so long that `status` shows the worker's activity."""
        self.probed = False
        """Whether the worker has read the machine."""
        self.result: CheckResult | PassResult | None = None
        """None until the worker has sent the job's result."""
        self.metrics = NO_METRICS  # until the worker has sent the result of writing the metrics file
        self.node_to_watch: NodeToWatch | None = None
        """None until the worker has sent the Node to watch."""

    @property
    def is_busy(self) -> bool:
        """Whether the worker has a job."""
        return self._process is not None and self.job is not None

    def start_early(self) -> None:
        """Starts a worker whose job will follow, if there is no worker. An error only delays the job.

        Starts at most one worker for each job, even if the worker ends before it gets the job.
        """
        if self._process is None and self._may_start_early:
            self._may_start_early = False
            self._await_job()
            with suppress(OSError):
                self._process = self._around.start_child([*self._command, EARLY])

    def give(self, request: JobRequest, timeout: float, spared: Collection[int]) -> None:
        """Gives the job to the waiting worker, or to a new one. Raises OSError if the new worker can't be started.

        timeout: the seconds that the job may take. spared: the PIDs of children that must not be killed.
        """
        if self._process:
            self.attend({self._process.fileno()}, spared)  # the worker may have ended while it waited
        self._may_start_early = True
        self.job = request.job
        self.began = self._around.monotonic()
        self._timeout = timeout
        self.is_slow = self.probed = False
        self.result, self.metrics, self.node_to_watch = None, NO_METRICS, None
        if self._process is None:
            self._process = self._around.start_child(self._command)
        self._process.send(json.dumps(encode(request)).encode())

    def finish_check(self) -> CheckResult | None:
        """Returns the result of a check, if the worker has sent it. From then on, the worker waits for another job.

        Returns None if the check has failed, because the worker ends then.
        """
        if self.job is not Job.CHECK or not isinstance(self.result, CheckResult) or self.result.error:
            return None
        self._await_job()
        return self.result

    def _await_job(self) -> None:
        self.job = None
        self.is_slow = False
        self._waits_since = self._around.monotonic()

    def register(self, poll: select.poll) -> None:
        """Lets poll() return when the worker has sent a message."""
        if self._process:
            self._process.register(poll)

    @property
    def wakes_at(self) -> float:
        """When attend() must be called next: when the worker becomes slow, or has reached its deadline."""
        if self._process is None:
            return math.inf
        if self.job is None:
            return self._waits_since + MAX_WAIT
        return self.began + (self._timeout if self.is_slow else min(self._timeout, SLOW))

    @property
    def slow_activity(self) -> Activity | None:
        """What the worker does now; None if it is not slow."""
        if not self.is_slow:
            return None
        if self.job is Job.CHECK:
            return Activity.CHECK
        return Activity.NODE if self.probed else Activity.PROBE

    def attend(self, ready: Collection[int], spared: Collection[int]) -> str | None:
        """Reads the worker's messages. Ends the worker if its deadline has passed, or if it has waited too long.

        ready: the file descriptors that can be read. spared: the PIDs of children that must not be killed. Returns how
        the worker has ended, for an error message; None if it still runs, or did not run.
        """
        if self._process is None:
            return None
        now = self._around.monotonic()
        self.is_slow = self.job is not None and now >= self.began + SLOW
        self._process.flush()
        if self._process.fileno() in ready:
            for line in self._process.read_lines():
                self._take(line)
            if self._process.has_no_more_messages:
                # kill() also ends the processes that the worker has started.
                return self.kill(spared)
        elif self.wakes_at <= now:
            self.kill(spared)
            return f"exceeded its timeout of {self._timeout:.0f} s"
        return None

    def _take(self, line: bytes) -> None:
        try:
            message: Message = decode_variant(Message, parse(line))
        except Malformed:  # a line that a library has printed
            return
        if isinstance(message, Probed):
            self.probed = True
        elif isinstance(message, MetricsResult):
            self.metrics = message
        elif isinstance(message, NodeToWatch):
            self.node_to_watch = message
        else:
            self.result = message

    def kill(self, spared: Collection[int] = ()) -> str:
        """Kills the worker, if it is running, and all other children of the service.

        spared: the PIDs of children that must not be killed. Returns how the worker had ended before: "was killed by"
        and the signal, or "exited without a result".
        """
        process, self._process = self._process, None
        self.is_slow = False
        if process:
            process.kill()
        statuses = self._around.kill_children(self._around.monotonic() + _KILL_TIMEOUT, spared)
        if process is None or not process.output_ended:  # the worker has ended because of this call
            return _NO_RESULT
        status = statuses.get(process.pid, 0)
        if not os.WIFSIGNALED(status):
            return _NO_RESULT
        number = os.WTERMSIG(status)
        hint = " (out of memory?)" if number == signal.SIGKILL else ""
        return f"was killed by {_signal_name(number)}{hint}"


def _signal_name(number: int) -> str:
    """The name of a signal. Most real-time signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
