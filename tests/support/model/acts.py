"""The acts of a history: what happens to a machine, its service and its files in a simulated world (world.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.schema.config import Settings
from tests.support.model.machine import configuration
from tests.support.model.server import OURS
from tests.support.model.world import SYNC, World

COMPARED = 60.0
"""Seconds between two comparisons in which the service looks for changes that no event has reported."""


class Act(Protocol):
    """Something that happens in a world."""

    def happens(self, world: World) -> None:
        """Makes it happen. Time may pass."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Nothing happens for some seconds."""

    seconds: float

    def happens(self, world: World) -> None:
        world.run(self.seconds)


@dataclass(frozen=True, slots=True)
class HardwareChanges:
    """A reading changes. reason: the kind of event that reports the change. None: no event."""

    name: str
    reading: Reading
    reason: PassReason | None = PassReason.DEVICES
    valid_for: float | None = None
    """Seconds until the source of the reading is too old. None: there is no limit."""

    def happens(self, world: World) -> None:
        machine = world.machine
        was_unknown = isinstance(world.judge.ghosts.given.get(self.name), Unknown)
        machine.set_reading(self.name, self.reading, self.valid_for)
        if self.valid_for is not None:
            world.later(self.valid_for, world.look)
        if self.reason is PassReason.FILE and world.service.sources.used_up:
            world.unheard[self.name] = machine.uptime + COMPARED
            world.service.sources.found.add(PassReason.DEVICES)  # the comparison opens the sources again
        elif self.reason is None and not was_unknown:  # an unknown resource is read again and again
            world.unheard[self.name] = math.inf
        elif self.reason:
            world.hear(self.reason)


@dataclass(frozen=True, slots=True)
class HardwareFlaps:
    """A reading changes several times, with pauses in seconds."""

    name: str
    readings: tuple[Reading, ...]
    pause: float

    def happens(self, world: World) -> None:
        for reading in self.readings:
            HardwareChanges(self.name, reading).happens(world)
            world.run(self.pause)


@dataclass(frozen=True, slots=True)
class FileIsReplaced:
    """A mount over its folder hides a watched file, and shows another one. No event reports this."""

    name: str
    reading: Reading

    def happens(self, world: World) -> None:
        world.machine.set_reading(self.name, self.reading)
        world.unheard[self.name] = world.uptime + COMPARED
        world.service.sources.found.add(PassReason.FILE)


@dataclass(frozen=True, slots=True)
class InotifyIsUsedUp:
    """No file can be watched any more (used_up), or files can be watched again."""

    used_up: bool = True

    def happens(self, world: World) -> None:
        world.service.sources.used_up = self.used_up
        if self.used_up:
            next_comparison = world.uptime + COMPARED  # finds what has changed without an event
            world.unheard = {name: min(until, next_comparison) for name, until in world.unheard.items()}


@dataclass(frozen=True, slots=True)
class ConfigurationChanges:
    """Another configuration is installed, and the service reloads it."""

    names: frozenset[str] = frozenset(OURS[:2])
    adopt: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    labelled: frozenset[str] = frozenset()
    settings: Settings = field(default_factory=Settings)
    complete: bool = True

    def happens(self, world: World) -> None:
        world.configure(
            configuration(self.names, self.adopt, self.broken, self.labelled, self.settings, complete=self.complete)
        )


@dataclass(frozen=True, slots=True)
class ClockIsSet:
    """The clock jumps by some seconds."""

    seconds: float

    def happens(self, world: World) -> None:
        world.machine.booted += self.seconds
        world.hear(PassReason.RESUME)


@dataclass(frozen=True, slots=True)
class MachineReboots:
    """The machine reboots. Its kubelet starts after the delay in seconds. zeroes: the kubelet sets capacity to 0."""

    zeroes: bool = False
    delay: float = 0.4

    def happens(self, world: World) -> None:
        world.reboot()
        world.start_kubelet(zeroes=self.zeroes, delay=self.delay)


@dataclass(frozen=True, slots=True)
class MachineIsSuspended:
    """The machine sleeps for some seconds."""

    seconds: float

    def happens(self, world: World) -> None:
        world.suspend(self.seconds)


@dataclass(frozen=True, slots=True)
class ServiceRestarts:
    """The service is started again."""

    def happens(self, world: World) -> None:
        world.restart_service()


@dataclass(frozen=True, slots=True)
class WorkerIsKilled:
    """The next worker is killed while it publishes a change. point: the number of kill points that it survives."""

    point: int
    name: str
    reading: Reading

    def happens(self, world: World) -> None:
        world.machine.kill_at = self.point
        HardwareChanges(self.name, self.reading, PassReason.RESUME).happens(world)


@dataclass(frozen=True, slots=True)
class PluginListChanges:
    """The kubelet's list of device plugins becomes readable or unreadable. reported: whether an event reports it."""

    readable: bool
    reported: bool = True

    def happens(self, world: World) -> None:
        world.machine.plugins_readable = self.readable
        if self.reported:
            world.hear(PassReason.NODE)


@dataclass(frozen=True, slots=True)
class PluginComes:
    """A device plugin registers. The kubelet's list has its name at once, the Node later (synced: also at once)."""

    name: str
    count: int
    synced: bool = True

    def happens(self, world: World) -> None:
        world.plugins[self.name] = self.count
        world.machine.device_plugins.add(self.name)
        world.hear(PassReason.NODE)
        world.later(SYNC, world.sync)
        if self.synced:  # the kubelet's next write was due
            world.sync()


@dataclass(frozen=True, slots=True)
class PluginLeaves:
    """A device plugin ends. Its key becomes 0 at once. The kubelet's list drops its name later."""

    name: str

    def happens(self, world: World) -> None:
        if world.plugins.pop(self.name, None) is not None:
            world.server.write(self.name, "0")
            world.later(SYNC, lambda: world.forget_plugin(self.name))


@dataclass(frozen=True, slots=True)
class AllCausesEnd:
    """All troubles end, mostly without an event. Values that others have written stay."""

    def happens(self, world: World) -> None:
        world.end_causes()


def has(name: str, quantity: int) -> HardwareChanges:
    """The machine has this number of a resource's devices."""
    return HardwareChanges(name, Quantity(quantity))
