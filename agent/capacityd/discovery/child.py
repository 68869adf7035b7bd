"""A forked child process that reads the machine for one resource, with limits of time and memory.

The child writes its result to a pipe: a reading or, for the command `devices`, a list of devices.
"""

from __future__ import annotations

import json
import os
import resource as limits
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from capacityd.linux.clock import busy_time
from capacityd.linux.mark import mark_this_process
from capacityd.model.codec import Malformed, decode_variant, encode_variant, parse
from capacityd.model.errors import Cause
from capacityd.model.quoting import explain_hint
from capacityd.model.reading import Explanation, Reading, Unknown
from capacityd.model.text import printable
from capacityd.schema.config import Resource

MAX_BLOCKED = 10.0
"""Seconds for which a detector without a timeout setting may be blocked, for example if a call hangs in the kernel.
Busy time, in which the detector runs or waits for a processor, does not count: it may have to read 50,000 devices."""

MAX_BUSY = 120.0
"""Seconds after which a detector is killed even if it is busy, from the time when the first of all detectors starts.
Without load, a detector reads 50,000 devices in six seconds."""

MAX_MEMORY = 512 * 1024 * 1024
"""Limit of private memory in bytes (RLIMIT_DATA), for a detector and for each program that it starts. RLIMIT_AS would
be wrong: programs in Go and Java reserve far more address space than they use."""

_MAX_READ_BYTES = 1 << 20  # in one call
_TIMEOUT_MARGIN = 2.0  # seconds that a detector may need in addition to the timeouts of its programs


@dataclass(slots=True)
class Child:
    """A child that is running, or that has closed its pipe, so that finish() must be called."""

    resource: Resource
    pid: int
    pipe: int
    """The file descriptor from which the result is read."""
    started_at: float
    """When the child was started, by time.monotonic()."""
    busy_until: float
    """When to kill the child even if it was busy all the time, by time.monotonic()."""
    busy_seconds: float = 0.0
    """How long the child was busy before the last call of count_busy_time()."""
    output: bytearray = field(default_factory=bytearray)
    """What the child has written so far: its result in JSON."""

    @property
    def kill_at(self) -> float:
        """When to kill the child, by time.monotonic(). Busy time postpones it, at most to busy_until."""
        earliest = self.started_at + max_blocked_of(self.resource)
        postponed = min(earliest + self.busy_seconds, self.busy_until)
        return max(earliest, postponed)  # timeout settings may end after busy_until

    def is_late(self) -> bool:
        """Whether to kill the child now."""
        return self.kill_at <= time.monotonic()

    def count_busy_time(self) -> None:
        """Postpones kill_at by the time for which the child was busy."""
        self.busy_seconds = busy_time(self.pid)

    def finish(self, result_type: Any = Reading) -> Any:
        """Kills the child if it is still running. Returns its result, or Unknown if there is none.

        result_type: the class of the result, or a union of classes.
        """
        was_late = self.is_late()  # before kill(), which takes time
        status = self.kill()
        if self.output:
            try:
                return decode_variant(result_type, parse(self.output))
            except Malformed:
                pass  # the child was killed while it wrote
        name = self.resource.detector
        if was_late:
            was_busy = self.kill_at == self.busy_until  # busy time has postponed kill_at as far as possible
            limit = MAX_BUSY if was_busy else max_blocked_of(self.resource)
            seconds = sum(_timeouts(self.resource)) or limit  # the configured timeouts, if there are any
            return Unknown(f"the detector {name} did not end within {round(seconds, 1):g} s", Cause.TIMEOUT)
        if status is not None and os.WIFSIGNALED(status):
            killed_by = signal.Signals(os.WTERMSIG(status))
            hint = ", out of memory?" if killed_by == signal.SIGKILL else ""
            why = f"the detector {name} was killed by signal {killed_by:d} ({killed_by.name}{hint})"
            return Unknown(why, Cause.KILLED)
        return Unknown(f"the detector {name} ended without a reading", Cause.DETECTOR_FAILED)

    def kill(self) -> int | None:
        """Kills the child and its process group, closes the pipe, and returns the wait status.

        None: the child is in an uninterruptible sleep and did not exit within a second.
        """
        os.close(self.pipe)
        pidfd = os.pidfd_open(self.pid)
        try:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)  # the child has no group yet, or has exited
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            has_exited = poll.poll(1000)  # milliseconds
            if not has_exited:
                return None
            _, status = os.waitpid(self.pid, 0)
            return status
        finally:
            os.close(pidfd)


