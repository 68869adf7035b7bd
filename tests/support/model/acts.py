"""The acts of a history: what happens to a machine, its service and its files in a simulated world (world.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.schema.config import Config
from tests.support.model.world import SYNC, World

P = ParamSpec("P")

COMPARISON_PERIOD = 60.0
"""Seconds between two comparisons in which the service looks for changes that no event has reported."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens in a world: a function, and its arguments besides the world."""

    function: Callable[..., None]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.function.__name__}{self.arguments}"

    def happens(self, world: World) -> None:
        """Makes it happen. Time may pass."""
        self.function(world, *self.arguments, **self.options)


def act(function: Callable[Concatenate[World, P], None]) -> Callable[P, Act]:
    """Turns a function into one that takes the same arguments except the world, and returns the act."""

    def act_with(*arguments: P.args, **options: P.kwargs) -> Act:
        return Act(function, arguments, options)

    act_with.__name__ = act_with.__qualname__ = function.__name__  # for hypothesis, which prints a failing history
    return act_with


@act
def wait(world: World, seconds: float) -> None:
    """Nothing happens for some seconds."""
    world.run(seconds)


@act
def change_reading(
    world: World,
    name: str,
    reading: Reading,
    reason: PassReason | None = PassReason.DEVICES,
    valid_for: float | None = None,
) -> None:
    """A reading changes.

    reason: the kind of event that reports the change. None: no event. valid_for: seconds until the source of the
    reading is too old. None: there is no limit.
    """
    was_unknown = isinstance(world.judge.memory.pass_readings.get(name), Unknown)
    world.machine.set_reading(name, reading, valid_for)
    if valid_for is not None:
        world.later(valid_for, world.tell_judge)
    if reason is PassReason.FILE and world.service.sources.used_up:
        world.unheard[name] = world.uptime + COMPARISON_PERIOD
        world.service.sources.found.add(PassReason.DEVICES)  # the comparison opens the sources again
    elif reason:
        world.hear(reason)
    elif not was_unknown:  # an unknown resource is read again and again
        world.unheard[name] = math.inf


def set_quantity(name: str, quantity: int) -> Act:
    """The machine's number of a resource's devices becomes this one."""
    return change_reading(name, Quantity(quantity))


@act
def change_reading_often(world: World, name: str, readings: tuple[Reading, ...], pause: float) -> None:
    """A reading changes several times, with pauses in seconds."""
    for reading in readings:
        change_reading(name, reading).happens(world)
        world.run(pause)


@act
def replace_file(world: World, name: str, reading: Reading) -> None:
    """A mount over its folder hides a watched file, and shows another one. No event reports this."""
    world.machine.set_reading(name, reading)
    world.unheard[name] = world.uptime + COMPARISON_PERIOD
    world.service.sources.found.add(PassReason.FILE)


@act
def use_up_inotify(world: World, used_up: bool = True) -> None:
    """No file can be watched any more (used_up), or files can be watched again."""
    world.service.sources.used_up = used_up
    if used_up:
        next_comparison = world.uptime + COMPARISON_PERIOD  # finds what has changed without an event
        world.unheard = {name: min(until, next_comparison) for name, until in world.unheard.items()}


@act
def configure(world: World, config: Config) -> None:
    """Another configuration is installed, and the service reloads it."""
    world.configure(config)


@act
def set_clock(world: World, seconds: float) -> None:
    """Somebody sets the machine's clock forward by some seconds (negative: back)."""
    world.machine.booted += seconds  # the clock's time of the boot, from which the machine computes the present time
    world.hear(PassReason.RESUME)


@act
def reboot(world: World, zeroes: bool = False, delay: float = 0.4) -> None:
    """The machine reboots. Its kubelet starts after the delay in seconds. zeroes: the kubelet sets capacity to 0."""
    world.reboot()
    world.start_kubelet(zeroes=zeroes, delay=delay)


@act
def suspend(world: World, seconds: float) -> None:
    """The machine sleeps for some seconds."""
    world.suspend(seconds)


@act
def restart_service(world: World) -> None:
    """The service is started again."""
    world.restart_service()


@act
def kill_worker(world: World, point: int, name: str, reading: Reading) -> None:
    """The next worker is killed while it publishes a change. point: the number of kill points that it survives."""
    world.machine.kill_at = point
    change_reading(name, reading, PassReason.RESUME).happens(world)


@act
def change_plugin_list(world: World, readable: bool, reported: bool = True) -> None:
    """The kubelet's list of device plugins becomes readable or unreadable. reported: whether an event reports it."""
    world.machine.plugins_readable = readable
    if reported:
        world.hear(PassReason.NODE)


@act
def start_plugin(world: World, name: str, count: int, synced: bool = True) -> None:
    """A device plugin registers. The kubelet's list has its name at once, the Node later (synced: also at once)."""
    world.plugins[name] = count
    world.machine.device_plugins.add(name)
    world.hear(PassReason.NODE)
    world.later(SYNC, world.sync)
    if synced:  # the kubelet's next write was due
        world.sync()


@act
def end_plugin(world: World, name: str) -> None:
    """A device plugin ends. Its key becomes 0 at once. The kubelet's list drops its name later."""
    if world.plugins.pop(name, None) is not None:
        world.server.write(name, "0")
        world.later(SYNC, lambda: world.forget_plugin(name))


@act
def end_causes(world: World) -> None:
    """All troubles end, mostly without an event. Values that others have written stay."""
    world.end_causes()
