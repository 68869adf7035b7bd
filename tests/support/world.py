"""A model of a machine's surroundings: time, the service's loop, the kubelet, device plugins, and commands by hand.

Time is a number here. Future actions are on an agenda; each happens when the time reaches it.
"""

from __future__ import annotations

import heapq
import math
import random
import time
from collections.abc import Callable

from capacityd.model.node import NodeState
from capacityd.model.plan import Plan
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.node.documents.json_patch import patched
from capacityd.node.documents.node import node_state
from capacityd.reconcile import machine_record
from capacityd.schema.config import Config, Resource, Settings
from capacityd.service.event_rate import BURST, BURST_PERIOD
from capacityd.service.loop import COMPARE_PERIOD
from capacityd.service.node_comparison import NodeComparison
from capacityd.service.schedule import Schedule
from tests.support.model_machine import Machine
from tests.support.model_sources import ModelSources
from tests.support.model_watch import ModelWatch
from tests.support.promises import Promises
from tests.support.truth import MINUTE, Truth

SYNC = 10.0  # seconds until the kubelet has written a device plugin's report, and has copied capacity to allocatable
REPORT = 300.0  # seconds between two heartbeats of the Ready condition


class World:
    """A machine and its surroundings. hear: sends the service an event."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.server = machine, machine.server
        self.server.loses_events = True
        self.hear: Callable[[set[PassReason]], None] = lambda reasons: None
        self.unhealthy: frozenset[str] = frozenset()
        """The names of the resources whose allocatable the kubelet sets to 0."""
        self.unhealthy_since = 0.0
        """When this began, in seconds of uptime."""
        self.plugins: dict[str, int] = {}
        self.other_agents: list[Loop] = []
        """Services on other machines that write the same Node."""
        self._starts = 0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0

    # Time

    @property
    def uptime(self) -> float:
        return self.machine.uptime

    def later(self, seconds: float, happens: Callable[[], None]) -> None:
        """Puts an action on the agenda."""
        self._entries += 1
        heapq.heappush(self._agenda, (self.uptime + seconds, self._entries, happens))

    def next(self) -> float:
        """The uptime of the next action on the agenda."""
        return self._agenda[0][0] if self._agenda else float("inf")

    def move(self, uptime: float) -> None:
        """Advances the time to this uptime, and runs the agenda's actions until then."""
        began = self.uptime
        while self.next() <= uptime:
            at, _, happens = heapq.heappop(self._agenda)
            self.machine.uptime = max(self.uptime, at)
            happens()
        self.machine.uptime = max(self.uptime, uptime)
        for other in self.other_agents:
            other.run(self.uptime - began)

    def reboot(self) -> None:
        """The machine starts again. The kubelet's and device plugins' pending actions are dropped; /run is empty."""
        self._agenda = []
        self.unhealthy = frozenset()  # the kubelet has dropped its reports
        self.machine.expires_at = {name: at - self.uptime - 30.0 for name, at in self.machine.expires_at.items()}
        self.machine.booted += self.uptime + 30.0
        self.machine.uptime = 10.0
        self.machine.lose_state()

    # Other writers of the Node

    def write_allocatable(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key of allocatable. The kubelet's next report reverts this."""
        self.server.write_allocatable(name, value)
        self.later(SYNC, self.sync)

    def carry_out(self, decide: Callable[[NodeState], Plan]) -> None:
        """Runs a command by hand on this machine. decide: makes the command's plan."""
        if self.server.document is not None:
            plan = decide(node_state(self.server.document))
            self.server.store(patched(self.server.document, plan.write.patch))
            machine_record.confirm(str(self.machine.state_folder), plan)

    # The kubelet and its device plugins

    def start_kubelet(self, zeroes: bool, delay: float) -> None:
        """The kubelet restarts and, after delay, writes the Node. zeroes: sets capacity to 0."""
        self._starts += 1
        start = self._starts
        if delay:
            self.later(delay, lambda: self._register(start, zeroes))
        else:
            self._register(start, zeroes)

    def _register(self, start: int, zeroes: bool) -> None:
        if start != self._starts:
            return
        if self.server.document is None:
            self.server.register()
        elif zeroes:
            self.server.zero()
        self._report(start)

    def _report(self, start: int) -> None:
        """The kubelet reports its status with a Ready heartbeat, and repeats this until it restarts."""
        if start != self._starts:
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

    def make_unhealthy(self, names: frozenset[str]) -> None:
        """From now on the kubelet sets allocatable of these resources to 0."""
        self.unhealthy, self.unhealthy_since = names, self.uptime
        self._report_unhealthy()

    def _report_unhealthy(self) -> None:
        self.sync()
        if self.unhealthy:
            self.later(SYNC, self._report_unhealthy)

    def register_anew(self) -> None:
        """The Node is deleted, and a starting kubelet creates it again."""
        self.server.delete()
        self.start_kubelet(False, 0.0)

    def plugin_comes(self, name: str, count: int, synced: bool) -> None:
        """A device plugin registers. The checkpoint lists it at once, the Node later; synced: both at once."""
        self.plugins[name] = count
        self.machine.device_plugins.add(name)
        self.hear({PassReason.PLUGINS})
        self.later(SYNC, self.sync)
        if synced:  # the kubelet's next write was due
            self.sync()

    def plugin_leaves(self, name: str) -> None:
        """The device plugin's key becomes 0; the checkpoint drops its name later."""
        if self.plugins.pop(name, None) is not None:
            self.server.write(name, "0")
            self.later(SYNC, lambda: self._forget(name))

    def _forget(self, name: str) -> None:
        if name not in self.plugins:
            self.machine.device_plugins.discard(name)
            self.hear({PassReason.PLUGINS})


class Loop:
    """The service's loop: the real schedule and the real worker."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.passes = 0
        self.failure: RetryCause | None = None
        """The cause of the last pass's failure."""
        self.missing = False
        """Whether the Node was missing in the last pass."""
        self.unheard: dict[str, float] = {}
        """Name -> until when the service need not know its reading, which has changed without an event since the last
        pass; in seconds of uptime. Infinity: only the next pass reads it, whenever that is."""
        self.sources = ModelSources(world.machine.folder)
        self.heard_at = float("-inf")
        """When the service last heard of an event of the machine."""
        self.has_passed = False
        """Whether the service has made a pass since its start."""
        self.comparison = NodeComparison()
        self._told_watched = True  # what the schedule knows of the watch
        self._node_passes: list[float] = []  # the times of passes because of the Node
        self.truth = Truth(self)
        self.promises = Promises(self)
        self._pass_running = False
        self.watch = ModelWatch(world, self._on_watch)
        self._uniform = random.Random(seed).uniform
        self._suspended = 0.0  # seconds of uptime during which the machine was suspended
        self.start(state_lost=True)

    def start(self, state_lost: bool) -> None:
        """The service starts or restarts."""
        if state_lost:
            self.world.machine.lose_state()
        self.sources.open()
        self._schedule = Schedule(self._monotonic(), self._uniform)
        self.comparison, self._compare_at = NodeComparison(), self.world.uptime
        self._told_watched = True
        self.has_passed, self.failure = False, None
        self.configure()
        self._write_status()
        self.world.hear = self._hear
        self.truth.excuse()

    def _hear(self, reasons: set[PassReason]) -> None:
        self.heard_at = self.world.uptime
        if reasons:
            self.unheard.clear()
        self._schedule.notify(reasons, self._monotonic())
        self.promises.add_event()

    def misses(self, name: str, *, compared: bool = False) -> None:
        """A reading has changed without an event. compared: whether the comparison once a minute notices it."""
        compared |= self.sources.used_up
        self.unheard[name] = self.world.uptime + MINUTE if compared else math.inf

    def use_up_inotify(self, *, used_up: bool) -> None:
        """Nothing can be watched, so no event reports a file, and a pass looks once a minute; or again it can."""
        self.sources.use_up(used_up=used_up)
        if used_up:
            by = self.world.uptime + MINUTE
            self.unheard = {name: min(until, by) for name, until in self.unheard.items()}

    def is_busy(self, since: float) -> bool:
        """Whether so many passes were made because of the Node that the next one may wait."""
        return sum(at >= since - BURST_PERIOD for at in self._node_passes) >= BURST

    def reboot(self) -> None:
        """The machine reboots, and the service starts."""
        self.watch.stop()
        self.world.reboot()
        self._suspended = 0.0
        self.heard_at, self._node_passes = self.world.uptime, []
        self.truth.restart()
        self.start(state_lost=True)

    def configure(self) -> None:
        """The service applies the configured resync period, and ends the watch. The next pass starts it again."""
        self.watch.stop()
        self._schedule.set_resync_period(self.world.machine.configured.settings.resync, self._monotonic())

    def suspend(self, seconds: float) -> None:
        """The machine is suspended for this time."""
        self.world.move(self.world.uptime + seconds)
        self._suspended += seconds
        self.truth.excuse()
        self.world.hear({PassReason.RESUME})

    def run(self, seconds: float) -> None:
        """Advances the time, while the service makes its passes."""
        world = self.world
        end = world.uptime + seconds
        self.truth.look()
        while True:
            self._compare_node()
            wakes = self._schedule.wakes_at() + self._suspended
            others = [world.uptime + other.idle_for() for other in world.other_agents]
            at = min(wakes, world.next(), self._compare_at, *others)
            if at > end:
                break
            world.move(max(at, world.uptime))
            self.truth.look()
            if reasons := self._schedule.pop_due(self._monotonic()):
                self.promises.keep(self._monotonic())
                self._make_pass(frozenset(reasons))
                self.truth.look()
                world.move(world.uptime + 0.1)
            elif wakes <= world.uptime:
                world.move(world.uptime + 0.001)
        world.move(end)
        self.truth.look()

    def idle_for(self) -> float:
        """The seconds until something happens here."""
        next_at = min(self._schedule.wakes_at() + self._suspended, self.world.next(), self._compare_at)
        return max(0.001, next_at - self.world.uptime)

    def _make_pass(self, reasons: frozenset[PassReason]) -> None:
        machine = self.world.machine
        self.comparison.begin_pass()
        self._pass_running = True
        ended = machine.run_pass(reasons)
        self._pass_running = False
        machine.server.between.clear()
        self.passes += 1
        self.has_passed = True
        self.unheard.clear()
        if PassReason.NODE in reasons:
            self._node_passes.append(self.world.uptime)
        now, result = self._monotonic(), machine.result
        if result:
            self._schedule.count_reading(changed=result.changed)
            self.comparison.end_pass(result.node)
        self.missing = bool(result and result.node == "")
        if not ended or result is None:
            self.failure = RetryCause.OTHER
            self._schedule.failed(now, None)
        elif failure := result.failure:
            self.failure = failure.cause
            self._schedule.failed(now, failure.retry_after, failure.cause, result.requeue_after)
        else:
            self.failure = None
            self._schedule.succeeded(now, result.requeue_after, written=result.written)
        if result and result.node is not None:
            self.watch.start()
        self._write_status()

    def _write_status(self) -> None:
        next_pass = self._monotonic() if self._pass_running else self._schedule.wakes_at()
        self.promises.state(self._monotonic(), next_pass, self.world.machine.status)

    def _on_watch(self) -> None:
        """The watcher has sent a message."""
        self.comparison.report(self.watch.seen)
        watched = self.watch.seen is not None
        if watched is not self._told_watched:
            self._told_watched = watched
            if watched:
                self._schedule.watch_begins(self._monotonic())
            else:
                self._schedule.watch_fails(self._monotonic(), look_now=False)
            self._write_status()

    def _compare_node(self) -> None:
        """As the service does: after each report of the watcher, and once a minute. Then it also compares its event
        sources."""
        if self._compare_at <= self.world.uptime:
            self._compare_at = self.world.uptime + COMPARE_PERIOD
            self.comparison.request()
            if reasons := self.sources.compare():
                self._hear(reasons)
        if self.comparison.pop_difference(may_end_error=self._schedule.node_may_end_error):
            self._schedule.notify({PassReason.NODE}, self._monotonic())
            self.promises.add_event()

    def _monotonic(self) -> float:
        return self.world.uptime - self._suspended


def configuration(
    names: frozenset[str],
    adopt: frozenset[str],
    broken: frozenset[str],
    settings: Settings,
    *,
    complete: bool,
    labelled: frozenset[str] = frozenset(),
) -> Config:
    """A configuration with these names. For the broken resources, only the names can be read."""
    return Config(
        resources=tuple(
            Resource(name, "static", (), adopt=name in adopt, label=name in labelled) for name in sorted(names - broken)
        ),
        settings=settings,
        broken=dict.fromkeys(sorted(names & broken), "an error"),
        complete=complete,
    )
