"""A worker of the service: a short-lived process that checks the configuration or runs one reconcile pass."""

from __future__ import annotations

import json
import os
import select
import signal

from capacityd.model.codec import Malformed, decode_variant, encode, parse
from capacityd.model.messages import NO_METRICS, CheckResult, JobRequest, Message, MetricsResult, PassResult, Probed
from capacityd.model.reasons import Activity, Job
from capacityd.service.surroundings import REAL, Surroundings

SLOW = 30.0  # seconds after which `status` shows a worker's activity
_KILL_TIMEOUT = 1.0  # seconds; a child that hangs in the kernel must not stop the service


class WorkerProcess:
    """A running worker with a job. timeout: in seconds, until the deadline. Raises OSError if it can't be started.

    Times are of time.monotonic().
    """

    def __init__(self, command: list[str], request: JobRequest, *, timeout: float, around: Surroundings = REAL) -> None:
        self._around = around
        self.job = request.job
        self.began = around.monotonic()
        self.deadline = self.began + timeout
        self.is_slow = False
        """Whether the worker has run for so long that `status` shows its activity."""
        self._process = around.start_child(command)
        self._process.send(json.dumps(encode(request)).encode())
        self.probed = False
        """Whether the worker has read the machine."""
        self.result: CheckResult | PassResult | None = None
        """None until the worker has sent a result."""
        self.metrics = NO_METRICS  # until the worker has sent the result of writing the metrics file

    def fileno(self) -> int:
        return self._process.fileno()

    def register(self, poll: select.poll) -> None:
        """Lets poll() return when the worker must be attended to."""
        self._process.register(poll)

    def send_rest(self) -> None:
        """Sends the rest of a long job, as far as the worker has room for it."""
        self._process.flush()

    def wakes_at(self) -> float:
        """When the worker becomes slow or, if it is slow, its deadline."""
        return self.deadline if self.is_slow else min(self.deadline, self.began + SLOW)

    def becomes_slow(self, now: float) -> bool:
        """Whether the worker has become slow since the last call."""
        was_slow = self.is_slow
        self.is_slow = now >= self.began + SLOW
        return self.is_slow and not was_slow

    def activity(self) -> Activity:
        """What the worker does now."""
        if self.job is Job.CHECK:
            return Activity.CHECK
        return Activity.NODE if self.probed else Activity.PROBE

    def read_messages(self) -> bool:
        """Reads the messages since the last call. Returns whether there is nothing more to read."""
        for line in self._process.read_lines():
            self._take(line)
        return self._process.has_no_more_messages

    def _take(self, line: bytes) -> None:
        try:
            message: Message = decode_variant(Message, parse(line))
        except Malformed:  # a line that a library has printed
            return
        if isinstance(message, Probed):
            self.probed = True
        elif isinstance(message, MetricsResult):
            self.metrics = message
        else:
            self.result = message

    def kill(self, spared_pid: int) -> str:
        """Kills the worker, if it is still running, and all other children of the service but one.

        spared_pid: the PID of that one child; 0: all are killed. Returns how the worker had ended before: "was killed
        by" and the signal, or "exited without a result". This is for a message if the worker sent no result.
        """
        had_ended = self._process.output_ended
        self._process.kill()
        statuses = self._around.kill_children(self._around.monotonic() + _KILL_TIMEOUT, spared_pid)
        status = statuses.get(self._process.pid, 0)
        was_killed_before = had_ended and os.WIFSIGNALED(status)  # not by the kill() above
        if not was_killed_before:
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
