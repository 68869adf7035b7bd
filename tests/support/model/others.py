"""The acts of others in a history: other writers of the Node, the API server, the connection, another capacityd."""

from __future__ import annotations

from capacityd.model.reading import Absent, Quantity, Reading, without_details
from tests.support.denials import Alters, Denies
from tests.support.judge import node_view as view
from tests.support.model.acts import Act, act, change_reading
from tests.support.model.server import Document
from tests.support.model.world import SYNC, World
from tests.support.nodes import merge

# Other writers of the Node


@act
def write(world: World, name: str, value: str | None) -> None:
    """Another writer sets or removes a key of capacity, or a label."""
    world.server.write(name, value)


@act
def write_allocatable(world: World, name: str, value: str | None) -> None:
    """Another writer sets or removes a key of allocatable. The kubelet's next report reverts it."""
    world.server.change(lambda node: merge(node["status"]["allocatable"], {name: value}))
    world.later(SYNC, world.sync)


@act
def annotate(world: World, text: str | None) -> None:
    """Another writer sets or removes capacityd's annotation."""
    world.server.annotate(text)


@act
def write_and_annotate(world: World, name: str, value: str | None, text: str | None) -> None:
    """Another writer sets or removes a key of capacity, or a label, and capacityd's annotation."""
    world.server.write(name, value)
    world.server.annotate(text)


@act
def add_condition(world: World, ours: bool = True) -> None:
    """Another writer adds a condition of another type or (ours) of capacityd's type, if the Node has none of it yet."""
    condition = {"type": view.CONDITION, "status": "True", "reason": "Published", "message": "not ours"}
    if not ours:
        world.server.change(lambda node: node["status"]["conditions"].insert(0, {"type": "Other", "status": "True"}))
    elif not world.server.condition:
        world.server.change(lambda node: node["status"]["conditions"].append(condition))


@act
def change_condition(world: World, removed: bool = False) -> None:
    """Another writer changes or removes capacityd's condition."""

    def edit(node: Document) -> None:
        conditions = node["status"]["conditions"]
        for condition in view.conditions(node):
            conditions.remove(condition)
            if not removed:
                conditions.append({**condition, "message": "not ours"})

    world.server.change(edit)


@act
def delete_node(world: World) -> None:
    """Somebody deletes the Node."""
    world.server.delete()


@act
def register_node_anew(world: World, key: str = "") -> None:
    """The Node is deleted, and a starting kubelet creates it again. key: another writer sets this key as before."""
    value = world.server.capacity.get(key)
    world.server.delete()
    world.start_kubelet()
    if key:
        world.server.write(key, value)


@act
def zero(world: World) -> None:
    """A kubelet sets every extended resource to 0."""
    world.server.zero()


@act
def restart_kubelet(world: World, zeroes: bool = False, delay: float = 0.0) -> None:
    """The kubelet restarts, and reports after the delay in seconds. zeroes: it also sets capacity to 0."""
    world.start_kubelet(zeroes=zeroes, delay=delay)


@act
def report_allocatable(world: World, names: frozenset[str], allocatable: str = "0") -> None:
    """From now on the kubelet reports this allocatable for these resources."""
    world.make_unhealthy(dict.fromkeys(names, allocatable))


@act
def just_before_a_patch(world: World, of_others: Act, change: Act) -> None:
    """The machine publishes a change. Just before its PATCH arrives, an act of others happens."""
    world.server.before_patch.append(lambda: of_others.happens(world))
    change.happens(world)


@act
def publish_the_same(world: World, name: str, quantity: int, lost: bool = False) -> None:
    """Another writer creates a key just before capacityd, with the same number. lost: no answer to the next GET."""
    change_reading(name, Absent("none")).happens(world)
    world.run(15.0)

    def write_same() -> None:
        world.server.write(name, str(quantity))
        world.server.lost["gets"] = int(lost)
        world.tell_judge()

    world.server.before_patch.append(write_same)
    change_reading(name, Quantity(quantity)).happens(world)


@act
def back_up_cluster(world: World) -> None:
    """The cluster's state is saved."""
    world.back_up()


@act
def restore_cluster(world: World) -> None:
    """The cluster is restored from its backup, and all connections end."""
    world.restore()
    for watcher in world.watchers():
        watcher.cut(0.5)


# The connection


@act
def cut_watch(world: World, pause: float) -> None:
    """The watch ends. pause: seconds until the next connection."""
    for watcher in world.watchers():
        watcher.cut(pause)


@act
def hang_watch(world: World, seconds: float) -> None:
    """For some seconds nothing arrives on the watch, but it stays open."""
    for watcher in world.watchers():
        watcher.hang(seconds)


@act
def repeat_watch(world: World) -> None:
    """The API server sends the Node again."""
    for watcher in world.watchers():
        watcher.repeat()


@act
def delay_watch(world: World, seconds: float) -> None:
    """From now on each event of the watch arrives some seconds late."""
    world.service.watch_delay = seconds


@act
def allow_watch(world: World, allowed: bool) -> None:
    """The Node can't be watched any more, or it can be watched again (allowed)."""
    world.service.can_watch = allowed
    for watcher in world.watchers():
        watcher.cut(0.0)


# The API server


@act
def set_fault(
    world: World, fault: str = "", lost_answers: int = 0, lost_requests: int = 0, retry_after: float = 20.0
) -> None:
    """The API server answers every request with this fault (a key of FAULTS, or "unreachable"; "" ends the fault).

    lost_answers, lost_requests: how many answers to PATCHes, and how many PATCHes, get lost. retry_after: in seconds.
    """
    server = world.server
    server.fault, server.retry_after = fault, retry_after
    server.lost["answers"], server.lost["requests"] = lost_answers, lost_requests
    if fault == "unreachable":
        for watcher in world.watchers():
            watcher.cut(0.0)
    world.tell_judge()


@act
def deny(world: World, denies: tuple[Denies, ...], reading: Reading) -> None:
    """Admission begins to deny changes of these entries, and their readings change."""
    world.server.denies = denies
    world.tell_judge()
    for denied in denies:
        change_reading(view.resource_of(denied.name), reading).happens(world)


@act
def alter(world: World, alters: tuple[Alters, ...], name: str, reading: Reading) -> None:
    """A webhook begins to alter writes, and a reading changes."""
    world.server.alters = alters
    world.tell_judge()
    change_reading(name, reading).happens(world)


@act
def start_other_capacityd(world: World, name: str, reading: Reading) -> None:
    """A capacityd on another machine has the same identity. Its readings are the same, except for this one."""
    if not world.others:
        readings = {resource: without_details(known) for resource, known in world.machine.probe().items()}
        if name in readings:
            readings[name] = reading
        world.start_other(readings)


@act
def stop_other_capacityd(world: World) -> None:
    """The other machine's capacityd ends."""
    world.stop_others()
