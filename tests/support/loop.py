"""The service's loop as a model: the real schedule and the real pass, with calls for children and a number for time.

Every write to the Node is checked as it happens: what it touches, how it is guarded, how often and how late it comes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from capacityd.model.errors import NodeDenied, NodeMissing, NodeRejected, NodeUnreachable
from capacityd.model.node import ANNOTATION, CONDITION, Event, NodeState
from capacityd.model.plan import MachineRecord
from capacityd.model.quantity import name_problem, whole_quantity
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.node.documents.json_patch import patched
from capacityd.node.documents.node import node_state
from capacityd.reconcile.facts import PassContext
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.reconcile import Access, ReconcileResult, reconcile
from capacityd.reconcile.timing import BURST, MIN_INTERVAL
from capacityd.service.schedule import Schedule
from tests.support.world import NAMES, World, record_of


class KilledError(Exception):
    """The child is gone."""


class Loop:
    """The service. fault: what the API server does to requests; kill: at which point the next pass is killed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.fault = ""
        self.lost = 0  # so many answers to writes are lost
        self.unheard = 0  # so many writes never arrive
        self.kill = ""
        self.between: list[Callable[[], None]] = []  # what others do between our GET and our PATCH
        self.asked: list[set[PassReason]] = []  # the reasons for which the Node was read, each time
        self.writes = 0
        self.written: dict[str, list[float]] = {}  # name -> when its quantities were written
        self.unknown_from: dict[str, float] = {}  # name -> since when each pass has found it unknown
        self.failure: RetryCause | None = None  # of the last pass
        self.reasons: set[PassReason] = set()
        self._uniform = random.Random(seed).uniform
        self._memory = Memory()
        self._remembered: dict[str, list[float]] = {}  # name -> when writes were that the service knows of
        self._unremembered: list[str] = []
        self._at = 0.0  # when this pass began
        self._undone: dict[str, float] = {}  # name -> when another's change was undone that the service knows of
        self._undoing: set[str] = set()  # the names of which this write does that
        self._lower: dict[str, float] = {}  # name -> since when every pass has read it lower
        self._kubelet_anew = True
        self._seen: Mapping[str, Reading] = {}
        self._known_plugins: frozenset[str] | None = None
        self._published: MachineRecord | None = None  # the machine's record when this pass began
        self.start(state_lost=True)

    def start(self, state_lost: bool) -> None:
        """The service starts, or starts again."""
        if state_lost:
            self._memory = Memory()
            self._remembered, self._undone, self._lower = {}, {}, {}
        self._schedule = Schedule(self.world.monotonic(), self._uniform)
        self.configure()
        self.world.hear = lambda reasons: self._schedule.notify(reasons, self.world.monotonic())

    def configure(self) -> None:
        """The service takes over the resync period."""
        self._schedule.set_resync_period(self.world.config.settings.resync, self.world.monotonic())

    def run(self, seconds: float) -> None:
        """Time passes for the service, too."""
        world = self.world
        end = world.uptime + seconds
        while True:
            wakes = self._schedule.wakes_at() + world.suspended
            at = min(wakes, world.next())
            if at > end:
                break
            world.move(max(at, world.uptime))
            if reasons := self._schedule.pop_due(world.monotonic()):
                self._reconcile(reasons)
                world.move(world.uptime + 0.1)
            elif wakes <= world.uptime:
                world.move(world.uptime + 0.001)
        world.move(end)

    def _reconcile(self, reasons: set[PassReason]) -> None:
        world = self.world
        readings = world.probe()
        self.reasons = reasons
        self._seen = readings
        self._at = world.uptime
        self._note_lower(readings)
        unknown = [name for name, reading in readings.items() if isinstance(reading, Unknown)]
        self.unknown_from = {name: self.unknown_from.get(name, world.uptime) for name in unknown}
        self._published = world.published
        self._unremembered, self._undoing = [], set()
        self._kubelet_anew = self._memory.kubelet.settling_since is not None or (
            self._memory.kubelet.started_at != world.socket
        )
        context = PassContext(world.now(), world.uptime, frozenset(reasons), world.socket, world.published)
        try:
            self._die("before")
            access = Access(partial(_ModelNode, self), self._plugins, world.intend)
            result = reconcile(world.config, readings, context, self._memory, access)
            self._die("unkept")
        except KilledError:
            self.failure = RetryCause.OTHER
            self._schedule.failed(world.monotonic(), None)
            return
        finally:
            self.between.clear()
        if result.outcome is not None and not world.config.settings.observe:
            world.confirm(result.outcome.plan)
        self._memory = result.memory
        self._remember(result)
        self.failure = result.failure.cause if result.failure else None
        if result.failure:
            failure = result.failure
            self._schedule.failed(world.monotonic(), failure.retry_after, failure.cause, result.requeue_after)
        else:
            self._schedule.succeeded(world.monotonic(), result.requeue_after, node_read=result.outcome is not None)

    def _plugins(self) -> frozenset[str] | None:
        self._known_plugins = self.world.device_plugins()
        return self._known_plugins

    def _remember(self, result: ReconcileResult) -> None:
        """A write whose answer was lost is not known to the service; any other counts."""
        for name in [] if result.failure else self._unremembered:
            recent = [at for at in self._remembered.get(name, []) if at > self._at - MIN_INTERVAL]
            self._remembered[name] = [*recent, self._at]
            assert len(recent) < BURST, f"{name} was written more than {BURST} times within {MIN_INTERVAL} s"
            if name in self._undoing:
                pause = self._at - self._undone.get(name, -MIN_INTERVAL)
                assert pause >= MIN_INTERVAL, f"another's change of {name} was undone again after {pause} s"
                self._undone[name] = self._at
        self._unremembered, self._undoing = [], set()

    def _die(self, point: str) -> None:
        if self.kill == point:
            self.kill = ""
            raise KilledError

    def _note_lower(self, readings: Mapping[str, Reading]) -> None:
        record, capacity = self.world.record(), self.world.capacity
        lower: dict[str, float] = {}
        for name in NAMES:
            reading = readings.get(name)
            if isinstance(reading, Quantity):
                before = record[name] if name in record else whole_quantity(capacity.get(name, "0")) or 0
                if reading.value >= before:
                    continue
            elif isinstance(reading, Unknown):
                continue
            lower[name] = self._lower.get(name, self.world.uptime)
        self._lower = lower

    def check(self, before: dict[str, Any], after: dict[str, Any], patch: Sequence[Mapping[str, object]]) -> None:
        """What must hold of a write of ours."""
        assert not self.world.config.settings.observe
        check_guards(patch)
        _check_rest(before, after)
        plugins = self._known_plugins
        old, new = before["status"]["capacity"], after["status"]["capacity"]
        record, record_after = self._kept(before) | record_of(before) | self._agreed(old), record_of(after)
        adopt = {r.name for r in self.world.config.resources if r.adopt}
        allocatable = before["status"]["allocatable"], after["status"]["allocatable"]
        for name in changed_names(*allocatable):
            assert name in NAMES, f"{name} is no extended resource of ours"
            assert name not in (plugins or ()), f"{name} is a device plugin's"
            assert name in record or name in record_after, f"allocatable of {name}, which is not published, was changed"
            assert allocatable[1].get(name) == new.get(name)
            if old.get(name) == new.get(name):
                self._unremembered.append(name)
        check_true(before, after)
        for name in changed_names(old, new):
            assert new.get(name) == allocatable[1].get(name)
            assert name in NAMES, f"{name} is no extended resource of ours"
            reading, recorded = self._seen.get(name), record.get(name)
            check_change(name, old.get(name), new.get(name), recorded, reading, self._published, plugins, adopt)
            assert new.get(name) == (str(record_after[name]) if name in record_after else None)
            self._check_lower(name, old.get(name), new.get(name), record.get(name))
            self._unremembered.append(name)
            self.written.setdefault(name, []).append(self.world.uptime)
            if name in self.world.strangers and name in record and whole_quantity(old.get(name, "")) != record[name]:
                zeroed = old.get(name) == "0" and self._kubelet_anew  # it may as well have been the kubelet
                self._undoing |= set() if zeroed else {name}
            self.world.strangers.discard(name)
        if old == new and not changed_names(*allocatable):
            self._unremembered.append("condition or record")
        for name, number in record_after.items():
            if record.get(name) != number:
                assert whole_quantity(new.get(name, "")) == number, f"{name}: the record differs from capacity"

    def _agreed(self, capacity: Mapping[str, str]) -> dict[str, int]:
        """What the machine's record and the Node agree on, whatever the annotation lists."""
        numbers = {name: whole_quantity(quantity) for name, quantity in capacity.items()}
        machine = self._published
        return {n: q for n, q in numbers.items() if machine and q is not None and machine.confirms(n, q)}

    def _kept(self, node: Mapping[str, Any]) -> dict[str, int]:
        """What the machine's record has of this Node, and nobody claims with a value of its own.

        A claim is a readable annotation that leaves the key out.
        """
        # Without a record, the first attempt of a pass has recorded what the annotation named then.
        machine, capacity = self._published or self.world.published, node["status"]["capacity"]
        if machine is None or machine.node_uid != node["metadata"]["uid"]:
            return {}
        names = readable_names(node["metadata"]["annotations"].get(ANNOTATION))
        return {
            name: quantity
            for name, quantity in machine.published.items()
            if names is None or name in names or whole_quantity(capacity.get(name, "0")) == 0
        }

    def _check_lower(self, name: str, old: str | None, new: str | None, recorded: int | None) -> None:
        if old is None or self.world.tampered:
            return
        less = whole_quantity(new or "0") or 0
        if less < (whole_quantity(old) or 0) and (recorded is None or less < recorded or new is None):
            settings = self.world.config.settings
            assert self.world.uptime - self._lower[name] >= settings.lower_after - 0.01, f"{name} was lowered early"


