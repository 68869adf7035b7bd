"""Reads all resources, each in its own child process.

So if a detector hangs in the kernel, dies, leaks memory or leaves children behind, only its own resource is unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from capacityd.detectors import load
from capacityd.discovery.child import MAX_RUNNING, Child, label, start_child, wait_for_any
from capacityd.linux.subreaper import become_subreaper, children, kill_children
from capacityd.model.config import Config, Resource
from capacityd.model.device import ValueDetector
from capacityd.model.errors import Cause
from capacityd.model.host import Host
from capacityd.model.reading import Reading, Unknown

_MAX_CHILDREN = 8  # running at the same time


@dataclass(frozen=True, slots=True)
class Discovery:
    """The readings of all configured resources, and their durations."""

    readings: dict[str, Reading]
    """Resource -> its reading, sorted by name."""
    durations: dict[str, float]
    """Resource -> seconds from the start to the end of its fork. Resources that were not read are missing."""


@dataclass(slots=True)
class _Pool:
    """The children of a discovery."""

    waiting: list[Resource]
    """Resources without a child so far; the last one is the next."""
    start: Callable[[Resource], Child | Unknown]
    running: dict[int, Child] = field(default_factory=dict)
    """File descriptor of the pipe -> its child."""
    readings: dict[str, Reading] = field(default_factory=dict)
    durations: dict[str, float] = field(default_factory=dict)
    """As in Discovery; so are readings."""

    def start_waiting(self) -> None:
        """Starts children up to _MAX_CHILDREN."""
        while self.waiting and len(self.running) < _MAX_CHILDREN:
            started = self.start(self.waiting[-1])
            if isinstance(started, Child):
                self.running[started.pipe] = started
            elif self.running:
                return  # retry when a child has ended
            else:
                self.readings[self.waiting[-1].name] = started
            self.waiting.pop()

    def finish_ended(self) -> None:
        """Waits until a child ends or is late. Collects the readings of all such children."""
        for child in wait_for_any(self.running):
            del self.running[child.pipe]
            self.readings[child.resource.name] = child.finish()
            self.durations[child.resource.name] = time.monotonic() - child.started


def probe(config: Config, host: Host, node_name: str, *, explain: bool = False) -> dict[str, Reading]:
    """The readings that discover() returns."""
    return discover(config, host, node_name, explain=explain).readings


def discover(config: Config, host: Host, node_name: str, *, explain: bool = False) -> Discovery:
    """Reads every configured resource. A resource with an error in the configuration is unknown.

    explain: whether to add the uncounted devices and the explanation.
    """
    readings: dict[str, Reading] = {
        name: Unknown(f"configuration: {why}", Cause.CONFIGURATION) for name, why in config.broken.items()
    }
    hanging = _hanging()
    readings |= {
        r.name: Unknown(
            f"the detector {r.detector} of an earlier pass hangs in the kernel (process {process})", Cause.HANGING
        )
        for r in config.resources
        if (process := hanging.get(label(r)))
    }
    start = partial(
        start_child, host=host, node_name=node_name, explain=explain, running_until=time.monotonic() + MAX_RUNNING
    )
    pool = _Pool([r for r in reversed(config.resources) if r.name not in readings], start)
    spawns = any(_spawns(r) for r in config.resources)
    if spawns:
        become_subreaper()
    try:
        while pool.waiting or pool.running:
            pool.start_waiting()
            pool.finish_ended()
    finally:
        for child in pool.running.values():
            child.kill()
        if spawns:
            kill_children(time.monotonic() + 1)
    readings |= pool.readings
    return Discovery({name: readings[name] for name in sorted(readings)}, pool.durations)


def _spawns(resource: Resource) -> bool:
    detector = load(resource.detector)
    return isinstance(detector, ValueDetector) and detector.spawns


def _hanging() -> dict[str, str]:
    """Label -> process id of children that earlier passes could not kill. Their parent is now the service.

    Another child for the same resource would also hang, and after many passes such children would fill the memory.
    """
    hanging = {}
    for process in children(os.getppid()):
        with suppress(OSError), open(f"/proc/{process}/comm", "rb") as name:
            hanging[name.read().strip().decode(errors="replace")] = str(process)
    return hanging
