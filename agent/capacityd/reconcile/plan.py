"""Makes the plan for a Node: the steps, one for each name, and the patch that does them. Pure.

The annotation is input like any other: only valid extended resource names in it count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capacityd.model.node import NodeState, annotated_quantities
from capacityd.model.plan import Action, Health, MachineRecord, Plan
from capacityd.reconcile.condition import desired_condition
from capacityd.reconcile.health import health_after, reported_after, reported_before
from capacityd.reconcile.patch import REMOVED, patch_for
from capacityd.reconcile.plan_input import PlanInput
from capacityd.reconcile.rate_limit import metadata_not_before
from capacityd.reconcile.rules import (
    CapacityEntry,
    Decision,
    capacity_entries,
    published_quantities,
    refuse_device_plugin,
    unpublish,
)
from capacityd.reconcile.step import change_of, make_step


def make_plan(node_state: NodeState, inputs: PlanInput) -> Plan:
    """What to set, remove, keep, hold back, refuse and deny on this Node, with each reason, and the patch for it."""
    policy, context, lower_since = inputs.policy, inputs.context, inputs.state.lower_since
    entries = capacity_entries(node_state, context.machine_record, inputs.readings)
    steps = [make_step(entry, inputs) for entry in entries]
    changes = tuple(step.change for step in steps)
    annotated = {step.name: step.decision.annotated for step in steps if step.decision.annotated is not None}
    health, last_reported = health_after(steps, inputs), reported_before(node_state, inputs)
    reported = reported_after(health, last_reported, inputs)
    refused = tuple(change.name for change in changes if change.action is Action.REFUSE)

    concerned = bool(changes or node_state.condition)
    condition = desired_condition(node_state, health, context.now, policy.heartbeat_after) if concerned else None
    configuration = policy.configuration if concerned and policy.configuration else None
    patch = patch_for(node_state, changes, annotated, configuration, condition if policy.condition else REMOVED)
    plan = Plan(
        node=node_state.name,
        changes=changes,
        patch=patch.operations,
        writes_annotations=patch.writes_annotations,
        writes_condition=patch.writes_condition,
        condition=(condition.reason.value, condition.status) if condition and policy.condition else None,
        annotated=annotated,
        refused=refused,
        newly_refused=tuple(name for name in refused if name not in last_reported.refused),
        lower_since={step.name: lower_since.get(step.name, context.uptime) for step in steps if step.lowers},
        held={step.name: step.wait.until for step in steps if step.wait},
        less_allocatable=frozenset(step.name for step in steps if step.allocatable_was_less),
        recorded_before={entry.name: entry.recorded for entry in entries if entry.recorded is not None},
        recorded={step.name: step.recorded for step in steps if step.recorded is not None},
        health=health,
        reported_before=last_reported,
        reported=reported,
        recovered=tuple(sorted((last_reported.below_expected - reported.below_expected) & policy.expect.keys())),
        has_condition=policy.condition,
        node_uid=node_state.uid,
        device_plugins=None if inputs.device_plugins is None else tuple(sorted(inputs.device_plugins)),
    )
    held_until = metadata_not_before(inputs.state.write_times)
    if plan.patch and not plan.changed_names and held_until > context.uptime:
        plan = _without_metadata(plan, node_state, held_until)
    return plan if _keeps_record(inputs) else replace(plan, recorded=None)


def _without_metadata(plan: Plan, node_state: NodeState, held_until: float) -> Plan:
    """The plan while an update of the condition and the annotations has to wait, and nothing else is to be written."""
    return replace(
        plan,
        patch=(),
        writes_annotations=False,
        writes_condition=False,
        condition=None,
        annotated=annotated_quantities(node_state.annotation),
        newly_refused=(),
        metadata_held_until=held_until,
        recorded=plan.recorded_before,
        reported=plan.reported_before,
        recovered=(),
    )


def unwritten(plan: Plan, node_state: NodeState, lower_since: Mapping[str, float]) -> Plan:
    """The plan in observe mode: the annotation stays, and what is lower stays lower since the same moment."""
    since = {name: at for name, at in lower_since.items() if name in plan.changed_names}
    return replace(
        plan,
        annotated=annotated_quantities(node_state.annotation),
        lower_since={**since, **plan.lower_since},
        less_allocatable=frozenset(),
        condition=None,
        has_condition=False,
    )


def _keeps_record(inputs: PlanInput) -> bool:
    """Whether it is known what is ours, so that it can be recorded."""
    if inputs.context.machine_record_error:
        return False
    return inputs.context.machine_record is not None or (inputs.policy.complete and bool(inputs.readings))


def make_withdrawal(node_state: NodeState, inputs: PlanInput) -> Plan:
    """Removes what this machine has published, and the condition. Another writer's values stay.

    Without a machine record, every key that the annotation names counts as published by this machine. The annotation
    keeps a key whose removal is denied. It also keeps a key that the machine record does not name: this machine may
    have published it before it got a new image.
    """
    machine_record = inputs.context.machine_record
    published = published_quantities(node_state, machine_record)
    decisions = [(entry, _withdraw(entry, inputs)) for entry in capacity_entries(node_state, machine_record, published)]
    changes = tuple(change_of(entry, decision) for entry, decision in decisions)
    annotated = {entry.name: decision.annotated for entry, decision in decisions if decision.annotated is not None}
    refused = tuple(change.name for change in changes if change.action is Action.REFUSE)
    patch = patch_for(node_state, changes, annotated, "", REMOVED)
    return Plan(
        node=node_state.name,
        changes=changes,
        patch=patch.operations,
        writes_annotations=patch.writes_annotations,
        writes_condition=patch.writes_condition,
        annotated=annotated,
        refused=refused,
        newly_refused=refused,
        recorded={name: n for name, n in annotated.items() if not _is_unconfirmed(name, n, machine_record)},
        node_uid=node_state.uid,
        health=Health(denied={c.name: c.reason for c in changes if c.action is Action.DENY}),
    )


def _withdraw(entry: CapacityEntry, inputs: PlanInput) -> Decision:
    decision = refuse_device_plugin(entry, inputs) or unpublish(entry, "withdrawn")
    if decision.action is Action.REMOVE and entry.name in inputs.denied:
        return Decision(Action.DENY, None, inputs.denied[entry.name], entry.annotated)
    return decision


def only_annotated(node_state: NodeState, machine_record: MachineRecord | None) -> list[str]:
    """The keys on the Node that the annotation names and this machine's record does not confirm."""
    published, capacity = published_quantities(node_state, machine_record), node_state.capacity or {}
    return [name for name, n in published.items() if name in capacity and _is_unconfirmed(name, n, machine_record)]


def _is_unconfirmed(name: str, quantity: int, machine_record: MachineRecord | None) -> bool:
    return machine_record is not None and not machine_record.confirms(name, quantity)
