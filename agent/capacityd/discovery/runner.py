"""Reads all resources, each in a forked child with a deadline and a memory limit.

So a detector that hangs in the kernel, dies, leaks or leaves children behind makes only its own resource unknown.
Children return their reading through a pipe.
"""

from __future__ import annotations

import os
import resource as limits
import select
import signal
import time
from binascii import crc32
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from capacityd.detectors import load
from capacityd.discovery.encoding import decode, encode
from capacityd.discovery.reader import read_resource
from capacityd.linux.clock import running_time
from capacityd.linux.subreaper import become_subreaper, children, kill_children
from capacityd.model.config import Config, Resource
from capacityd.model.device import ValueDetector
from capacityd.model.errors import Cause
from capacityd.model.host import Host
from capacityd.model.reading import Reading, Unknown
from capacityd.model.text import printable

DEADLINE = 10.0
"""Seconds that a detector may be blocked, unless it has a timeout setting. The time that it runs or waits for a
processor does not count: a machine may be busy and have 50,000 devices. One that hangs in the kernel does not run."""

MAX_RUNNING = 300.0
"""Seconds after the start of a pass until which the time that a detector runs does not count."""

MAX_CPU = 60
"""Seconds of processor time (RLIMIT_CPU) for such a detector: ten times what 50,000 devices take."""

MAX_MEMORY = 512 * 1024 * 1024
"""Bytes of private memory (RLIMIT_DATA) for a detector and for each program that it starts. Not RLIMIT_AS: programs in
Go and Java reserve far more address space than they use."""

_HINTS: dict[int, str] = {signal.SIGKILL: ", out of memory?", signal.SIGXCPU: ", too much processor time"}
_MAX_CHILDREN = 8  # that run at the same time
_TIMEOUT_MARGIN = 2.0  # seconds that a detector may take beyond the timeouts of its programs


@dataclass(frozen=True, slots=True)
class Discovery:
    """The readings of all configured resources, and how long they took."""

    readings: dict[str, Reading]
    """Resource -> its reading, sorted by name."""
    durations: dict[str, float]
    """Resource -> seconds from the start of its fork to its end. A resource that was not read has none."""


@dataclass(slots=True)
class _Child:
    resource: Resource
    pid: int
    pipe: int
    started: float
    """By time.monotonic(); so are deadline and latest."""
    allowed: float
    """Seconds that it may be blocked."""
    deadline: float
    """When it is killed, as far as is known. It moves with the time that it runs, but not beyond latest."""
    latest: float
    output: bytearray = field(default_factory=bytearray)

    def is_late(self) -> bool:
        """Whether it is to be killed now."""
        now = time.monotonic()
        if self.deadline <= now:
            self.deadline = min(self.started + self.allowed + running_time(self.pid), self.latest)
        return self.deadline <= now


def probe(config: Config, host: Host, node_name: str, explain: bool = False) -> dict[str, Reading]:
    """The readings that discover() returns."""
    return discover(config, host, node_name, explain).readings


def discover(config: Config, host: Host, node_name: str, explain: bool = False) -> Discovery:
    """Reads every configured resource; one that has an error in the configuration is unknown."""
    readings: dict[str, Reading] = {
        name: Unknown(f"configuration: {why}", Cause.CONFIGURATION) for name, why in config.broken.items()
    }
    hanging = _hanging()
    readings |= {
        r.name: Unknown(
            f"the detector {r.detector} of an earlier pass hangs in the kernel (process {process})", Cause.HANGING
        )
        for r in config.resources
        if (process := hanging.get(_label(r)))
    }
    waiting = [r for r in reversed(config.resources) if r.name not in readings]
    running: dict[int, _Child] = {}
    durations: dict[str, float] = {}
    running_until = time.monotonic() + MAX_RUNNING
    spawns = any(_spawns(r) for r in config.resources)
    if spawns:
        become_subreaper()
    try:
        while waiting or running:
            _fill(running, waiting, readings, lambda r: _start(r, host, node_name, explain, running_until))
            for child in _wait(running):
                del running[child.pipe]
                readings[child.resource.name] = _end(child)
                durations[child.resource.name] = time.monotonic() - child.started
    finally:
        for child in running.values():
            _kill(child)
        if spawns:
            kill_children(time.monotonic() + 1)
    return Discovery({name: readings[name] for name in sorted(readings)}, durations)


def allowed_seconds(resource: Resource) -> float:
    """How long the reading of a resource may be blocked or, if its detector has a timeout setting, take."""
    timeouts = _timeouts(resource)
    # Programs run one after another; killing each and its children may take another second.
    return sum(t + 1 for t in timeouts) + _TIMEOUT_MARGIN if timeouts else DEADLINE


def _timeouts(resource: Resource) -> list[float]:
    return [t for table in resource.tables if isinstance(t := table.settings.get("timeout"), float)]


def _spawns(resource: Resource) -> bool:
    detector = load(resource.detector)
    return isinstance(detector, ValueDetector) and detector.spawns


