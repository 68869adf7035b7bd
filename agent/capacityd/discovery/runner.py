"""Reads all resources, each in its own child process.

So if a detector hangs in the kernel, dies, leaks memory or leaves children behind, only its own resource is unknown.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from capacityd.detectors import load
from capacityd.discovery.child import MAX_RUNNING, Child, label, start_child, wait_for_any
from capacityd.discovery.reader import read_resource
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
    running_until = time.monotonic() + MAX_RUNNING

    def start(resource: Resource) -> Child | Unknown:
        read = partial(read_resource, resource, host, node_name, explain=explain)
        return start_child(resource, read, private=explain, running_until=running_until)

    waiting = [r for r in reversed(config.resources) if r.name not in readings]
    running: dict[int, Child] = {}  # file descriptor of the pipe -> its child
    durations: dict[str, float] = {}
    detectors = [load(r.detector) for r in config.resources]
    spawns = any(isinstance(d, ValueDetector) and d.spawns for d in detectors)
    if spawns:
        become_subreaper()
    try:
        while waiting or running:
            while waiting and len(running) < _MAX_CHILDREN:
                started = start(waiting[-1])
                if isinstance(started, Child):
                    running[started.pipe] = started
                elif running:
                    break  # retry when a child has ended
                else:
                    readings[waiting[-1].name] = started
                waiting.pop()
            for child in wait_for_any(running):
                del running[child.pipe]
                readings[child.resource.name] = child.finish()
                durations[child.resource.name] = time.monotonic() - child.started
    finally:
        for child in running.values():
            child.kill()
        if spawns:
            kill_children(time.monotonic() + 1)
    return Discovery({name: readings[name] for name in sorted(readings)}, durations)


def _hanging() -> dict[str, str]:
    """Label -> process id of children that earlier passes could not kill. Their parent is now the service.

    Another child for the same resource would also hang, and after many passes such children would fill the memory.
    """
    hanging = {}
    for process in children(os.getppid()):
        with suppress(OSError), open(f"/proc/{process}/comm", "rb") as name:
            hanging[name.read().strip().decode(errors="replace")] = str(process)
    return hanging
