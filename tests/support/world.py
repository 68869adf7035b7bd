"""A model of what surrounds the service: the machine, its clocks, the Node, the kubelet, device plugins, other writers.

Time is a number here. What is to happen later is on an agenda, and happens when time has moved that far.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable
from typing import Any

from capacityd.model.config import Config, Resource, Settings
from capacityd.model.node import ANNOTATION, CONDITION, NodeState
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Absent, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.node.documents.json_patch import patched
from capacityd.node.documents.node import node_state

OURS = ("example.com/a", "example.com/b", "example.com/c")
THEIRS = ("vendor.example/gpu", "cpu")
NAMES = (*OURS, THEIRS[0])
"""Names that a configuration may have; the first three are nobody else's at first."""

SYNC = 10.0  # seconds until the kubelet has written what a device plugin reports, and capacity to allocatable
REPORT = 300.0  # seconds between two heartbeats of the Ready condition


class World:
    """All that is not the service. hear: sends the service an event."""

    def __init__(self) -> None:
        self.uptime = 20.0
        self.suspended = 0.0  # seconds of that in which no process ran
        self.clock = 1_700_000_000.5  # seconds since the epoch at uptime 0, as the machine's clock has it
        self.hear: Callable[[set[PassReason]], None] = lambda reasons: None
        self.machine: dict[str, Reading] = {}
        self.config = Config(resources=tuple(Resource(name, "static", ()) for name in OURS[:2]))
        self.node: dict[str, Any] | None = None
        self.strangers: set[str] = set()  # the keys of which somebody else wrote what is there
        self.tampered = False  # somebody else wrote our record, since the Node was registered
        self.lags: set[str] = set()  # the names of which the kubelet makes nothing allocatable
        self.plugins: dict[str, int] = {}
        self.checkpoint: set[str] = set()
        self.checkpoint_readable = True
        self.socket: float | None = None
        self.published: MachineRecord | None = None  # the machine's own file on what it has published
        self._uids = 0
        self._starts = 0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0

    # Time

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.clock + self.uptime

    def monotonic(self) -> float:
        """Seconds of uptime without those of suspend."""
        return self.uptime - self.suspended

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
            self.uptime = max(self.uptime, at)
            happens()
        self.uptime = max(self.uptime, uptime)

    def reboot(self) -> None:
        """The machine is new; what the kubelet and plugins wanted to do is over."""
        self._agenda = []
        self.clock += self.uptime + 30.0
        self.uptime, self.suspended = 10.0, 0.0

    # The Node as others see it

    @property
    def capacity(self) -> dict[str, str]:
        capacity: dict[str, str] = self.node["status"]["capacity"] if self.node else {}
        return capacity

    @property
    def allocatable(self) -> dict[str, str]:
        allocatable: dict[str, str] = self.node["status"]["allocatable"] if self.node else {}
        return allocatable

    def record(self) -> dict[str, int]:
        """What our annotation has of names that may be extended resources."""
        return record_of(self.node)

    def write(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key."""
        if self.node is None:
            return
        self.strangers.add(name)
        if value is None:
            self.capacity.pop(name, None)
        else:
            self.capacity[name] = value

    def write_allocatable(self, name: str, value: str | None) -> None:
        """The same of allocatable, until the kubelet's next report of its Node."""
        self.allocatable.pop(name, None)
        if value is not None and self.node is not None:
            self.allocatable[name] = value
        self.later(SYNC, self.sync)

    def lag(self, names: frozenset[str]) -> None:
        """From now on the kubelet makes nothing of these allocatable."""
        self.lags = set(names)
        self._lag()

    def _lag(self) -> None:
        self.sync()
        if self.lags:
            self.later(SYNC, self._lag)

    def annotate(self, text: str | None) -> None:
        """Another writer sets or removes our annotation."""
        if self.node is None:
            return
        self.tampered = True
        annotations = self.node["metadata"]["annotations"]
        annotations.pop(ANNOTATION, None)
        if text is not None:
            annotations[ANNOTATION] = text

    def disturb_conditions(self, how: str) -> None:
        """Another writer adds a condition in front, or changes or removes ours."""
        if self.node is None:
            return
        conditions = self.node["status"]["conditions"]
        if how == "front":
            conditions.insert(0, {"type": f"Other{len(conditions)}", "status": "True"})
            return
        for place, condition in enumerate(conditions):
            if condition["type"] == CONDITION:
                conditions[place : place + 1] = [condition | {"message": "not ours"}] if how == "change" else []

    def delete(self) -> None:
        self.node = None

    def carry_out(self, decide: Callable[[NodeState], Plan]) -> None:
        """A command by hand on this machine, with a plan of its own."""
        if self.node is not None:
            plan = decide(node_state(self.node))
            self.node = patched(self.node, plan.write.patch)
            self.confirm(plan)

    # The machine's own record, as machine_record.py keeps it

    def intend(self, record: MachineRecord | None, plan: Plan) -> MachineRecord | None:
        if plan.write.recorded is not None:
            self.published = record = MachineRecord(
                plan.recorded_before, plan.write.recorded, plan.reported_before, plan.node_uid
            )
        return record

    def confirm(self, plan: Plan) -> None:
        if plan.write.recorded is not None:
            self.published = MachineRecord(plan.write.recorded, reported=plan.write.reported, node_uid=plan.node_uid)

    # The kubelet and its device plugins

    def start_kubelet(self, zeroes: bool, delay: float) -> None:
        """It restarts: it creates its socket, and writes the Node some seconds later. zeroes: what it decided."""
        self._starts += 1
        start = self._starts
        self.move(self.uptime + 2.0)  # more than a second after its last heartbeat
        self.socket = self.now()
        if delay:
            self.later(delay, lambda: self._register(start, zeroes))
        else:
            self._register(start, zeroes)
        self.hear({PassReason.KUBELET})

    def _register(self, start: int, zeroes: bool) -> None:
        if start != self._starts:
            return
        if self.node is None:
            self._uids += 1
            self.strangers, self.tampered = set(), False
            self.node = _registered(self._uids)
        elif zeroes:
            for name in self.capacity:
                if "/" in name:
                    self.capacity[name] = "0"
        self._report(start)

    def _report(self, start: int) -> None:
        """The kubelet's status, with the Ready condition's heartbeat; it goes on until the kubelet restarts."""
        if start != self._starts:
            return
        self.sync()
        if self.node is not None:
            ready = next(c for c in self.node["status"]["conditions"] if c["type"] == "Ready")
            ready["lastHeartbeatTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now()))
        self.later(REPORT, lambda: self._report(start))

    def sync(self) -> None:
        """The kubelet writes what device plugins have reported."""
        for name, count in self.plugins.items():
            if self.node is not None and name in self.checkpoint:
                self.write(name, str(count))
        if self.node is not None:
            self.node["status"]["allocatable"] = self.capacity | dict.fromkeys(self.lags & self.capacity.keys(), "0")

    def plugin_comes(self, name: str, count: int) -> None:
        """A device plugin registers: the checkpoint has it at once, the Node somewhat later."""
        self.plugins[name] = count
        self.checkpoint.add(name)
        self.hear({PassReason.PLUGINS})
        self.later(SYNC, self.sync)

    def plugin_leaves(self, name: str) -> None:
        """Its key becomes 0; the checkpoint forgets it later."""
        if self.plugins.pop(name, None) is not None:
            self.write(name, "0")
            self.later(SYNC, lambda: self._forget(name))

    def _forget(self, name: str) -> None:
        if name not in self.plugins:
            self.checkpoint.discard(name)
            self.hear({PassReason.PLUGINS})

    # The machine

    def probe(self) -> dict[str, Reading]:
        """The readings of what is configured."""
        readings: dict[str, Reading] = {name: Unknown("broken") for name in self.config.broken}
        for resource in self.config.resources:
            readings[resource.name] = self.machine.get(resource.name, Absent("none"))
        return readings

    def device_plugins(self) -> frozenset[str] | None:
        """The names in the kubelet's checkpoint."""
        return frozenset(self.checkpoint) if self.checkpoint_readable else None


def configuration(
    names: frozenset[str],
    adopt: frozenset[str],
    broken: frozenset[str],
    complete: bool,
    settings: Settings,
) -> Config:
    """A configuration of these names; of the broken ones only the names can be read."""
    return Config(
        resources=tuple(Resource(name, "static", (), adopt=name in adopt) for name in sorted(names - broken)),
        settings=settings,
        broken=dict.fromkeys(sorted(names & broken), "an error"),
        complete=complete,
    )


def record_of(node: dict[str, Any] | None) -> dict[str, int]:
    """The part of a Node's record that is about the names of this world; anything else in it is ignored."""
    try:
        content = json.loads(node["metadata"]["annotations"][ANNOTATION]) if node else {}
    except (ValueError, KeyError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: n for name, n in content.items() if name in NAMES and type(n) is int and 0 <= n < 2**63}


def _registered(number: int) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": "n1", "uid": f"uid-{number}", "annotations": {"theirs": "x"}},
        "status": {
            "capacity": {"cpu": "8"},
            "allocatable": {"cpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
