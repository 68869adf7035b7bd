"""A worker of the service: a short-lived process that checks the configuration or runs one reconcile pass."""

from __future__ import annotations

import math
import signal
import time

from capacityd.linux.subreaper import kill_children
from capacityd.model.codec import Malformed, decode_variant, parse
from capacityd.model.messages import CheckResult, Message, MetricsResult, PassResult, Probed
from capacityd.model.reasons import Activity, Job
from capacityd.service.child_process import ChildProcess

SLOW = 30.0  # seconds after which `status` shows a worker's activity


class WorkerProcess:
    """A running worker. timeout: in seconds, until the deadline. Raises OSError if the worker can't be started."""

    def __init__(self, command: list[str], timeout: float) -> None:
        self.began = time.monotonic()
        self.deadline = self.began + timeout
        self.is_slow = False
        """Whether the worker has run for so long that `status` shows its activity."""
        self._process = ChildProcess(command)
        self.probed = False
        """Whether the worker has read the machine."""
        self.result: CheckResult | PassResult | None = None
        """None until the worker has sent a result."""
        self.metrics: MetricsResult | None = None
        """None if the worker has written no metrics."""

    def fileno(self) -> int:
        return self._process.fileno()

    def slow_at(self) -> float:
        """When the worker becomes slow (time.monotonic()); infinity if it already is."""
        return math.inf if self.is_slow else self.began + SLOW

    def slow(self, job: Job) -> tuple[Activity, float] | None:
        """The activity of a slow worker, and for how many seconds the worker has been running; None if it is not slow.

        job: the worker's job.
        """
        if not self.is_slow:
            return None
        running_for = time.monotonic() - self.began
        if job is Job.CHECK:
            return Activity.CHECK, running_for
        return Activity.NODE if self.probed else Activity.PROBE, running_for

    def read_messages(self) -> bool:
        """Reads the messages since the last call. Returns whether there is nothing more to read."""
        for line in self._process.read_lines():
            self._take(line)
        return self._process.fully_read

    def _take(self, line: bytes) -> None:
        try:
            message: Message = decode_variant(Message, parse(line))
        except Malformed:  # a library may print as well
            return
        if isinstance(message, Probed):
            self.probed = True
        elif isinstance(message, MetricsResult):
            self.metrics = message
        else:
            self.result = message

    def kill(self, spared: int) -> str:
        """Kills the worker, if it is still running, and all children of the service but one.

        spared: the PID of that child; 0 for none. Returns "was killed by" and the signal if a signal had already ended
        the worker, otherwise "".
        """
        had_ended = self._process.output_ended
        self._process.kill()
        statuses = kill_children(time.monotonic() + 1.0, spared)
        wait_status = statuses.get(self._process.pid, 0)
        number = wait_status & 0x7F  # the signal that ended the worker; 0 if it has exited (wait(2))
        if not number or not had_ended:
            return ""
        hint = " (out of memory?)" if number == signal.SIGKILL else ""
        return f"was killed by {_signal_name(number)}{hint}"


def _signal_name(number: int) -> str:
    """The name of a signal. Most real-time signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
