"""Reads all resources, each in its own child process.

So if a detector hangs in the kernel, dies, leaks memory or leaves children behind, only its own resource is unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from capacityd.detectors import load
from capacityd.discovery.child import MAX_RUNNING, Child, label, start_child, wait_for_any
from capacityd.discovery.reader import read_resource
from capacityd.linux.subreaper import become_subreaper, kill_children
from capacityd.linux.subreaper import children as children_of
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
    readings |= _hanging(config.resources)
    uncounted_until = time.monotonic() + MAX_RUNNING

    def start(resource: Resource) -> Child | Unknown:
        read = partial(read_resource, resource, host, node_name, explain=explain)
        return start_child(resource, read, private=explain, uncounted_until=uncounted_until)

    waiting = [resource for resource in reversed(config.resources) if resource.name not in readings]  # the next is last
    running: dict[int, Child] = {}  # file descriptor of the pipe -> its child
    durations: dict[str, float] = {}
    detectors = [load(resource.detector) for resource in config.resources]
    spawns = any(isinstance(detector, ValueDetector) and detector.spawns for detector in detectors)
    if spawns:
        become_subreaper()  # so that finally can kill what a detector's programs have left behind
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


def _hanging(resources: Iterable[Resource]) -> dict[str, Unknown]:
    """The readings of resources whose children of earlier passes could not be killed. Their parent is now the service.

    Another child for the same resource would also hang, and after many passes such children would fill the memory.
    """
    processes = {}
    for process in children_of(os.getppid()):
        with suppress(OSError), open(f"/proc/{process}/comm", "rb") as file:
            name = file.read().strip().decode(errors="replace")
            processes[name] = process
    readings = {}
    for resource in resources:
        if process := processes.get(label(resource), 0):
            why = f"the detector {resource.detector} of an earlier pass hangs in the kernel (process {process})"
            readings[resource.name] = Unknown(why, Cause.HANGING)
    return readings
