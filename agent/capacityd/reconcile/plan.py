"""Makes the plan for a Node: what happens to each name, what is written now, and what waits. Pure.

The annotation is untrusted input: only valid extended resource names in it count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capacityd.model.label import label_of
from capacityd.model.node import ConditionReason, NodeState, annotated_quantities
from capacityd.model.plan import Action, Health, MachineRecord, Plan, Reported, Write
from capacityd.model.quantity import plain
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.reconcile.condition import DesiredCondition, desired_condition
from capacityd.reconcile.events import reported_after, reported_before
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.health import health_after
from capacityd.reconcile.limits import make_step, metadata_limit
from capacityd.reconcile.other_agent import is_contradicted
from capacityd.reconcile.patch import REMOVED, patch_for
from capacityd.reconcile.rules import capacity_entries, published_quantities, refuse_device_plugin, unpublish
from capacityd.reconcile.step import CapacityEntry, Step


def make_plan(node_state: NodeState, facts: Facts) -> Plan:
    """Decides what to set, remove, keep, hold, refuse and deny on this Node, each with a reason, and what to write
    now."""
    facts = facts.of_node(node_state)
    memory, uptime = facts.memory, facts.uptime
    configured = (*facts.readings, *facts.config.labels())  # the names of the resources and of their labels
    entries = capacity_entries(node_state, facts.machine_record, configured)
    confirmed_record = MachineRecord(
        published={entry.name: entry.recorded for entry in entries if entry.recorded is not None},
        reported=reported_before(facts),
        node_uid=node_state.uid,
    )
    steps = [make_step(entry, facts) for entry in entries if not entry.is_label]
    # Labels repeat what the steps above leave published.
    facts_with_labels = replace(facts, readings={**facts.readings, **_label_readings(steps, facts)})
    steps += [make_step(entry, facts_with_labels) for entry in entries if entry.is_label]
    health = health_after(node_state, steps, facts)
    write = _write(node_state, steps, health=health, last_reported=confirmed_record.reported, facts=facts)
    waits = [step.wait for step in steps if step.wait]
    no_write = Write(
        patch=(),
        annotated=annotated_quantities(node_state.annotation),
        recorded=confirmed_record.published,
        reported=confirmed_record.reported,
    )
    changes_quantities = any(step.action.writes for step in steps)
    limit = metadata_limit(facts)
    if facts.observe:
        write = replace(no_write, recorded=None)  # the record keeps the intention of an earlier write without response
    elif write.patch and not changes_quantities and uptime < limit.until:  # only the condition and annotations change
        write = no_write
        waits.append(limit)
    return Plan(
        node=node_state.name,
        changes=tuple(step.change for step in steps),
        write=write if facts.keeps_record(node_state) else replace(write, recorded=None),
        confirmed_record=confirmed_record,
        waits=tuple(waits),
        lower_since={step.name: memory.lower_since.get(step.name, uptime) for step in steps if step.lowers},
        less_allocatable={
            step.name: plain(step.entry.allocatable)
            for step in steps
            if step.allocatable_was_less and not facts.observe
        },
        # While the device plugins are unknown, changed keys are refused, and allocatable is not restored.
        awaits_device_plugins=facts.device_plugins is None and bool(health.refused or health.not_allocatable),
        is_contradicted=is_contradicted(node_state, facts, replace(health, other_agent=None)),
        health=health,
        has_condition=facts.config.settings.condition and not facts.observe,
    )


def _label_readings(steps: Sequence[Step], facts: Facts) -> dict[str, Reading]:
    """Name of a label -> what to publish there: the quantity that stays published as the label's resource.

    steps: the resources' steps. While a resource is unknown, its label stays as it is. This includes a resource with an
    error in the configuration: then it is not known whether a label is configured.
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


def _write(
    node_state: NodeState, steps: Sequence[Step], *, health: Health, last_reported: Reported, facts: Facts
) -> Write:
    """What to write now: the changes that no limit holds back, the annotations, the condition and the machine record.

    last_reported: what Events have already reported.
    """
    changes = tuple(step.change for step in steps)
    annotated = {step.name: step.annotated for step in steps if step.annotated is not None}
    keeps_condition = facts.config.settings.condition  # otherwise, the patch removes the condition
    condition: DesiredCondition | None = None  # None: the condition stays as it is
    configuration: str | None = None  # None: the hash on the Node stays as it is
    if changes or node_state.condition:  # the Node concerns capacityd
        heartbeat_after = facts.heartbeat_after
        if health.other_agent and any(change.action.writes for change in changes):
            # The other agent may have published the same numbers. Then it sees this write only by a new heartbeat.
            heartbeat_after = 0.0
        condition = desired_condition(node_state, health, now=facts.now, heartbeat_after=heartbeat_after)
        configuration = facts.config.digest or None  # "" would remove the hash
    patch = patch_for(
        node_state,
        changes,
        annotated=annotated,
        configuration=configuration,
        condition=condition if keeps_condition else REMOVED,
    )
    sets_true = keeps_condition and condition is not None and condition.is_true
    condition_follows = False
    if sets_true and _was_denied(node_state):
        # The API server may deny again what it has denied, or a webhook may alter it. So a second patch sets the
        # condition to True, once the API server has stored everything else. If nothing else changes, one is enough.
        everything_else = patch_for(
            node_state, changes, annotated=annotated, configuration=configuration, condition=None
        )
        if everything_else:
            patch, condition = everything_else, None
            condition_follows = True
    reported = reported_after(node_state, health, last_reported, facts)
    no_longer_below = last_reported.below_expected - reported.below_expected
    return Write(
        patch=patch,
        annotated=annotated,
        condition=_condition_after(node_state, condition) if keeps_condition else None,
        condition_follows=condition_follows,
        recorded={step.name: step.recorded for step in steps if step.recorded is not None},
        reported=reported,
        recovered=tuple(sorted(no_longer_below & facts.config.expectations().keys())),  # not if `expect` is gone
    )


