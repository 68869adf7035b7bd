"""The acts of others in a history: other writers of the Node, the API server, the connection, another capacityd."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.reading import Absent, Quantity, Reading, without_details
from tests.support.denials import Alters, Denies
from tests.support.judge import node_view as view
from tests.support.model.acts import Act, HardwareChanges
from tests.support.model.world import SYNC, World


class ByOthers:
    """A mark for acts that may also happen just before a PATCH arrives."""


@dataclass(frozen=True, slots=True)
class OtherWrites(ByOthers):
    """Another writer sets or removes a key of capacity, or a label."""

    name: str
    value: str | None

    def happens(self, world: World) -> None:
        world.server.write(self.name, self.value)


@dataclass(frozen=True, slots=True)
class OtherWritesAllocatable(ByOthers):
    """Another writer sets or removes a key of allocatable. reverted: whether the kubelet's next report reverts it."""

    name: str
    value: str | None
    reverted: bool = True

    def happens(self, world: World) -> None:
        world.server.write_allocatable(self.name, self.value)
        if self.reverted:
            world.later(SYNC, world.sync)


@dataclass(frozen=True, slots=True)
class OtherAnnotates(ByOthers):
    """Another writer sets or removes capacityd's annotation."""

    text: str | None

    def happens(self, world: World) -> None:
        world.server.annotate(self.text)


@dataclass(frozen=True, slots=True)
class AnnotationIsLostWithAValue(ByOthers):
    """Another writer changes a key, and makes the annotation unreadable."""

    name: str
    value: str | None
    text: str | None

    def happens(self, world: World) -> None:
        world.server.write(self.name, self.value)
        world.server.annotate(self.text)


@dataclass(frozen=True, slots=True)
class ConditionIsAdded(ByOthers):
    """Another writer adds a condition: of capacityd's type, if the Node has none yet (ours), or of another type."""

    ours: bool = True

    def happens(self, world: World) -> None:
        if not self.ours:
            world.server.add_condition({"type": "Other", "status": "True"}, first=True)
        elif not world.server.condition:
            ours = {"type": view.CONDITION, "status": "True", "reason": "Published", "message": "not ours"}
            world.server.add_condition(ours)


@dataclass(frozen=True, slots=True)
class ConditionIsChanged(ByOthers):
    """Another writer changes or removes capacityd's condition."""

    removed: bool = False

    def happens(self, world: World) -> None:
        world.server.change_condition(None if self.removed else {"message": "not ours"})


@dataclass(frozen=True, slots=True)
class NodeIsDeleted(ByOthers):
    """Somebody deletes the Node."""

    def happens(self, world: World) -> None:
        world.server.delete()


@dataclass(frozen=True, slots=True)
class NodeIsRegisteredAnew(ByOthers):
    """The Node is deleted, and a starting kubelet creates it again. key: another writer restores its old value."""

    key: str = ""

    def happens(self, world: World) -> None:
        value = world.server.capacity.get(self.key)
        world.server.delete()
        world.start_kubelet()
        if self.key:
            world.server.write(self.key, value)


@dataclass(frozen=True, slots=True)
class KubeletZeroes(ByOthers):
    """A kubelet sets every extended resource to 0."""

    def happens(self, world: World) -> None:
        world.server.zero()


@dataclass(frozen=True, slots=True)
class KubeletRestarts(ByOthers):
    """The kubelet restarts, and reports after the delay in seconds. zeroes: it also sets capacity to 0."""

    zeroes: bool = False
    delay: float = 0.0

    def happens(self, world: World) -> None:
        world.start_kubelet(zeroes=self.zeroes, delay=self.delay)


@dataclass(frozen=True, slots=True)
class BecomesUnhealthy:
    """From now on the kubelet reports this allocatable for these resources."""

    names: frozenset[str]
    allocatable: str = "0"

    def happens(self, world: World) -> None:
        world.make_unhealthy(dict.fromkeys(self.names, self.allocatable))


@dataclass(frozen=True, slots=True)
class JustBeforeAPatch:
    """The machine publishes a change, and an act of others comes just before its PATCH arrives."""

    act: Act
    publishes: HardwareChanges

    def happens(self, world: World) -> None:
        world.server.before_patch.append(lambda: self.act.happens(world))
        self.publishes.happens(world)