def _fill(
    running: dict[int, _Child],
    waiting: list[Resource],
    readings: dict[str, Reading],
    start: Callable[[Resource], _Child | Unknown],
) -> None:
    """Starts children up to _MAX_CHILDREN."""
    while waiting and len(running) < _MAX_CHILDREN:
        started = start(waiting[-1])
        if isinstance(started, _Child):
            running[started.pipe] = started
        elif running:
            return  # retry when one of them has ended
        else:
            readings[waiting[-1].name] = started
        waiting.pop()


def _start(resource: Resource, host: Host, node_name: str, explain: bool, running_until: float) -> _Child | Unknown:
    """Unknown: the system has no process, memory or file descriptor left for it.

    running_until: until when the time that it runs does not count.
    """
    pipe: tuple[int, ...] = ()
    try:
        ours, theirs = pipe = os.pipe()
        pid = os.fork()
    except OSError as e:
        for fd in pipe:
            os.close(fd)
        why = f"the detector {resource.detector} could not be started: {os.strerror(e.errno or 0)}"
        return Unknown(why, Cause.DETECTOR_FAILED)
    if pid == 0:
        os.close(ours)
        _be_child(resource, host, node_name, explain, theirs)
    os.close(theirs)
    os.set_blocking(ours, False)
    started, allowed = time.monotonic(), allowed_seconds(resource)
    deadline = started + allowed
    latest = deadline if _timeouts(resource) else max(deadline, running_until)
    return _Child(resource, pid, ours, started, allowed, deadline, latest)


def _label(resource: Resource) -> str:
    """The name of the child process: at most 15 characters (proc_pid_comm(5))."""
    return f"capacityd{crc32(resource.name.encode()):08x}"[:15]


def _hanging() -> dict[str, str]:
    """Label -> process id of children that earlier passes could not kill; the service is their parent now.

    Starting another one would hang as well, and after many passes they would fill the memory.
    """
    found = {}
    for process in children(os.getppid()):
        with suppress(OSError), open(f"/proc/{process}/comm", "rb") as name:
            found[name.read().strip().decode(errors="replace")] = str(process)
    return found


def _be_child(resource: Resource, host: Host, node_name: str, explain: bool, pipe: int) -> None:
    """Never returns."""
    try:
        os.setpgid(0, 0)
        # A child that can't be killed must not hold the output that the service waits for.
        os.dup2(2, 1)
        with suppress(OSError), open("/proc/self/comm", "w") as f:
            f.write(_label(resource))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _, hard = limits.getrlimit(limits.RLIMIT_DATA)
        most = MAX_MEMORY if hard == limits.RLIM_INFINITY else min(MAX_MEMORY, hard)
        limits.setrlimit(limits.RLIMIT_DATA, (most, most))
        if not _timeouts(resource):
            limits.setrlimit(limits.RLIMIT_CPU, (MAX_CPU, limits.getrlimit(limits.RLIMIT_CPU)[1]))
        try:
            reading = read_resource(resource, host, node_name, explain)
        except MemoryError:
            why = f"the detector {resource.detector} needed more than {MAX_MEMORY >> 20} MiB of memory"
            reading = Unknown(why, Cause.KILLED)
        except Exception as e:  # noqa: BLE001  # a defect in a detector must not fail the other resources
            why = f"the detector {resource.detector} failed: {type(e).__name__}: {printable(str(e))}"
            reading = Unknown(why, Cause.DETECTOR_FAILED)
        data = encode(reading)
        while data:
            data = data[os.write(pipe, data) :]
    finally:
        os._exit(0)


def _wait(running: Mapping[int, _Child]) -> list[_Child]:
    """Waits for children that have closed their pipe or reached their deadline, and returns them."""
    if not running:
        return []
    poll = select.poll()
    for pipe in running:
        poll.register(pipe, select.POLLIN)
    left = min(child.deadline for child in running.values()) - time.monotonic()
    ended = []
    for pipe, _ in poll.poll(max(0.0, left) * 1000 + 1):
        piece = os.read(pipe, 1 << 20)
        running[pipe].output += piece
        if not piece:
            ended.append(running[pipe])
    return ended + [c for c in running.values() if c not in ended and c.is_late()]


def _end(child: _Child) -> Reading:
    late = child.deadline <= time.monotonic()
    status = _kill(child)
    if child.output:
        try:
            return decode(child.output)
        except (ValueError, TypeError):
            pass  # it was killed while it wrote
    name = child.resource.detector
    if late:
        seconds = child.allowed if child.deadline < child.latest else child.latest - child.started
        return Unknown(f"the detector {name} did not end within {round(seconds, 1):g} s", Cause.TIMEOUT)
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hint = _HINTS.get(number, "")
        why = f"the detector {name} was killed by signal {number} ({signal.Signals(number).name}{hint})"
        return Unknown(why, Cause.KILLED)
    return Unknown(f"the detector {name} ended without a reading", Cause.DETECTOR_FAILED)


def _kill(child: _Child) -> int | None:
    """Kills a child and its process group. None: it is in an uninterruptible sleep and did not exit within a second."""
    os.close(child.pipe)
    pidfd = os.pidfd_open(child.pid)
    try:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)  # it has not created its group yet, or has exited
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return os.waitpid(child.pid, 0)[1] if poll.poll(1000) else None
    finally:
        os.close(pidfd)
