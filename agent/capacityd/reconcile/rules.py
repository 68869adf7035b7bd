"""Decides what happens to one name, from its quantities on the Node, in the annotation and in the machine record. Pure.

The rules, in order of precedence:
- Refuse a registered device plugin's name, whatever the annotation and the machine record contain.
- While the device plugins are unknown, keep another writer's value of an owned key, and report it.
- capacityd owns a key if both the annotation, which others may write, and the machine record of this Node list it.
  While the annotation is lost, the machine record decides alone. Without a record of this Node, the annotation decides
  alone about configured names.
- Remove a key only if its value is the quantity in both records, or 0.
- An unknown reading never lowers or removes a key. It restores a lost or zeroed key if both records agree.
- Raise at once, lower late: the kubelet's next restart stops pods that no longer fit.
- Write allocatable together with capacity, with the same quantity: nothing reserves a share of an extended resource
  (MachineInfo in k8s.io/kubernetes, pkg/kubelet/nodestatus/setters.go).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from capacityd.model.node import NodeState, annotated_quantities, annotation_content, is_annotation_lost
from capacityd.model.plan import Action, MachineRecord
from capacityd.model.quantity import plain, whole_quantity
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.reconcile.facts import Facts


@dataclass(frozen=True, slots=True)
class CapacityEntry:
    """The quantities of one name: on the Node, in the Node's annotation, and in the machine record."""

    name: str
    current: str | None
    """The quantity in the Node's capacity; None if the key is absent."""
    allocatable: str | None
    """The quantity in the Node's allocatable; None if the key is absent."""
    annotated: int | None
    """The quantity in the annotation. It is the machine record's if the Node has that quantity, or if no other writer
    claims the key. None if neither lists the key."""
    recorded: int | None
    """The quantity in the machine record; equal to annotated if both agree. None unless both list the key."""

    @property
    def is_ours(self) -> bool:
        """Whether capacityd owns the key: both records list it."""
        return self.recorded is not None

    @property
    def confirmed(self) -> bool:
        """Whether both records contain the same quantity."""
        return self.recorded is not None and self.recorded == self.annotated

    def equals(self, quantity: int) -> bool:
        """Whether the quantity in the Node's capacity equals this one."""
        return self.current is not None and whole_quantity(self.current) == quantity


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a name. action and reason are as in Change."""

    action: Action
    desired: int | None
    """The quantity to publish; None: no quantity."""
    reason: str
    annotated: int | None
    """The quantity in the annotation after the write; None: the annotation does not list the name."""

    def lowers(self, entry: CapacityEntry) -> bool:
        """Whether this reduces capacity below both the current and the annotated quantity. Removing a 0 does not
        count."""
        if not self.action.writes:
            return False
        if self.desired is None:
            return not entry.equals(0)
        if entry.current is None:
            return False
        current = whole_quantity(entry.current)
        return (current is None or self.desired < current) and (
            entry.annotated is None or self.desired < entry.annotated
        )


def capacity_entries(
    node_state: NodeState, machine_record: MachineRecord | None, configured: Collection[str]
) -> list[CapacityEntry]:
    """The entries of all configured or published names, sorted. configured: the configured names."""
    published = published_quantities(node_state, machine_record)
    capacity, allocatable = node_state.capacity or {}, node_state.allocatable or {}
    entries = []
    for name in sorted({*configured, *published}):
        annotated = published.get(name)
        if annotated is None or (machine_record is None and name not in configured):
            recorded = None
        elif machine_record is None or machine_record.confirms(name, annotated):
            recorded = annotated
        else:
            recorded = machine_record.published.get(name)
        entries.append(CapacityEntry(name, capacity.get(name), allocatable.get(name), annotated, recorded))
    return entries


def published_quantities(node_state: NodeState, machine_record: MachineRecord | None) -> dict[str, int]:
    """Name -> published quantity: the annotation, and each quantity of the machine record that no other writer claims.

    So altering or removing the annotation does not make capacityd give up a key that still has its published quantity.
    """
    published = annotated_quantities(node_state.annotation)
    if machine_record is None:
        return published
    for name in machine_record.all_names:
        current = whole_quantity((node_state.capacity or {}).get(name, ""))
        if current is not None and machine_record.confirms(name, current):
            published[name] = current
        elif name in machine_record.published and not _may_be_claimed(name, node_state):
            published.setdefault(name, machine_record.published[name])
    return published


def _may_be_claimed(name: str, node_state: NodeState) -> bool:
    """Whether another writer may have taken over a key whose value is not the recorded one.

    A writer claims a key if it sets a different value and the annotation is valid but does not list the key. A lost
    annotation, a missing key, or a 0 (which may be the kubelet's) is no claim.
    """
    if is_annotation_lost(node_state.annotation) or name in annotation_content(node_state.annotation):
        return False
    current = (node_state.capacity or {}).get(name)
    return current is not None and whole_quantity(current) != 0


def decide(entry: CapacityEntry, facts: Facts) -> Decision:
    """Decides about one name."""
    return _restore_allocatable(entry, _decide_capacity(entry, facts), facts)


def _decide_capacity(entry: CapacityEntry, facts: Facts) -> Decision:
    reading = facts.readings.get(entry.name)
    if refusal := refuse_device_plugin(entry, facts) or _refuse_possible_device_plugin(entry, facts):
        return refusal
    if isinstance(reading, Quantity):
        return _publish(entry, reading.value, facts)
    if isinstance(reading, Unknown):
        return _keep_or_restore(entry, reading)
    if isinstance(reading, Absent):
        return unpublish(entry, reading.reason)
    # The name is no longer configured. A damaged or empty configuration is probably an accident.
    if not facts.policy.complete:
        reason = "kept: a configuration file can't be read, and may configure it"
        return Decision(Action.KEEP, None, reason, entry.annotated)
    if not facts.readings:
        reason = "kept, because no resource is configured at all; `capacityd withdraw` removes what was published"
        return Decision(Action.KEEP, None, reason, entry.annotated)
    return unpublish(entry, "no longer configured")


def refuse_device_plugin(entry: CapacityEntry, facts: Facts) -> Decision | None:
    """Refuses a name that a device plugin owns, because the kubelet writes the key. None if no plugin owns the name."""
    if facts.device_plugins is None or entry.name not in facts.device_plugins:
        return None
    if entry.annotated is None and not isinstance(facts.readings.get(entry.name), Quantity):
        return None
    return Decision(Action.REFUSE, None, "a device plugin has this name, so the kubelet writes the key", None)


def _refuse_possible_device_plugin(entry: CapacityEntry, facts: Facts) -> Decision | None:
    """Keeps an owned key that another writer changed while device plugins are unknown: a plugin may own the key now."""
    if facts.device_plugins is not None or entry.annotated is None or not entry.is_ours:
        return None
    if entry.current is None or entry.equals(entry.annotated):
        return None
    reading = facts.readings.get(entry.name)
    if isinstance(reading, Quantity) and entry.equals(reading.value):
        return None
    current = plain(entry.current)
    reason = f"another writer (a device plugin?) set it to {current}: the kubelet's list of plugins can't be read"
    return Decision(Action.REFUSE, None, reason, entry.annotated)


def _publish(entry: CapacityEntry, desired: int, facts: Facts) -> Decision:
    if entry.current is None:
        reason = f"missing from the Node, although {entry.annotated} was published" if entry.is_ours else "found"
        return Decision(Action.SET, desired, reason, desired)
    if entry.annotated is None or not entry.is_ours:
        return _take_over(entry, desired, facts)
    if entry.equals(desired):
        return Decision(Action.KEEP, desired, "as published", desired)
    if entry.equals(entry.annotated):
        return Decision(Action.SET, desired, "the reading changed", desired)
    if entry.equals(0):
        return Decision(Action.SET, desired, "restored: something else set it to 0 (a kubelet restart?)", desired)
    return Decision(Action.SET, desired, f"restored: another writer wrote {plain(entry.current)}", desired)


def _take_over(entry: CapacityEntry, desired: int, facts: Facts) -> Decision:
    """Refuses a key that capacityd does not own, whatever its value: a 0 may belong to a device plugin that returns."""
    if entry.name not in facts.policy.adopt:
        same = "the same value, but " if entry.equals(desired) else ""
        reason = f"{same}not published by capacityd; adopt = true takes it over"
        return Decision(Action.REFUSE, None, reason, entry.annotated)
    if facts.device_plugins is None:
        reason = "not adopted: the kubelet's list of device plugins can't be read, and the key may belong to one"
        return Decision(Action.REFUSE, None, reason, entry.annotated)
    return Decision(Action.KEEP if entry.equals(desired) else Action.SET, desired, "adopted", desired)


def _keep_or_restore(entry: CapacityEntry, reading: Unknown) -> Decision:
    if entry.annotated is None:
        return Decision(Action.KEEP, None, f"unknown: {reading.reason}", None)
    if entry.confirmed and (entry.current is None or (entry.equals(0) and entry.annotated != 0)):
        reason = f"restored as last published; unknown: {reading.reason}"
        return Decision(Action.SET, entry.annotated, reason, entry.annotated)
    return Decision(Action.KEEP, None, f"stays as it is; unknown: {reading.reason}", entry.annotated)


def _restore_allocatable(entry: CapacityEntry, decision: Decision, facts: Facts) -> Decision:
    """The decision, or a decision to write only allocatable, if capacity is as desired and capacityd owns the key.

    While device plugins are unknown, allocatable stays: a plugin may have reported unhealthy devices.
    """
    quantity = decision.annotated
    if decision.action is not Action.KEEP or quantity is None or facts.device_plugins is None:
        return decision
    ours = entry.confirmed or decision.desired is not None
    if not ours or not entry.equals(quantity) or plain(entry.allocatable) == str(quantity):
        return decision
    reason = f"allocatable restored to {quantity}: another writer set it to {plain(entry.allocatable)}"
    return Decision(Action.SET, quantity, reason, quantity)


def unpublish(entry: CapacityEntry, reason: str) -> Decision:
    """Decides about a name that must go, for this reason."""
    if entry.current is None and entry.confirmed and plain(entry.allocatable) in ("0", str(entry.annotated)):
        return Decision(Action.REMOVE, None, f"{reason}; allocatable still contains it", None)
    if entry.current is None or entry.annotated is None:
        return Decision(Action.KEEP, None, reason, None)
    if not entry.confirmed:
        reason += ", but this machine has no record of publishing it, so the key stays"
        return Decision(Action.REFUSE, None, reason, entry.annotated)
    is_zeroed = entry.equals(0)  # by a kubelet that has started
    if not entry.equals(entry.annotated) and not is_zeroed:
        published = entry.annotated
        reason += f", but another writer changed the published {published}, so the key stays"
        return Decision(Action.REFUSE, None, reason, None)
    return Decision(Action.REMOVE, None, reason, None)
