"""Reads all resources, each in a child of its own.

So a detector that hangs in the kernel, dies, leaks or leaves children behind makes only its own resource unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from capacityd.detectors import load
from capacityd.discovery.child import MAX_RUNNING, Child, label, start_child, wait_for_any
from capacityd.linux.subreaper import become_subreaper, children, kill_children
from capacityd.model.config import Config, Resource
from capacityd.model.device import ValueDetector
from capacityd.model.errors import Cause
from capacityd.model.host import Host
from capacityd.model.reading import Reading, Unknown

_MAX_CHILDREN = 8  # that run at the same time


@dataclass(frozen=True, slots=True)
class Discovery:
    """The readings of all configured resources, and how long they took."""

    readings: dict[str, Reading]
    """Resource -> its reading, sorted by name."""
    durations: dict[str, float]
    """Resource -> seconds from the start of its fork to its end. A resource that was not read has none."""


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
        if (process := hanging.get(label(r)))
    }
    waiting = [r for r in reversed(config.resources) if r.name not in readings]
    running: dict[int, Child] = {}
    durations: dict[str, float] = {}
    running_until = time.monotonic() + MAX_RUNNING
    spawns = any(_spawns(r) for r in config.resources)
    if spawns:
        become_subreaper()
    try:
        while waiting or running:
            _fill(running, waiting, readings, lambda r: start_child(r, host, node_name, explain, running_until))
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


def _spawns(resource: Resource) -> bool:
    detector = load(resource.detector)
    return isinstance(detector, ValueDetector) and detector.spawns


def _fill(
    running: dict[int, Child],
    waiting: list[Resource],
    readings: dict[str, Reading],
    start: Callable[[Resource], Child | Unknown],
) -> None:
    """Starts children up to _MAX_CHILDREN."""
    while waiting and len(running) < _MAX_CHILDREN:
        started = start(waiting[-1])
        if isinstance(started, Child):
            running[started.pipe] = started
        elif running:
            return  # retry when one of them has ended
        else:
            readings[waiting[-1].name] = started
        waiting.pop()


def _hanging() -> dict[str, str]:
    """Label -> process id of children that earlier passes could not kill; the service is their parent now.

    Starting another one would hang as well, and after many passes they would fill the memory.
    """
    found = {}
    for process in children(os.getppid()):
        with suppress(OSError), open(f"/proc/{process}/comm", "rb") as name:
            found[name.read().strip().decode(errors="replace")] = str(process)
    return found
