"""A model of what surrounds a machine: time, the kubelet, device plugins, and commands by hand.

Time is a number here. What is to happen later is on an agenda, and happens when time has moved that far.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

from capacityd.model.config import Config, Resource, Settings
from capacityd.model.node import NodeState
from capacityd.model.plan import Plan
from capacityd.model.reasons import PassReason
from capacityd.node.documents.json_patch import patched
from capacityd.node.documents.node import node_state
from capacityd.reconcile import machine_record
from tests.support.model_machine import Machine

SYNC = 10.0  # seconds until the kubelet has written what a device plugin reports, and capacity to allocatable
REPORT = 300.0  # seconds between two heartbeats of the Ready condition


class World:
    """A machine and its surroundings. hear: sends the service an event."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.server = machine, machine.server
        self.server.loses_events = True
        self.hear: Callable[[set[PassReason]], None] = lambda reasons: None
        self.unhealthy: frozenset[str] = frozenset()
        """The names of which the kubelet makes nothing allocatable."""
        self.plugins: dict[str, int] = {}
        self._starts = 0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0

    # Time

    @property
    def uptime(self) -> float:
        return self.machine.uptime

    def later(self, seconds: float, happens: Callable[[], None]) -> None:
        """Puts something on the agenda."""
        self._entries += 1
        heapq.heappush(self._agenda, (self.uptime + seconds, self._entries, happens))

    def next(self) -> float:
        """The uptime of what comes next on the agenda."""
        return self._agenda[0][0] if self._agenda else float("inf")

    def move(self, uptime: float) -> None:
        """Time passes, and with it the agenda."""
        while self.next() <= uptime:
            at, _, happens = heapq.heappop(self._agenda)
            self.machine.uptime = max(self.uptime, at)
            happens()
        self.machine.uptime = max(self.uptime, uptime)

    def reboot(self) -> None:
        """The machine starts again; what the kubelet and plugins wanted to do is over, and /run is empty."""
        self._agenda = []
        self.machine.booted += self.uptime + 30.0
        self.machine.uptime = 10.0
        self.machine.lose_state()

    # Other writers of the Node

    def write_allocatable(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key of allocatable, until the kubelet's next report of its Node."""
        self.server.write_allocatable(name, value)
        self.later(SYNC, self.sync)

    def carry_out(self, decide: Callable[[NodeState], Plan]) -> None:
        """A command by hand on this machine, with a plan of its own."""
        if self.server.document is not None:
            plan = decide(node_state(self.server.document))
            self.server.store(patched(self.server.document, plan.write.patch))
            machine_record.confirm(str(self.machine.state_folder), plan)

    # The kubelet and its device plugins

    def start_kubelet(self, zeroes: bool, delay: float) -> None:
        """It restarts: it creates its socket, and writes the Node some seconds later. zeroes: what it decided."""
        self._starts += 1
        start = self._starts
        self.move(self.uptime + 2.0)  # more than a second after its last heartbeat
        self.machine.kubelet_started_at = self.machine.now
        if delay:
            self.later(delay, lambda: self._register(start, zeroes))
        else:
            self._register(start, zeroes)
        self.hear({PassReason.KUBELET})

    def _register(self, start: int, zeroes: bool) -> None:
        if start != self._starts:
            return
        if self.server.document is None:
            self.server.register()
        elif zeroes:
            for name in [name for name in self.server.capacity if "/" in name]:
                self.server.capacity[name] = "0"
        self._report(start)

    def _report(self, start: int) -> None:
        """The kubelet's status, with the Ready condition's heartbeat; it goes on until the kubelet restarts."""
        if start != self._starts:
            return
        self.sync()
        if self.server.document is not None:
            ready = next(c for c in self.server.document["status"]["conditions"] if c["type"] == "Ready")
            ready["lastHeartbeatTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.machine.now))
        self.later(REPORT, lambda: self._report(start))

    def sync(self) -> None:
        """The kubelet writes what device plugins have reported, and copies capacity to allocatable."""
        for name, count in self.plugins.items():
            if name in self.machine.device_plugins:
                self.server.write(name, str(count))
        self.server.make_allocatable(self.unhealthy)

    def make_unhealthy(self, names: frozenset[str]) -> None:
        """From now on the kubelet makes nothing of these allocatable."""
        self.unhealthy = names
        self._report_unhealthy()

    def _report_unhealthy(self) -> None:
        self.sync()
        if self.unhealthy:
            self.later(SYNC, self._report_unhealthy)

    def register_anew(self) -> None:
        """The Node is deleted, and a kubelet that starts creates it again."""
        self.server.delete()
        self.start_kubelet(False, 0.0)

    def plugin_comes(self, name: str, count: int, synced: bool) -> None:
        """A device plugin registers: the checkpoint has it at once, the Node somewhat later. synced: at once, too."""
        self.plugins[name] = count
        self.machine.device_plugins.add(name)
        self.hear({PassReason.PLUGINS})
        self.later(SYNC, self.sync)
        if synced:  # the kubelet was about to write
            self.sync()

    def plugin_leaves(self, name: str) -> None:
        """Its key becomes 0; the checkpoint forgets it later."""
        if self.plugins.pop(name, None) is not None:
            self.server.write(name, "0")
            self.later(SYNC, lambda: self._forget(name))

    def _forget(self, name: str) -> None:
        if name not in self.plugins:
            self.machine.device_plugins.discard(name)
            self.hear({PassReason.PLUGINS})


def configuration(
    names: frozenset[str],
    adopt: frozenset[str],
    broken: frozenset[str],
    settings: Settings,
    *,
    complete: bool,
) -> Config:
    """A configuration of these names; of the broken ones only the names can be read."""
    return Config(
        resources=tuple(Resource(name, "static", (), adopt=name in adopt) for name in sorted(names - broken)),
        settings=settings,
        broken=dict.fromkeys(sorted(names & broken), "an error"),
        complete=complete,
    )