def _was_denied(node_state: NodeState) -> bool:
    """Whether the condition says that the API server has denied something."""
    condition = node_state.condition
    return condition is not None and condition.reason in (ConditionReason.DENIED.value, ConditionReason.REJECTED.value)


def _condition_after(node_state: NodeState, condition: DesiredCondition | None) -> tuple[str, str] | None:
    """Reason and status of the Node's condition after a write. condition: what the write sets; None: nothing."""
    if condition is not None:
        return condition.reason.value, condition.status
    if node_state.condition is not None:
        return node_state.condition.reason, node_state.condition.status
    return None


def make_withdrawal(node_state: NodeState, facts: Facts) -> Plan:
    """Plans to remove everything that this machine has published, and the condition. Other writers' values stay.

    With a machine record, only keys that the record confirms are removed. A key that only the annotation lists stays on
    the Node and in the annotation: this machine may have published the key before the machine got a new image. Without
    a record (a purged package), every key in the annotation counts as published by this machine. A key whose removal
    the API server denies stays in the annotation and in the record.
    """
    machine_record = _record_for_withdrawal(node_state, facts.machine_record)
    published = published_quantities(node_state, machine_record)
    steps = [_withdraw(entry, facts) for entry in capacity_entries(node_state, machine_record, published)]
    changes = tuple(step.change for step in steps)
    annotated = {step.name: step.annotated for step in steps if step.annotated is not None}
    patch = patch_for(
        node_state,
        changes,
        annotated=annotated,
        configuration="",  # remove the hash
        condition=REMOVED,
    )
    record_before = MachineRecord(
        published={step.name: step.entry.recorded for step in steps if step.entry.recorded is not None},
        node_uid=node_state.uid,
    )
    recorded_after = {
        name: quantity for name, quantity in annotated.items() if _is_confirmed(name, quantity, machine_record)
    }
    return Plan(
        node=node_state.name,
        changes=changes,
        write=Write(patch, annotated=annotated, recorded=recorded_after),
        confirmed_record=record_before,
        health=Health(denied={change.name: change.reason for change in changes if change.action is Action.DENY}),
    )


def _withdraw(entry: CapacityEntry, facts: Facts) -> Step:
    """The step of a withdrawal for one name. facts.denied: the removals that the API server has denied."""
    step = refuse_device_plugin(entry, facts) or unpublish(entry, "withdrawn")
    if step.action is Action.REMOVE and step.name in facts.denied:
        return Step(entry, Action.DENY, facts.denied[step.name], annotated=entry.published)
    return step


def only_annotated(node_state: NodeState, machine_record: MachineRecord | None) -> list[str]:
    """The keys on the Node that the annotation lists but this machine's record does not confirm: a withdrawal leaves
    them. Without a record, the annotation alone decides, so the list is empty."""
    machine_record = _record_for_withdrawal(node_state, machine_record)
    return [
        name
        for name, quantity in published_quantities(node_state, machine_record).items()
        if node_state.stored(name) is not None and not _is_confirmed(name, quantity, machine_record)
    ]


def _record_for_withdrawal(node_state: NodeState, machine_record: MachineRecord | None) -> MachineRecord | None:
    """The record by which a withdrawal decides.

    - No record: None. The annotation alone decides.
    - A record of this Node: the record itself.
    - A record of another Node: an empty record, because the other Node's record confirms no key of this Node.
    """
    if machine_record is None:
        return None
    return machine_record.of_node(node_state.uid) or MachineRecord(node_uid=node_state.uid)


def _is_confirmed(name: str, quantity: int, machine_record: MachineRecord | None) -> bool:
    """Whether a withdrawal takes the annotated quantity for this machine's. machine_record: from
    _record_for_withdrawal()."""
    return machine_record is None or machine_record.confirms(name, quantity)