class _ModelNode:
    """The Node, as the API server gives and takes it."""

    name = "n1"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def read(self) -> NodeState:
        self._loop.asked.append(self._loop.reasons)
        return node_state(self._node())

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        loop = self._loop
        loop.writes += 1
        if loop.between:
            loop.between.pop(0)()
        before = self._node()
        loop._die("unsent")
        if loop.unheard:
            loop.unheard -= 1
            raise NodeUnreachable("it was lost")
        after = patched(before, patch)
        loop.check(before, after, patch)
        loop.world.node = after
        loop._die("unanswered")
        if loop.lost:
            loop.lost -= 1
            raise NodeUnreachable("the answer was lost")
        return node_state(after)

    def report(self, event: Event, state: NodeState) -> None:
        if len(event.message) % 7 == 0:
            raise NodeUnreachable("no Events today")

    def _node(self) -> dict[str, Any]:
        fault = self._loop.fault
        if fault == "unreachable":
            raise NodeUnreachable("nobody there")
        if fault == "busy":
            raise NodeUnreachable("later", retry_after=20.0)
        if fault == "denied":
            raise NodeDenied("who are you?")
        if fault == "rejected":
            raise NodeRejected("nonsense")
        if self._loop.world.node is None:
            raise NodeMissing("no such Node")
        return self._loop.world.node


