"""A simulated world: a machine with the real service, and its time, kubelet, device plugins and API server.

The world tells a judge (tests/support/judge) all that happens.
"""

from __future__ import annotations

import copy
import heapq
import math
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capacityd.model.reading import Reading, Unknown, without_details
from capacityd.model.reasons import PassReason
from capacityd.schema.config import Config
from tests.support.judge.judge import Judge
from tests.support.judge.surroundings import Trouble, Writer
from tests.support.model.children import ModelWatcher
from tests.support.model.machine import Machine, configuration, for_judge
from tests.support.model.server import OURS, SECRET, ModelServer
from tests.support.model.service import ModelService

SYNC = 10.0
"""Seconds until the kubelet writes the counts of device plugins, and copies capacity to allocatable."""
REPORT = 300.0
"""Seconds between two heartbeats of the Ready condition."""


class World:
    """A machine, its service, and their surroundings. registered: whether the Node exists at first."""

    def __init__(self, folder: Path, seed: int = 1, *, registered: bool = True, judge: Judge | None = None) -> None:
        self.judge = judge or Judge(secrets=[SECRET])
        first = configuration(labelled=frozenset(OURS[:1]))
        self.machine = Machine(folder, first)
        self.server = ModelServer()
        self.unheard: dict[str, float] = {}
        """Readings that have changed without an event. Value: until when the service need not notice the change."""
        self.unhealthy: dict[str, str] = {}
        """The numbers that the kubelet writes into allocatable in place of the capacity, by resource."""
        self.plugins: dict[str, int] = {}
        """The number of devices that a device plugin reports, by resource."""
        self.others: list[ModelService] = []
        """Services on other machines that write the same Node."""
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        """A heap of actions: when each happens on the judge's clock, its number, and the action."""
        self._actions = self._kubelet_starts = self._others_started = 0  # how many there were so far
        self._patches = 0  # how many PATCHes the pass has sent
        self._shown = ""  # the text of state.json that the judge has seen last
        self._is_restoring = False  # whether restore() is changing the Node
        self._plugins: frozenset[str] | None = frozenset()  # the kubelet's list that the judge was told last
        self.server.listeners.append(self._node_changes)
        self.server.on_patch = self._on_patch
        self.server.on_answer = self._on_answer
        self.judge.machine_boots(self.machine.steady - self.machine.uptime)
        self.judge.configuration_becomes(self.machine.steady, for_judge(self.machine.config))
        if registered:
            self.start_kubelet()
        self.service = ModelService(self, self.machine, seed)
        self.tell_judge()

    # Time

    @property
    def uptime(self) -> float:
        return self.machine.uptime

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Makes an action happen after some seconds."""
        self._actions += 1
        heapq.heappush(self._agenda, (self.machine.steady + seconds, self._actions, action))

    def run(self, seconds: float) -> None:
        """Lets time pass, with all that happens meanwhile."""
        end = self.machine.steady + seconds
        while True:
            for service in (self.service, *self.others):
                service.attend()
            due = [self.machine.steady + service.due_in() for service in (self.service, *self.others)]
            next_at = min([*due, self._next_on_agenda()])
            self._move(min(next_at, end))
            if self._next_on_agenda() <= min(next_at, end):
                _, _, action = heapq.heappop(self._agenda)
                action()
                self.tell_judge()
            elif next_at > end:
                return

    def _next_on_agenda(self) -> float:
        """When the next action of the agenda happens, on the judge's clock. Infinity: there is no action."""
        return self._agenda[0][0] if self._agenda else math.inf

    def _move(self, steady: float) -> None:
        self.machine.uptime = max(self.machine.uptime, steady - self.machine.steady_at_boot)
        for other in self.others:
            other.machine.uptime = self.machine.uptime
        self.tell_judge()

    def pass_time_at_once(self, seconds: float) -> None:
        """Lets time pass in which no service acts."""
        end = self.machine.steady + seconds
        while self._next_on_agenda() <= end:
            at, _, action = heapq.heappop(self._agenda)
            self._move(at)
            action()
        self._move(end)

    # What the judge is told

    def tell_judge(self) -> None:
        """Tells the judge what has changed on the machine, and which troubles have begun or ended."""
        steady = self.machine.steady
        if self._plugins != self.machine.plugins:
            self._plugins = self.machine.plugins
            self.judge.plugins_become(steady, self._plugins)
        known, troubles = self.judge.memory.troubles, self._troubles()
        for trouble, entries in troubles.items():
            if trouble not in known or known[trouble].entries != entries:
                self.judge.trouble_begins(steady, trouble, entries)
        for trouble in known.keys() - troubles.keys():
            self.judge.trouble_ends(steady, trouble)
        readings = {name: without_details(reading) for name, reading in self.machine.probe().items()}
        if readings == self.judge.memory.readings:
            self.judge.time_passes(steady)
        else:
            self.judge.readings_become(steady, readings)

    def _troubles(self) -> dict[Trouble, frozenset[str]]:
        """The present troubles, and the entries that each concerns. No entries: the trouble concerns everything."""
        server, machine, service = self.server, self.machine, getattr(self, "service", None)  # None during __init__()
        watcher = service.watcher if service else None
        has_server_errors = any(denies.code >= 500 for denies in server.denies)
        is_out_of_reach = bool(server.fault or server.lost.total() or has_server_errors)
        of_everything = {
            Trouble.API: is_out_of_reach or server.document is None or machine.kill_at is not None,
            Trouble.ALTERED: any(alters.is_about_itself for alters in server.alters),
            Trouble.DEAD_WATCH: watcher is not None and watcher.hangs,
            Trouble.OTHER_CAPACITYD: bool(self.others),
            Trouble.PLUGINS: not machine.plugins_readable,
            Trouble.STOPPED: service is None or not service.has_passed,
            Trouble.WATCH: service is None or not service.is_watching,
        }
        of_some_entries = {
            Trouble.DENIED: {
                *(denies.name for denies in server.denies),
                *(alters.key for alters in server.alters if not alters.is_about_itself),
            },
            Trouble.SOURCES: {name for name, until in self.unheard.items() if machine.uptime <= until},
            Trouble.UNHEALTHY: {*self.unhealthy},
            Trouble.UNREADABLE: {name for name, reading in machine.probe().items() if isinstance(reading, Unknown)},
        }
        found = {trouble: frozenset[str]() for trouble, is_there in of_everything.items() if is_there}
        return found | {trouble: frozenset(entries) for trouble, entries in of_some_entries.items() if entries}

    def _node_changes(self, by: Writer) -> None:
        node = copy.deepcopy(self.server.document)
        if self._is_restoring:
            self.judge.cluster_is_restored(self.machine.steady, node)
        else:
            self.judge.node_becomes(self.machine.steady, node, by)

    def _on_patch(self, before: dict[str, Any], after: dict[str, Any], has_condition: bool) -> None:
        if self.server.requester is Writer.CAPACITYD:
            is_part = self._patches > 1 and not has_condition
            self.judge.pass_patches(self.machine.steady, before, copy.deepcopy(after), is_part)

    def _on_answer(self, document: dict[str, Any] | None) -> None:
        if self.server.requester is Writer.CAPACITYD:
            self.judge.pass_sees(self.machine.steady, copy.deepcopy(document))

    def pass_begins(self, service: ModelService) -> None:
        """A pass begins."""
        if service is self.service:
            self._patches = 0

    def pass_reads(self, service: ModelService, readings: dict[str, Reading]) -> None:
        """A pass reads the machine."""
        if service is self.service:
            self.tell_judge()
            self.judge.pass_reads(self.machine.steady, readings)
            self.unheard.clear()

    def pass_requests(self, service: ModelService, name: str) -> None:
        """A pass sends a request. name: its verb and its resource."""
        if service is self.service:
            self._patches += name.startswith("patch ")
            self.judge.pass_requests(self.machine.steady)

    def pass_ends(self, service: ModelService, *, killed: bool, failed: bool) -> None:
        """A pass has ended, has failed, or was killed.

        capacityd forgets everything if a PATCH, or the GET after a conflict, got no answer.
        """
        if service is not self.service:
            return
        if killed or (failed and self._patches > 0 and self.judge.memory.is_recent(Trouble.API, within=0.0)):
            self.judge.capacityd_forgets(self.machine.steady)
        elif not failed:
            self.judge.pass_succeeds(self.machine.steady)
        state = self.machine.run_folder / "state.json"
        if state.exists() and (text := state.read_text()) != self._shown:
            self._shown = text
            self.judge.capacityd_shows(self.machine.steady, text)
        self.tell_judge()

    def hear(self, *reasons: PassReason) -> None:
        """The service receives events of the machine."""
        self.unheard.clear()
        self.tell_judge()
        self.judge.service_hears(self.machine.steady)
        self.service.hear(*reasons)

    def configure(self, config: Config) -> None:
        """The configuration is replaced, and the service reloads it."""
        self.machine.config = config
        self.judge.configuration_becomes(self.machine.steady, for_judge(config))
        self.tell_judge()
        self.service.configure()

    def restart_service(self) -> None:
        """The service starts again, without a memory."""
        self.service.start()
        self.judge.capacityd_forgets(self.machine.steady)
        self.tell_judge()

    def reboot(self) -> None:
        """The machine boots again, and the service starts."""
        self.service.stop()
        self.tell_judge()
        self._agenda = []
        self.unhealthy = {}  # the new kubelet copies capacity to allocatable
        self.machine.reboot()
        self.judge.machine_boots(self.machine.steady - self.machine.uptime)
        self.restart_service()

    def suspend(self, seconds: float) -> None:
        """The machine sleeps."""
        self.service.has_passed = False  # the service can't act until its next pass
        self.tell_judge()
        self.pass_time_at_once(seconds)
        self.machine.suspended += seconds
        self.hear(PassReason.RESUME)

    def end_causes(self) -> None:
        """Ends all troubles, but keeps the values that others have written."""
        server, machine = self.server, self.machine
        server.fault, server.lost = "", Counter()
        server.denies, server.alters, machine.kill_at = (), (), None
        server.before_patch.clear()
        machine.plugins_readable = True
        self.stop_others()
        self.make_unhealthy({})
        self.service.watch_delay, self.service.can_watch = 0.0, True
        self.service.sources.used_up = False
        for watcher in self.watchers():
            watcher.end_hang()
        if server.document is None:
            self.start_kubelet(delay=0.4)
        self.tell_judge()

    def watchers(self) -> list[ModelWatcher]:
        """The watchers that run."""
        return [service.watcher for service in (self.service, *self.others) if service.watcher]

    def back_up(self) -> None:
        """The cluster's state is saved."""
        self.server.back_up()
        self.judge.cluster_is_backed_up(self.machine.steady)

    def restore(self) -> None:
        """The cluster's state becomes the saved one."""
        self._is_restoring = True
        self.server.restore()
        self._is_restoring = False

    # The kubelet and its device plugins

    def start_kubelet(self, *, zeroes: bool = False, delay: float = 0.0) -> None:
        """The kubelet restarts, and writes the Node after the delay in seconds. zeroes: it also sets capacity to 0."""
        self._kubelet_starts += 1
        start = self._kubelet_starts
        if delay:
            self.later(delay, lambda: self._register(start, zeroes))
        else:
            self._register(start, zeroes)

    def _register(self, start: int, zeroes: bool) -> None:
        if start != self._kubelet_starts:  # the kubelet has restarted again
            return
        if self.server.document is None:
            self.server.register()
        elif zeroes:
            self.server.zero()
        self._report(start)

    def _report(self, start: int) -> None:
        """The kubelet reports its status with a Ready heartbeat, and repeats this until it restarts."""
        if start != self._kubelet_starts:
            return
        self.sync()
        if self.server.document is not None:
            ready = next(c for c in self.server.document["status"]["conditions"] if c["type"] == "Ready")
            ready["lastHeartbeatTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.machine.now))
        self.later(REPORT, lambda: self._report(start))

    def sync(self) -> None:
        """The kubelet writes the counts of device plugins, and copies capacity to allocatable."""
        for name, count in self.plugins.items():
            if name in self.machine.device_plugins:
                self.server.write(name, str(count))
        self.server.make_allocatable(self.unhealthy)

    def make_unhealthy(self, allocatable: dict[str, str]) -> None:
        """From now on the kubelet writes these numbers into allocatable in place of the capacity, again and again."""
        self.unhealthy = allocatable
        self._report_unhealthy()

    def _report_unhealthy(self) -> None:
        self.sync()
        if self.unhealthy:
            self.later(SYNC, self._report_unhealthy)

    def forget_plugin(self, name: str) -> None:
        """The kubelet's list drops the name of a plugin that has left."""
        if name not in self.plugins:
            self.machine.device_plugins.discard(name)
            self.hear(PassReason.NODE)

    # Another machine with the same identity

    def start_other(self, readings: dict[str, Reading]) -> None:
        """Another machine's service starts."""
        config = configuration(frozenset(readings), labelled=frozenset(OURS[:1]))
        self._others_started += 1
        folder = self.machine.folder / f"other{self._others_started}"
        machine = Machine(folder, config, readings, self.uptime, self.machine.booted)
        machine.steady_at_boot = self.machine.steady_at_boot
        self.others.append(ModelService(self, machine, self._others_started, Writer.OTHER_CAPACITYD))
        self.tell_judge()

    def stop_others(self) -> None:
        for other in self.others:
            other.stop()
        self.others.clear()
        self.tell_judge()
