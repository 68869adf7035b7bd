"""Makes the plan for a Node: what happens to each name, what is written now, and what waits. Pure.

The annotation is untrusted input: only valid extended resource names in it count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capacityd.model.label import label_of
from capacityd.model.node import NodeState, annotated_quantities
from capacityd.model.plan import Action, Health, MachineRecord, Plan, Reported, Write
from capacityd.model.quantity import plain, whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.reconcile.condition import desired_condition
from capacityd.reconcile.events import reported_after, reported_before
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.limits import make_step, write_limit
from capacityd.reconcile.other_agent import other_agent
from capacityd.reconcile.patch import REMOVED, patch_for
from capacityd.reconcile.rules import capacity_entries, published_quantities, refuse_device_plugin, unpublish
from capacityd.reconcile.step import CapacityEntry, Step, is_less


def make_plan(node_state: NodeState, facts: Facts) -> Plan:
    """Decides what to set, remove, keep, hold, refuse and deny on this Node, each with a reason, and what to write
    now."""
    facts = facts.of_node(node_state)
    memory, uptime = facts.memory, facts.uptime
    configured = (*facts.readings, *facts.config.labels())
    entries = capacity_entries(node_state, facts.machine_record, configured)
    recorded_before = {entry.name: entry.recorded for entry in entries if entry.recorded is not None}
    steps = [make_step(entry, facts) for entry in entries if not entry.is_label]
    of_labels = replace(facts, readings={**facts.readings, **_label_readings(steps, facts)})
    steps += [make_step(entry, of_labels) for entry in entries if entry.is_label]
    health, last = health_after(node_state, steps, facts), reported_before(facts)
    write = _write(node_state, steps, health, last, facts)
    waits = [step.wait for step in steps if step.wait]
    limit, changes_quantities = write_limit("", facts), any(step.action.writes for step in steps)
    if write.patch and not changes_quantities and limit.until > uptime and not facts.observe:
        waits.append(limit)
    if facts.observe or limit in waits:
        write = Write((), annotated_quantities(node_state.annotation), recorded=recorded_before, reported=last)
    return Plan(
        node=node_state.name,
        changes=tuple(step.change for step in steps),
        write=write if facts.keeps_record else replace(write, recorded=None),
        recorded_before=recorded_before,
        reported_before=last,
        waits=tuple(waits),
        lower_since={step.name: memory.lower_since.get(step.name, uptime) for step in steps if step.lowers},
        less_allocatable={
            step.name: plain(step.entry.allocatable)
            for step in steps
            if step.allocatable_was_less and not facts.observe
        },
        health=health,
        has_condition=facts.config.settings.condition and not facts.observe,
        node_uid=node_state.uid,
    )


def _label_readings(steps: Sequence[Step], facts: Facts) -> dict[str, Reading]:
    """The quantities for labels: those that stay published as the resources. steps: the resources' steps.

    While a resource is unknown, its label stays as it is, even if it may not be configured.
    """
    configured = facts.config.labels()
    readings: dict[str, Reading] = {}
    for step in steps:
        label = label_of(step.name)
        if isinstance(step.reading, Unknown):
            readings[label] = step.reading
        elif label in configured:
            unpublished = Absent(f"{step.name} is not published")
            readings[label] = unpublished if step.annotated is None else Quantity(step.annotated)
    return readings


def _write(node_state: NodeState, steps: Sequence[Step], health: Health, last: Reported, facts: Facts) -> Write:
    """The changes to write now, except those that a limit holds back. last: what Events have already reported."""
    changes = tuple(step.change for step in steps)
    annotated = {step.name: step.annotated for step in steps if step.annotated is not None}
    has_condition = facts.config.settings.condition
    concerned, now = bool(changes or node_state.condition), facts.now
    condition = desired_condition(node_state, health, now, facts.heartbeat_after) if concerned else None
    configuration = (facts.config.digest or None) if concerned else None
    patch = patch_for(node_state, changes, annotated, configuration, condition if has_condition else REMOVED)
    reported = reported_after(health, last, facts)
    return Write(
        patch=patch,
        annotated=annotated,
        condition=(condition.reason.value, condition.status) if condition and has_condition else None,
        recorded={step.name: step.recorded for step in steps if step.recorded is not None},
        reported=reported,
        recovered=tuple(sorted((last.below_expected - reported.below_expected) & facts.config.expectations().keys())),
    )


def health_after(node_state: NodeState, steps: Sequence[Step], facts: Facts) -> Health:
    """What will be wrong with the Node after these steps."""
    # A refused removal counts until an Event has reported it. After the Event, capacityd no longer owns the key.
    lasting = {
        step.name: step.reason
        for step in steps
        if step.action is Action.REFUSE
        and (isinstance(step.reading, Quantity) or (step.annotated is not None and not step.unverified))
    }
    unknown = {name: r.reason for name, r in sorted(facts.readings.items()) if isinstance(r, Unknown)}
    return Health(
        configuration_errors=facts.configuration_errors,
        unwritable=facts.unrecordable,
        other_agent=other_agent(node_state, facts),
        unknown=unknown,
        refused=lasting,
        unverified=tuple(step.name for step in steps if step.unverified),
        denied={step.name: step.reason for step in steps if step.action is Action.DENY},
        not_configured=tuple(step.name for step in steps if _is_not_configured(step, facts)),
        below_expected={step.name: shortage for step in steps if (shortage := _below_expected(step, facts))},
        not_allocatable={step.name: less for step in steps if (less := _not_allocatable(step, facts))},
    )


def _is_not_configured(step: Step, facts: Facts) -> bool:
    """Whether a published key stays on the Node although nothing configures it.

    A configuration that could not be read may configure it. The condition reports that with another reason.
    """
    kept = step.action in (Action.KEEP, Action.SET) and step.annotated is not None
    return kept and step.reading is None and step.entry.current is not None and facts.config.complete


def _below_expected(step: Step, facts: Facts) -> tuple[int, int] | None:
    """(quantity, expected quantity) if the Node has less than expected. An unknown resource does not count as less."""
    expected = facts.config.expectations().get(step.name)
    if expected is None or not isinstance(step.reading, Quantity | Absent):
        return None
    if isinstance(step.reading, Absent) and not step.reading.applies:
        return None
    if step.action in (Action.REFUSE, Action.DENY):
        return None  # the condition reports this with another reason
    if step.action is Action.HOLD:
        quantity = whole_quantity(step.entry.current or "") or 0
    else:
        quantity = step.reading.value if isinstance(step.reading, Quantity) else 0
    return (quantity, expected) if quantity < expected else None


def _not_allocatable(step: Step, facts: Facts) -> tuple[str, str] | None:
    """(published quantity, allocatable) if allocatable is less after this plan, or if a recent repair did not last.

    So the condition is never set to True while less is allocatable than what is published.
    """
    published, allocatable = step.annotated, step.entry.allocatable
    if published is None or step.entry.is_label or step.action in (Action.REFUSE, Action.DENY):
        return None  # the condition reports this with another reason
    last = facts.memory.less_allocatable.get(step.name)
    recent = last if last and facts.uptime < last.over_at else None
    if step.action is Action.SET:
        is_reduced = recent is not None and recent.was_repaired and step.allocatable_was_less
    else:
        is_reduced = is_less(allocatable, published)
    if is_reduced:
        return str(published), plain(allocatable)
    return (str(published), recent.quantity) if recent and recent.repeated else None


def make_withdrawal(node_state: NodeState, facts: Facts) -> Plan:
    """Plans to remove everything that this machine has published, and the condition. Other writers' values stay.

    Without a machine record (a purged package), every key in the annotation counts as published by this machine. The
    annotation keeps a key if its removal is denied. The annotation also keeps a key that is not in the machine record:
    this machine may have published the key before the machine got a new image.
    """
    machine_record = _confirming(node_state, facts.machine_record)
    published = published_quantities(node_state, machine_record)
    steps = [_withdraw(entry, facts) for entry in capacity_entries(node_state, machine_record, published)]
    changes = tuple(step.change for step in steps)
    annotated = {step.name: step.annotated for step in steps if step.annotated is not None}
    patch = patch_for(node_state, changes, annotated, "", REMOVED)
    health = Health(denied={c.name: c.reason for c in changes if c.action is Action.DENY})
    write = Write(
        patch=patch,
        annotated=annotated,
        recorded={name: n for name, n in annotated.items() if not _is_unconfirmed(name, n, machine_record)},
    )
    recorded_before = {step.name: step.entry.recorded for step in steps if step.entry.recorded is not None}
    return Plan(node_state.name, changes, write, recorded_before, health=health, node_uid=node_state.uid)


def _withdraw(entry: CapacityEntry, facts: Facts) -> Step:
    step = refuse_device_plugin(entry, facts) or unpublish(entry, "withdrawn")
    if step.action is Action.REMOVE and step.name in facts.denied:
        return Step(entry, Action.DENY, facts.denied[step.name], annotated=entry.annotated)
    return step


def only_annotated(node_state: NodeState, machine_record: MachineRecord | None) -> list[str]:
    """The keys on the Node that the annotation lists but this machine's record does not confirm."""
    machine_record = _confirming(node_state, machine_record)
    return [
        name
        for name, quantity in published_quantities(node_state, machine_record).items()
        if node_state.stored(name) is not None and _is_unconfirmed(name, quantity, machine_record)
    ]


def _confirming(node_state: NodeState, machine_record: MachineRecord | None) -> MachineRecord | None:
    """The record by which a withdrawal decides: a record of another Node confirms no key of this one. None: missing."""
    if machine_record is None:
        return None
    return machine_record.of_node(node_state.uid) or MachineRecord(node_uid=node_state.uid)


def _is_unconfirmed(name: str, quantity: int, machine_record: MachineRecord | None) -> bool:
    return machine_record is not None and not machine_record.confirms(name, quantity)
