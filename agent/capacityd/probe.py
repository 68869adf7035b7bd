"""Reads all resources, each in a forked child of its own with a deadline and a memory limit.

So a detector that hangs in the kernel, dies, leaks or leaves children behind costs its own resource its reading, which
is then unknown, and no other. Children hand their reading back through a pipe.
"""

from __future__ import annotations

import json
import math
import os
import resource as limits
import select
import signal
import time
from binascii import crc32
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from capacityd.detectors import load
from capacityd.host import Host
from capacityd.model import Absent, Config, Evidence, Quantity, Reading, Resource, Unknown, ValueDetector
from capacityd.printable import printable
from capacityd.reading import read_resource

DEADLINE = 10.0
"""Seconds that a detector may take; one with a timeout setting may take that and a little more."""

EARLY = 2.0
"""Seconds after which those that are read need not wait for the others."""

MEMORY = 512 * 1024 * 1024
"""Bytes of private memory (RLIMIT_DATA) for a detector and for each program that it starts. Not RLIMIT_AS: programs in
Go and Java reserve far more address space than they use."""

_AT_ONCE = 8
_MARGIN = 2.0


@dataclass(slots=True)
class _Child:
    resource: Resource
    pid: int
    pipe: int
    deadline: float
    allowed: float
    said: bytearray = field(default_factory=bytearray)


def probe(
    config: Config,
    host: Host,
    node_name: str,
    explain: bool = False,
    early: Callable[[dict[str, Reading], frozenset[str]], None] | None = None,
) -> dict[str, Reading]:
    """The reading of every configured resource by name; those that have a mistake in the configuration are unknown.

    early: if it takes long, is given once what is read by then, and the names of the others, which are unknown for now.
    """
    readings: dict[str, Reading] = {name: Unknown(f"configuration: {why}") for name, why in config.broken.items()}
    hanging = _hanging()
    readings |= {
        r.name: Unknown(f"the detector {r.detector} of an earlier look hangs in the kernel (process {process})")
        for r in config.resources
        if (process := hanging.get(_label(r)))
    }
    waiting = [r for r in reversed(config.resources) if r.name not in readings]
    running: dict[int, _Child] = {}
    early_at = time.monotonic() + EARLY if early is not None else math.inf
    spawns = any(_spawns(r) for r in config.resources)
    if spawns:
        from capacityd.orphans import adopt_orphans, end_children

        adopt_orphans()
    try:
        while waiting or running:
            _fill(running, waiting, readings, lambda resource: _start(resource, host, node_name, explain))
            for child in _wait(running, early_at):
                del running[child.pipe]
                readings[child.resource.name] = _end(child)
            if early is not None and time.monotonic() >= early_at:
                early_at = math.inf
                pending = {r.name: r.detector for r in (*waiting, *(child.resource for child in running.values()))}
                if pending:
                    for_now = {name: Unknown(f"the detector {d} has not ended yet") for name, d in pending.items()}
                    early(readings | for_now, frozenset(pending))
    finally:
        for child in running.values():
            _kill(child)
        if spawns:
            end_children(time.monotonic() + 1)
    return {name: readings[name] for name in sorted(readings)}


def allowed_seconds(resource: Resource) -> float:
    """How long the reading of a resource may take."""
    timeouts = [t for table in resource.tables if isinstance(t := table.settings.get("timeout"), float)]
    # Programs run one after another, and each gets a second to be ended with all that it started.
    return sum(t + 1 for t in timeouts) + _MARGIN if timeouts else DEADLINE


def _spawns(resource: Resource) -> bool:
    detector = load(resource.detector)
    return isinstance(detector, ValueDetector) and detector.spawns


def _fill(
    running: dict[int, _Child],
    waiting: list[Resource],
    readings: dict[str, Reading],
    start: Callable[[Resource], _Child | Unknown],
) -> None:
    """Starts as many as may run at once."""
    while waiting and len(running) < _AT_ONCE:
        started = start(waiting[-1])
        if isinstance(started, _Child):
            running[started.pipe] = started
        elif running:
            return  # it can be started, perhaps, when one of them has ended
        else:
            readings[waiting[-1].name] = started
        waiting.pop()


def _start(resource: Resource, host: Host, node_name: str, explain: bool) -> _Child | Unknown:
    """Unknown: there was no process, no memory or no file left for it."""
    allowed = allowed_seconds(resource)
    pipe: tuple[int, ...] = ()
    try:
        ours, theirs = pipe = os.pipe()
        pid = os.fork()
    except OSError as e:
        for fd in pipe:
            os.close(fd)
        return Unknown(f"the detector {resource.detector} could not be started: {os.strerror(e.errno or 0)}")
    if pid == 0:
        os.close(ours)
        _be_child(resource, host, node_name, explain, theirs)
    os.close(theirs)
    os.set_blocking(ours, False)
    return _Child(resource, pid, ours, time.monotonic() + allowed, allowed)


