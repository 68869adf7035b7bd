"""What the service uses of the machine: clocks, child processes and events. Tests replace it with a model."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from capacityd.linux.subreaper import kill_children
from capacityd.service.child_process import ChildProcess
from capacityd.service.event_sources import EventSources, Signals
from capacityd.service.schedule import uniform


def _wait(poll: select.poll, seconds: float) -> set[int]:
    milliseconds = seconds * 1000 + 1  # 1 ms more, so that the wait is never too short
    return {fd for fd, _events in poll.poll(milliseconds)}


@dataclass(frozen=True, slots=True)
class System:
    """The functions that the service calls. The default values are those for the real machine."""

    monotonic: Callable[[], float] = time.monotonic
    """The time in seconds, without the time that the machine was suspended."""
    uniform: Callable[[float, float], float] = uniform
    """A random number between two numbers, for jitter."""
    wait: Callable[[select.poll, float], set[int]] = _wait
    """Waits for at most this number of seconds. Returns the file descriptors that can be read."""
    start_child: Callable[[list[str]], ChildProcess] = ChildProcess
    """Starts a worker or the watcher."""
    kill_children: Callable[[float, Collection[int]], dict[int, int]] = kill_children
    """Takes a deadline, and the PIDs of the children to spare. Returns PID -> status from wait(2)."""
    open_sources: Callable[[Callable[[Collection[str]], None]], EventSources] = EventSources
    """Takes the function that logs the errors of sources that could not be opened."""
    open_signals: Callable[[], Signals] = Signals


REAL_SYSTEM = System()