def readable_names(annotation: str | None) -> Collection[str] | None:
    """The names in an annotation; None if there is none, or nobody can read it."""
    try:
        content = json.loads(annotation or "")
    except ValueError:
        return None
    return content.keys() if isinstance(content, dict) else None


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def check_true(before: dict[str, Any], after: dict[str, Any]) -> None:
    """The condition is not written as True unless all that is published is allocatable."""
    (was, written) = (
        [c for c in node["status"]["conditions"] if c["type"] == CONDITION][:1] for node in (before, after)
    )
    if written and written != was and written[0]["status"] == "True":
        for name, quantity in record_of(after).items():
            assert (whole_quantity(after["status"]["allocatable"][name]) or 0) >= quantity, name


def check_change(
    name: str,
    old: str | None,
    new: str | None,
    recorded: int | None,
    reading: Reading | None,
    machine: MachineRecord | None,
    plugins: Collection[str] | None,
    adopt: Collection[str],
) -> None:
    """What must hold of a key that a plan changes: it is ours or to be, and nothing is lost because it is unknown.

    recorded: by the Node's annotation. machine: this machine's record.
    """
    assert not name_problem(name)
    assert name not in (plugins or ()), f"{name} is a device plugin's"
    ours = recorded is not None and (machine is None or machine.names(name))
    adopted = plugins is not None and name in adopt
    assert ours or (isinstance(reading, Quantity) and (old is None or adopted))
    if new is None or isinstance(reading, Unknown):
        assert recorded is not None
        confirmed = reading is not None if machine is None else machine.confirms(name, recorded)
        assert confirmed, f"{name}: only the Node's record names it as ours"
    if new is None:
        assert whole_quantity(old or "") in (recorded, 0), f"{name}: another's value was removed"
    if isinstance(reading, Unknown):
        lost = old is None or whole_quantity(old) == 0 != recorded
        assert lost, f"{name}: unknown was published as less"
        assert new == str(recorded)


def check_guards(patch: Sequence[Mapping[str, object]]) -> None:
    """What must hold of a patch: first it tests all that it touches, and it touches nothing else of the Node."""
    kinds, tested = [o["op"] for o in patch], {o["path"] for o in patch if o["op"] == "test"}
    assert kinds == sorted(kinds, key=lambda op: op != "test"), "all tests come first"
    assert not patch or patch[0]["path"] == "/metadata/uid"
    for operation in patch:
        path = str(operation["path"])
        ours = "/metadata/uid", "/metadata/annotations", "/status/capacity", "/status/allocatable", "/status/conditions"
        assert path.startswith(ours)
        assert path in tested or path == "/status/conditions/-"


def _check_rest(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Only capacity, allocatable, our annotation and our condition may differ."""

    def rest(node: dict[str, Any]) -> object:
        annotations = {k: v for k, v in node["metadata"]["annotations"].items() if k != ANNOTATION}
        status = {k: v for k, v in node["status"].items() if k not in ("capacity", "allocatable")}
        status["conditions"] = [c for c in status["conditions"] if c["type"] != CONDITION]
        return {**node, "metadata": {**node["metadata"], "annotations": annotations}, "status": status}

    assert rest(before) == rest(after)