def _label(resource: Resource) -> str:
    """What the process that reads it is called, in the kernel's words too: 15 characters (proc_pid_comm(5))."""
    return f"capacityd{crc32(resource.name.encode()):08x}"[:15]


def _hanging() -> dict[str, str]:
    """Label -> process of what earlier looks of the service could not end, so that it is the service's child by now.

    Another one would hang as well, and look by look they would fill its memory.
    """
    found = {}
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as f:
            for pid in f.read().split():
                with open(f"/proc/{pid}/comm", "rb") as name:
                    found[name.read().strip().decode(errors="replace")] = pid
    except OSError:
        pass  # some kernels don't tell
    return found


def _be_child(resource: Resource, host: Host, node_name: str, explain: bool, pipe: int) -> None:
    """Never returns."""
    try:
        os.setpgid(0, 0)
        os.dup2(2, 1)  # the service waits for the end of its child's output, not for that of one that can't be ended
        with suppress(OSError), open("/proc/self/comm", "w") as f:
            f.write(_label(resource))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _, hard = limits.getrlimit(limits.RLIMIT_DATA)
        most = MEMORY if hard == limits.RLIM_INFINITY else min(MEMORY, hard)
        limits.setrlimit(limits.RLIMIT_DATA, (most, most))
        try:
            reading = read_resource(resource, host, node_name, explain)
        except MemoryError:
            reading = Unknown(f"the detector {resource.detector} needed more than {MEMORY >> 20} MiB of memory")
        except Exception as e:  # noqa: BLE001  # the one place: a defect in a detector must not take the other resources along
            reading = Unknown(f"the detector {resource.detector} failed: {type(e).__name__}: {printable(str(e))}")
        data = json.dumps(_packed(reading)).encode()
        while data:
            data = data[os.write(pipe, data) :]
    finally:
        os._exit(0)


def _wait(running: Mapping[int, _Child], until: float) -> list[_Child]:
    """Those that have closed their pipe, or whose time is up. until: when to stop waiting for any."""
    if not running:
        return []
    poll = select.poll()
    for pipe in running:
        poll.register(pipe, select.POLLIN)
    left = min(until, *(child.deadline for child in running.values())) - time.monotonic()
    ended = []
    for pipe, _ in poll.poll(max(0.0, left) * 1000 + 1):
        piece = os.read(pipe, 1 << 20)
        running[pipe].said += piece
        if not piece:
            ended.append(running[pipe])
    now = time.monotonic()
    return ended + [c for c in running.values() if c not in ended and c.deadline <= now]


def _end(child: _Child) -> Reading:
    late = child.deadline <= time.monotonic()
    status = _kill(child)
    if child.said:
        try:
            return _unpacked(json.loads(child.said))
        except (ValueError, TypeError):
            pass  # it died while it wrote
    name = child.resource.detector
    if late:
        return Unknown(f"the detector {name} did not end within {child.allowed:g} s")
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hint = ", out of memory?" if number == signal.SIGKILL else ""
        return Unknown(f"the detector {name} was killed by signal {number} ({signal.Signals(number).name}{hint})")
    return Unknown(f"the detector {name} ended without a reading")


def _kill(child: _Child) -> int | None:
    """Ends a child and all in its process group. One in an uninterruptible sleep is left to the kernel."""
    os.close(child.pipe)
    pidfd = os.pidfd_open(child.pid)
    try:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)  # it has not made its group yet, or it is over
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return os.waitpid(child.pid, 0)[1] if poll.poll(1000) else None
    finally:
        os.close(pidfd)


def _packed(reading: Reading) -> list[object]:
    """A reading as JSON can hold it."""
    more: list[object] = []
    if reading.explanation is not None or reading.rejections:
        from capacityd.explain import packed

        more = packed(reading)
    if isinstance(reading, Quantity):
        evidence = [(e.device, e.contributes, e.note) for e in reading.evidence]
        return ["quantity", reading.value, evidence, reading.warning, more]
    return ["absent" if isinstance(reading, Absent) else "unknown", reading.reason, more]


def _unpacked(packed: Any) -> Reading:
    outcome, said, *rest, more = packed
    if outcome == "quantity":
        found: Reading = Quantity(said, tuple(Evidence(*e) for e in rest[0]), warning=rest[1])
    else:
        found = Absent(said) if outcome == "absent" else Unknown(said)
    if not more:
        return found
    from capacityd.explain import unpacked

    return unpacked(found, more)
