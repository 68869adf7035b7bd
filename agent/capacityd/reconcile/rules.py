"""Decides what happens to one name, from its quantities on the Node, in the annotation and in the machine record. Pure.

The rules, in order of precedence:
- Refuse a registered device plugin's name, whatever the annotation and the machine record contain.
- While the device plugins are unknown, keep another writer's value of an owned key, and report it.
- capacityd owns a key if the annotation and the machine record of this Node list it. (Others may write the annotation.)
  While the annotation is lost, the machine record decides alone. Without a record of this Node, the annotation decides
  alone about configured names.
- Remove a key only if the annotation and the machine record agree, and its value is their quantity or 0.
- An unknown reading never lowers or removes a key. It restores a key that is missing or 0 on the Node if the annotation
  and the machine record agree.
- Raise at once, lower late: the kubelet's next restart stops pods that no longer fit.
- A label follows the quantity that stays published as its resource, so it needs no delay of its own. The kubelet
  never sets a label to 0.
- Write allocatable together with capacity, with the same quantity: nothing reserves a share of an extended resource
  (MachineInfo in k8s.io/kubernetes, pkg/kubelet/nodestatus/setters.go).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from capacityd.model.device_plugins import CHECKPOINT_UNREADABLE
from capacityd.model.label import is_label
from capacityd.model.node import NodeState, annotated_quantities, annotation_content, is_annotation_lost
from capacityd.model.plan import HOW_TO_WITHDRAW, Action, MachineRecord
from capacityd.model.quantity import plain
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.step import CapacityEntry, Step


def capacity_entries(
    node_state: NodeState, machine_record: MachineRecord | None, configured: Collection[str]
) -> list[CapacityEntry]:
    """The entries of all configured or published names, sorted. configured: the configured resources and labels."""
    published = published_quantities(node_state, machine_record)
    entries = []
    for name in sorted({*configured, *published}):
        current = node_state.stored(name)
        # A label has no allocatable, so its value stands for both quantities.
        allocatable = current if is_label(name) else (node_state.allocatable or {}).get(name)
        quantity = published.get(name)
        recorded: int | None = None
        if quantity is not None:
            recorded = _recorded(name, quantity, machine_record, is_configured=name in configured)
        entries.append(
            CapacityEntry(name, current=current, allocatable=allocatable, published=quantity, recorded=recorded)
        )
    return entries


def _recorded(name: str, published: int, machine_record: MachineRecord | None, *, is_configured: bool) -> int | None:
    """The quantity in the machine record, for a name with this published quantity; None: capacityd does not own the
    key."""
    if machine_record is None:  # the annotation alone decides, but only about configured names
        return published if is_configured else None
    if machine_record.confirms(name, published):  # this quantity may only be intended
        return published
    return machine_record.published.get(name)


def published_quantities(node_state: NodeState, machine_record: MachineRecord | None) -> dict[str, int]:
    """Name -> published quantity: the annotation, and each quantity of the machine record that no other writer claims.

    So altering or removing the annotation does not make capacityd give up a key that still has its published quantity.
    A key that the record only lists as intended counts if the annotation lists it, too: a write that was carried out
    has changed both the key and the annotation. Otherwise, the key is another writer's.
    """
    annotated = annotated_quantities(node_state.annotation)
    if machine_record is None:
        return annotated
    published = dict(annotated)
    intended = machine_record.intended.keys() & annotated.keys()
    for name in machine_record.published.keys() | intended:
        current = node_state.number(name)
        if current is not None and machine_record.confirms(name, current):
            published[name] = current
        elif name not in annotated and not _may_be_claimed(name, node_state):
            published[name] = machine_record.published[name]  # a name that is only intended is annotated
    return published


def _may_be_claimed(name: str, node_state: NodeState) -> bool:
    """Whether another writer may have taken over a key whose value is not the recorded one.

    A writer claims a key if it sets a different value and the annotation is valid but does not list the key. A lost
    annotation, a missing key, or a 0 (which may be the kubelet's) is no claim.
    """
    if is_annotation_lost(node_state.annotation) or name in annotation_content(node_state.annotation):
        return False
    if node_state.stored(name) is None:
        return False
    return is_label(name) or node_state.number(name) != 0


def decide(entry: CapacityEntry, facts: Facts) -> Step:
    """Decides about one name. No limit and no denial counts here: see limits.py."""
    step = _restore_allocatable(_decide_capacity(entry, facts), facts)
    return replace(step, reading=facts.readings.get(entry.name))


def _decide_capacity(entry: CapacityEntry, facts: Facts) -> Step:
    """Decides about a resource's capacity, or about a label."""
    refusal = refuse_device_plugin(entry, facts) or _refuse_changed_key(entry, facts)
    if refusal is not None:
        return refusal
    reading = facts.readings.get(entry.name)
    if isinstance(reading, Quantity):
        return _publish(entry, reading.value, facts)
    if isinstance(reading, Unknown):
        return _keep_or_restore(entry, reading)
    if isinstance(reading, Absent):
        return unpublish(entry, reading.reason)
    # The name is no longer configured. A damaged or empty configuration is probably an accident.
    if not facts.config.complete:
        return _keep(entry, "kept: a configuration file can't be read, and may configure it")
    if not facts.readings:
        return _keep(entry, f"kept, because no resource is configured at all; to remove it: {HOW_TO_WITHDRAW}")
    return unpublish(entry, "no longer configured")


def refuse_device_plugin(entry: CapacityEntry, facts: Facts) -> Step | None:
    """Refuses a name that a device plugin owns, because the kubelet writes the key. The annotation no longer lists the
    name then. None if no plugin owns the name, or if there is nothing to refuse."""
    if facts.device_plugins is None or entry.name not in facts.device_plugins:
        return None
    if entry.published is None and not isinstance(facts.readings.get(entry.name), Quantity):
        return None
    reason = "a device plugin has this name, so the kubelet writes the key; publish under another name"
    return Step(entry, Action.REFUSE, reason)


def _refuse_changed_key(entry: CapacityEntry, facts: Facts) -> Step | None:
    """Refuses an owned key that another writer changed while device plugins are unknown: a plugin may own the key now.
    None if this does not apply."""
    if facts.device_plugins is not None or entry.is_label:
        return None
    if entry.published is None or not entry.is_owned:
        return None
    if entry.current is None or entry.equals(entry.published):
        return None
    reading = facts.readings.get(entry.name)
    if isinstance(reading, Quantity) and entry.equals(reading.value):  # nothing is to be changed
        return None
    reason = f"another writer (a device plugin?) set it to {plain(entry.current)}: {CHECKPOINT_UNREADABLE}"
    return _refuse(entry, reason)


def _publish(entry: CapacityEntry, desired: int, facts: Facts) -> Step:
    if entry.current is None:
        missing = f"missing from the Node, although {entry.published} was published"
        return _set(entry, desired, reason=missing if entry.is_owned else "found")
    if entry.published is None or not entry.is_owned:
        return _take_over(entry, desired, facts)
    if entry.equals(desired):
        return _keep_as(entry, desired, "as published")
    if entry.equals(entry.published):
        return _set(entry, desired, "the reading changed")
    if entry.is_zeroed:
        return _set(entry, desired, "restored: something else set it to 0 (a kubelet restart?)")
    return _set(entry, desired, f"restored: another writer wrote {plain(entry.current)}")


def _take_over(entry: CapacityEntry, desired: int, facts: Facts) -> Step:
    """Adopts a key that capacityd does not own, if the configuration allows it. Otherwise refuses the key, whatever its
    value: a 0 may belong to a device plugin that returns."""
    if not facts.config.adopts(entry.name):
        same_value = "the same value, but " if entry.equals(desired) else ""
        return _refuse(entry, f"{same_value}not published by capacityd; adopt = true takes it over")
    if facts.device_plugins is None and not entry.is_label:
        return _refuse(entry, f"not adopted, because the key may belong to a device plugin: {CHECKPOINT_UNREADABLE}")
    if entry.equals(desired):
        return _keep_as(entry, desired, "adopted")
    return _set(entry, desired, "adopted")


def _keep_or_restore(entry: CapacityEntry, reading: Unknown) -> Step:
    """Keeps a key with an unknown reading. Restores the key if it is missing or 0 on the Node."""
    if entry.published is None:
        return _keep(entry, f"unknown: {reading.reason}")
    was_zeroed = entry.is_zeroed and entry.published != 0
    is_missing = entry.current is None
    if (is_missing or was_zeroed) and entry.is_confirmed:
        return _set(entry, entry.published, f"restored as last published; unknown: {reading.reason}")
    return _keep(entry, f"stays as it is; unknown: {reading.reason}")


def _restore_allocatable(step: Step, facts: Facts) -> Step:
    """The step; if it keeps a key whose capacity is right and whose allocatable is not, a step that restores
    allocatable.

    While device plugins are unknown, allocatable stays: a plugin may have reported unhealthy devices.
    """
    entry = step.entry
    quantity = step.annotated
    if step.action is not Action.KEEP or quantity is None or facts.device_plugins is None:
        return step
    is_published = step.desired is not None  # published before, or adopted by this step
    if not is_published and not entry.is_confirmed:
        return step
    allocatable = plain(entry.allocatable)
    is_capacity_right = entry.equals(quantity)
    is_allocatable_right = allocatable == str(quantity)
    if is_allocatable_right or not is_capacity_right:
        return step
    return _set(entry, quantity, f"allocatable restored to {quantity}: another writer set it to {allocatable}")


def unpublish(entry: CapacityEntry, reason: str) -> Step:
    """Decides about a name that must go, for this reason. A step without `annotated` takes the name out of the
    annotation."""
    if entry.current is None:
        # As for capacity: only the published quantity, or a 0 that may be the kubelet's, is removed.
        is_left_in_allocatable = plain(entry.allocatable) in ("0", str(entry.published))
        if is_left_in_allocatable and entry.is_confirmed:
            return Step(entry, Action.REMOVE, f"{reason}; allocatable still contains it")
        return Step(entry, Action.KEEP, reason)
    if entry.published is None:
        return Step(entry, Action.KEEP, reason)
    if not entry.is_confirmed:
        return _refuse(entry, f"{reason}, but this machine has no record of publishing it, so the key stays")
    if not entry.equals(entry.published) and not entry.is_zeroed:
        # This step takes the name out of the annotation: the key is the other writer's now.
        changed = f"{reason}, but another writer changed the published {entry.published}, so the key stays"
        return Step(entry, Action.REFUSE, changed)
    return Step(entry, Action.REMOVE, reason)


def _set(entry: CapacityEntry, quantity: int, reason: str) -> Step:
    """Publishes the quantity."""
    return Step(entry, Action.SET, reason, desired=quantity, annotated=quantity)


def _keep_as(entry: CapacityEntry, quantity: int, reason: str) -> Step:
    """Keeps a key that has the desired quantity."""
    return Step(entry, Action.KEEP, reason, desired=quantity, annotated=quantity)


def _keep(entry: CapacityEntry, reason: str) -> Step:
    """Keeps a key and the annotation as they are."""
    return Step(entry, Action.KEEP, reason, annotated=entry.published)


def _refuse(entry: CapacityEntry, reason: str) -> Step:
    """Refuses a key, and keeps the annotation as it is."""
    return Step(entry, Action.REFUSE, reason, annotated=entry.published)