def max_blocked_of(resource: Resource) -> float:
    """Seconds for which a resource's child may be blocked or, if the detector has a timeout setting, may run."""
    timeouts = _timeouts(resource)
    if not timeouts:
        return MAX_BLOCKED
    # Programs run one after another. Killing each program and its children may take another second.
    return sum(timeout + 1 for timeout in timeouts) + _TIMEOUT_MARGIN


def _timeouts(resource: Resource) -> list[float]:
    """The timeout of each of the resource's programs, in seconds; empty if the detector has no timeout setting."""
    settings = [table.settings.get("timeout") for table in resource.tables]
    return [timeout for timeout in settings if isinstance(timeout, float)]


def start_child(resource: Resource, read: Callable[[], object], *, explain: bool, busy_until: float) -> Child | Unknown:
    """Forks a child that reads a resource. Returns Unknown if the system lacks processes, memory or file descriptors.

    read: reads the resource in the child. explain: whether the result may quote what was read. busy_until: when to kill
    a child that is still busy, by time.monotonic().
    """
    pipe: tuple[int, ...] = ()
    try:
        pipe = os.pipe()
        pid = os.fork()
    except OSError as e:
        for fd in pipe:
            os.close(fd)
        why = f"the detector {resource.detector} could not be started: {os.strerror(e.errno or 0)}"
        return Unknown(why, Cause.DETECTOR_FAILED)
    read_end, write_end = pipe
    if pid == 0:
        os.close(read_end)
        _run_child(read, resource, write_end, explain=explain)  # does not return
    os.close(write_end)
    os.set_blocking(read_end, False)
    return Child(resource, pid, pipe=read_end, started_at=time.monotonic(), busy_until=busy_until)


def _run_child(read: Callable[[], object], resource: Resource, pipe: int, *, explain: bool) -> NoReturn:
    """Reads the resource, writes the result to the pipe, and ends this process."""
    try:
        os.setpgid(0, 0)  # a new group, which kill() kills with all programs that the child has started
        # Standard error replaces the worker's standard output. The service reads the worker's output until every
        # process has closed it, so a child that can't be killed must not keep it open.
        os.dup2(2, 1)
        mark_this_process(resource.name)  # shows a later worker which resource a hanging process reads
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _limit_memory()
        try:
            result = read()
        except MemoryError:
            why = f"the detector {resource.detector} needed more than {MAX_MEMORY >> 20} MiB of memory"
            result = Unknown(why, Cause.KILLED)
        except Exception as e:  # noqa: BLE001  # a defect in a detector must not fail the other resources
            why = f"the detector {resource.detector} failed: {type(e).__name__}"
            message = printable(str(e))
            if explain:
                result = Unknown(why, Cause.DETECTOR_FAILED, explanation=Explanation(message))
            else:
                result = Unknown(f"{why}{explain_hint(message)}", Cause.DETECTOR_FAILED)
        data = json.dumps(encode_variant(result)).encode()
        while data:
            written = os.write(pipe, data)
            data = data[written:]
    finally:
        os._exit(0)


def _limit_memory() -> None:
    """Limits this process's memory to MAX_MEMORY, or keeps a lower hard limit."""
    _, hard_limit = limits.getrlimit(limits.RLIMIT_DATA)
    max_memory = MAX_MEMORY if hard_limit == limits.RLIM_INFINITY else min(MAX_MEMORY, hard_limit)
    limits.setrlimit(limits.RLIMIT_DATA, (max_memory, max_memory))


def wait_for_any(running: Mapping[int, Child]) -> list[Child]:
    """Waits until a child writes, closes its pipe or may be late. Collects the output of all children.

    Returns the children that have closed their pipes or are late, for the caller to finish.

    running: file descriptor of a child's pipe -> child.
    """
    if not running:
        return []
    poll = select.poll()
    for pipe in running:
        poll.register(pipe, select.POLLIN)
    first_kill_at = min(child.kill_at for child in running.values())
    seconds = max(0.0, first_kill_at - time.monotonic())
    milliseconds = seconds * 1000 + 1  # 1 more, so that first_kill_at has passed afterwards
    to_finish = []
    for pipe, _ in poll.poll(milliseconds):
        child = running[pipe]
        part = os.read(pipe, _MAX_READ_BYTES)
        child.output += part
        if not part:  # the child has closed its pipe
            to_finish.append(child)
    for child in running.values():
        if child.is_late():
            child.count_busy_time()  # afterwards, the child may no longer be late
        if child.is_late() and child not in to_finish:
            to_finish.append(child)
    return to_finish
