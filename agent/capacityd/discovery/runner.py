"""Reads all resources, each in its own child process.

A detector that hangs in the kernel, dies, leaks memory or leaves children behind makes only its own resource unknown.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from functools import partial

from capacityd.discovery.child import MAX_BUSY, Child, start_child, wait_for_any
from capacityd.discovery.reader import read_resource
from capacityd.linux.mark import mark, mark_of
from capacityd.linux.subreaper import become_subreaper, has_ended, kill_children
from capacityd.linux.subreaper import children as children_of
from capacityd.model.errors import Cause
from capacityd.model.host import Host
from capacityd.model.reading import Reading, Unknown
from capacityd.schema.config import Config, Resource

_MAX_CHILDREN = 8  # running at the same time


def probe(config: Config, host: Host, node_name: str | None, *, explain: bool = False) -> dict[str, Reading]:
    """Reads every configured resource. Returns resource name -> reading, sorted by name.

    A resource with an error in its configuration is unknown.

    node_name: the Node's name, or None if it is unknown. explain: whether to add the uncounted devices and the
    explanation, for `probe --explain`.
    """
    readings: dict[str, Reading] = {
        name: Unknown(f"configuration: {why}", Cause.CONFIGURATION) for name, why in config.broken.items()
    }
    readings |= _hanging_resources(config.resources)
    busy_until = time.monotonic() + MAX_BUSY
    waiting = deque(resource for resource in config.resources if resource.name not in readings)
    running: dict[int, Child] = {}  # file descriptor of the pipe -> its child
    runs_programs = any(resource.detector == "exec" for resource in config.resources)
    if runs_programs:
        become_subreaper()  # so that kill_children() also kills processes that these programs leave behind
    try:
        while waiting or running:
            while waiting and len(running) < _MAX_CHILDREN:
                resource = waiting[0]
                read = partial(read_resource, resource, host, node_name, explain=explain)
                child_or_reading = start_child(resource, read, explain=explain, busy_until=busy_until)
                if isinstance(child_or_reading, Child):
                    running[child_or_reading.pipe] = child_or_reading
                elif running:
                    break  # the system lacks processes, memory or file descriptors: retry when a child has ended
                else:
                    readings[resource.name] = child_or_reading
                waiting.popleft()
            for child in wait_for_any(running):
                del running[child.pipe]
                readings[child.resource.name] = child.finish()
    finally:
        for child in running.values():
            child.kill()
        if runs_programs:
            kill_children(deadline=time.monotonic() + 1)  # gives up after a second
    return {name: readings[name] for name in sorted(readings)}


def _hanging_resources(resources: Iterable[Resource]) -> dict[str, Unknown]:
    """The readings of resources whose child process of an earlier reconcile pass could not be killed.

    The worker of that pass has ended, so the process is now a child of the service, and a sibling of this worker. A new
    process for the resource would also hang, and after many passes, hanging processes would fill the memory.
    """
    siblings = [pid for pid in children_of(os.getppid()) if not has_ended(pid)]
    pid_by_mark = {mark_of(pid): pid for pid in siblings}  # the mark of a process shows which resource it reads
    readings = {}
    for resource in resources:
        pid = pid_by_mark.get(mark(resource.name))
        if pid is not None:
            why = f"the detector {resource.detector} of an earlier pass hangs in the kernel (process {pid})"
            readings[resource.name] = Unknown(why, Cause.HANGING)
    return readings
