"""A worker of the service: a short-lived process that checks the configuration or runs one reconcile pass.

A worker sends its messages as lines of JSON on its standard output.
"""

from __future__ import annotations

import math
import os
import signal
import time
from contextlib import suppress

from capacityd.linux.subreaper import kill_children
from capacityd.model.codec import Malformed, decode_variant, parse
from capacityd.model.messages import CheckResult, Message, MetricsResult, PassResult, Probed
from capacityd.model.reasons import Activity, Job

SLOW = 30.0  # seconds after which `status` shows a worker's activity
_MAX_LINE_BYTES = 1 << 20


class WorkerProcess:
    """A running worker. timeout: in seconds, until the deadline. Raises OSError if the worker can't be started."""

    def __init__(self, command: list[str], timeout: float) -> None:
        self.began = time.monotonic()
        self.deadline = self.began + timeout
        self.is_slow = False
        """Whether the worker has run for so long that `status` shows its activity."""
        self._read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read, False)
        try:
            out = [(os.POSIX_SPAWN_DUP2, write, 1)]
            self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=out, setpgroup=0)
        finally:
            os.close(write)
        self.probed = False
        """Whether the worker has read the machine."""
        self.result: CheckResult | PassResult | None = None
        """None until the worker has sent a result."""
        self.awaits_node = False
        """Whether the worker only waits for its Node, so that it may be killed."""
        self.metrics: MetricsResult | None = None
        """None if the worker has written no metrics."""
        self._buffer = b""
        self._closed = False

    def fileno(self) -> int:
        return self._read

    def slow_at(self) -> float:
        """When the worker becomes slow (time.monotonic()); infinity if it already is, or if it waits for its Node."""
        return math.inf if self.is_slow or self.awaits_node else self.began + SLOW

    def slow(self, job: Job) -> tuple[Activity, float] | None:
        """The activity of a slow worker, and for how many seconds the worker has been running; None if it is not slow.

        job: the worker's job.
        """
        if not self.is_slow:
            return None
        activity = Activity.NODE if self.probed else Activity.PROBE
        return Activity.CHECK if job is Job.CHECK else activity, time.monotonic() - self.began

    def read_messages(self) -> bool:
        """Reads the messages since the last call. Returns whether the output has ended."""
        try:
            data = os.read(self._read, 65536)
        except BlockingIOError:
            return False
        self._closed = not data
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._take(line)
        return self._closed or len(self._buffer) > _MAX_LINE_BYTES

    def _take(self, line: bytes) -> None:
        try:
            message: Message = decode_variant(Message, parse(line))
        except Malformed:  # a library may print as well
            return
        if isinstance(message, Probed):
            if self.awaits_node:  # the Node exists now
                self.began = time.monotonic()
            self.probed, self.awaits_node = True, False
        elif isinstance(message, MetricsResult):
            self.metrics = message
        else:
            self.result = message
            self.awaits_node = isinstance(message, PassResult) and message.awaits_node > 0

    def kill(self) -> str:
        """Kills the worker, if it is still running, and all its descendants.

        Returns "was killed by" and the signal, if a signal had already ended the worker; otherwise "".
        """
        os.close(self._read)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        number = kill_children(time.monotonic() + 1.0).get(self.pid, 0) & 0x7F
        hint = " (out of memory?)" if number == signal.SIGKILL else ""
        return f"was killed by {signal.Signals(number).name}{hint}" if number and self._closed else ""