@dataclass(frozen=True, slots=True)
class SameIsPublishedByAnother:
    """Another writer creates a key just before capacityd, with the same number. lost: the next GET gets no answer."""

    name: str
    quantity: int
    lost: bool = False

    def happens(self, world: World) -> None:
        HardwareChanges(self.name, Absent("none")).happens(world)
        world.run(15.0)

        def write() -> None:
            world.server.write(self.name, str(self.quantity))
            world.server.lost_gets = int(self.lost)

        world.server.before_patch.append(write)
        HardwareChanges(self.name, Quantity(self.quantity)).happens(world)


@dataclass(frozen=True, slots=True)
class ClusterIsBackedUp:
    """The cluster's state is saved."""

    def happens(self, world: World) -> None:
        world.back_up()


@dataclass(frozen=True, slots=True)
class ClusterIsRestored:
    """The cluster is restored from its backup, and all connections end. pause: seconds until the next connection."""

    pause: float = 0.5

    def happens(self, world: World) -> None:
        world.restore()
        for watcher in world.watchers():
            watcher.cut(self.pause)


# The connection


@dataclass(frozen=True, slots=True)
class WatchIsCut:
    """The watch ends. pause: seconds until the next connection."""

    pause: float = 0.0

    def happens(self, world: World) -> None:
        for watcher in world.watchers():
            watcher.cut(self.pause)


@dataclass(frozen=True, slots=True)
class WatchHangs:
    """For some seconds nothing arrives on the watch, but it stays open."""

    seconds: float

    def happens(self, world: World) -> None:
        for watcher in world.watchers():
            watcher.hang(self.seconds)


@dataclass(frozen=True, slots=True)
class WatchRepeats:
    """The API server sends the Node again."""

    def happens(self, world: World) -> None:
        for watcher in world.watchers():
            watcher.repeat()


@dataclass(frozen=True, slots=True)
class WatchLags:
    """From now on each event of the watch arrives some seconds late."""

    seconds: float

    def happens(self, world: World) -> None:
        world.service.watch_delay = self.seconds


@dataclass(frozen=True, slots=True)
class WatchIsForbidden:
    """The Node can't be watched any more, or it can be watched again (possible)."""

    possible: bool = False

    def happens(self, world: World) -> None:
        world.service.can_watch = self.possible
        for watcher in world.watchers():
            watcher.cut(0.0)


# The API server


@dataclass(frozen=True, slots=True)
class ServerFails:
    """The API server answers every request with this fault (a key of FAULTS, or "unreachable"; "" ends the fault).

    lost_answers, lost_requests: how many answers to PATCHes, and how many PATCHes, get lost.
    """

    fault: str = ""
    lost_answers: int = 0
    lost_requests: int = 0
    retry_after: float = 20.0

    def happens(self, world: World) -> None:
        server = world.server
        server.retry_after = self.retry_after
        server.fault, server.lost_answers, server.lost_requests = self.fault, self.lost_answers, self.lost_requests
        if self.fault == "unreachable":
            for watcher in world.watchers():
                watcher.cut(0.0)
        world.look()


@dataclass(frozen=True, slots=True)
class AdmissionDenies:
    """Admission begins to deny changes of these entries, and their readings change."""

    denies: tuple[Denies, ...]
    reading: Reading

    def happens(self, world: World) -> None:
        world.server.denies = self.denies
        world.look()
        for every in self.denies:
            HardwareChanges(view.resource_of(every.name), self.reading).happens(world)


@dataclass(frozen=True, slots=True)
class WebhookAlters:
    """A webhook begins to alter writes, and a reading changes."""

    alters: tuple[Alters, ...]
    name: str
    reading: Reading

    def happens(self, world: World) -> None:
        world.server.alters = self.alters
        world.look()
        HardwareChanges(self.name, self.reading).happens(world)


@dataclass(frozen=True, slots=True)
class OtherCapacitydStarts:
    """A capacityd on another machine has the same identity. Its readings are the same, except for this one."""

    name: str
    reading: Reading

    def happens(self, world: World) -> None:
        if not world.others:
            readings = {name: without_details(reading) for name, reading in world.machine.probe().items()}
            if self.name in readings:
                readings[self.name] = self.reading
            world.start_other(readings)


@dataclass(frozen=True, slots=True)
class OtherCapacitydStops:
    """The other machine's capacityd ends."""

    def happens(self, world: World) -> None:
        world.stop_others()
