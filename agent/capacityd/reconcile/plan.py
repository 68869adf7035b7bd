"""Makes the plan for a Node: what happens to each name (rules.py), and the patch that does it. Pure.

The annotation is input like any other: only valid extended resource names in it count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capacityd.model.node import Action, Change, Health, MachineRecord, NodeState, Plan, Reported, read_record
from capacityd.model.quantity import plain, whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.reconcile.condition import desired_condition
from capacityd.reconcile.patch import patch_for
from capacityd.reconcile.plan_input import CapacityEntry, Decision, PlanInput
from capacityd.reconcile.rules import (
    capacity_entry,
    decide,
    hold_deadlines,
    last_applied,
    lowers,
    of_plugin,
    unpublish,
)

_REPORT_UNKNOWN_AFTER = 60.0
"""Seconds for which a resource is unknown before an Event reports it: at boot, a driver may only be late."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What is done to one name."""

    entry: CapacityEntry
    reading: Reading | None
    decision: Decision
    held_until: float | None = None
    """Uptime; None: nothing holds it back."""
    lowers: bool = False

    @property
    def own(self) -> int | None:
        """The quantity in the machine's record afterwards. Another writer's number never gets into it."""
        decision = self.decision
        publishes = decision.action is Action.SET or (decision.action is Action.KEEP and decision.value is not None)
        return decision.record if publishes or decision.record is None else self.entry.own

    @property
    def behind(self) -> bool:
        """Whether the Node had less allocatable of it than what was published, and it is ours.

        Where capacity itself differs and is left as it is, no kubelet and no repair will change allocatable.
        """
        published = self.entry.last_applied
        if published is None or not self.entry.named or self.decision.action is Action.REFUSE:
            return False
        left = self.decision.action is Action.KEEP and not self.entry.equals(published)
        return not left and _less(self.entry.allocatable, published)

    @property
    def unverified(self) -> bool:
        """Whether it stays because only the annotation lists it as ours."""
        recorded = self.decision.action is Action.REFUSE and self.decision.record is not None
        return recorded and not isinstance(self.reading, Quantity) and not self.entry.confirmed


def make_plan(readings: Mapping[str, Reading], state: NodeState, inputs: PlanInput) -> Plan:
    """What to set, remove, keep, hold back, refuse and deny on this Node, with each reason, and the patch for it."""
    record = last_applied(state, inputs.machine)
    steps = [_step(name, readings, record, state, inputs) for name in sorted({*readings, *record})]
    changes = tuple(_change(s.entry, s.decision) for s in steps)
    published = {s.entry.name: s.decision.record for s in steps if s.decision.record is not None}
    own_before = {s.entry.name: s.entry.own for s in steps if s.entry.own is not None}
    own = {s.entry.name: s.own for s in steps if s.own is not None}
    refused = tuple(c.name for c in changes if c.action is Action.REFUSE)
    reported_before = _reported_before(state, inputs)
    newly_refused = tuple(name for name in refused if name not in reported_before.refused)
    health = _health(steps, readings, inputs)
    concerned = bool(changes or state.condition)
    condition = desired_condition(state, health, inputs.now, inputs.heartbeat_after) if concerned else None
    configuration = inputs.configuration if concerned and inputs.configuration else None
    patch = patch_for(state, changes, published, configuration, condition, drop=not inputs.condition)
    reported = _reported(health, reported_before, inputs)
    writes = any(c.action.writes for c in changes)
    if delayed := bool(patch) and not writes and inputs.metadata_not_before > inputs.uptime:
        patch, published, newly_refused = (), read_record(state.annotation), ()
        own, reported = own_before, reported_before
    held = [s for s in steps if s.held_until is not None]
    return Plan(
        node=state.name,
        changes=changes,
        patch=patch,
        published=published,
        refused=refused,
        newly_refused=newly_refused,
        lower_since={s.entry.name: inputs.lower_since.get(s.entry.name, inputs.uptime) for s in held if s.lowers},
        held={s.entry.name: s.held_until for s in held if s.held_until is not None},
        behind=frozenset(s.entry.name for s in steps if s.behind),
        delayed=delayed,
        own_before=own_before,
        # Without a machine record and a complete configuration, what is ours is unknown.
        own=own if _keeps_record(readings, inputs) else None,
        health=health,
        reported_before=reported_before,
        reported=reported,
        recovered=tuple(sorted((reported_before.below_expected - reported.below_expected) & inputs.expect.keys())),
        has_condition=inputs.condition,
        device_plugins=None if inputs.plugins is None else tuple(sorted(inputs.plugins)),
    )


def _keeps_record(readings: Mapping[str, Reading], inputs: PlanInput) -> bool:
    """Whether it is known what is ours, so that it can be recorded."""
    if inputs.record_unreadable:
        return False
    return inputs.machine is not None or (inputs.complete and bool(readings))


def _health(steps: Sequence[_Step], readings: Mapping[str, Reading], inputs: PlanInput) -> Health:
    # A refusal to remove is over once an Event has reported it: from then on the key is not ours.
    lasting = {
        s.entry.name: s.decision.reason
        for s in steps
        if s.decision.action is Action.REFUSE
        and (isinstance(s.reading, Quantity) or (s.decision.record is not None and not s.unverified))
    }
    return Health(
        configuration_errors=inputs.configuration_errors,
        unwritable=inputs.unwritable,
        unknown={name: reading.reason for name, reading in sorted(readings.items()) if isinstance(reading, Unknown)},
        refused=lasting,
        unverified=tuple(s.entry.name for s in steps if s.unverified),
        denied={s.entry.name: s.decision.reason for s in steps if s.decision.action is Action.DENY},
        below_expected={s.entry.name: below for s in steps if (below := _below_expected(s, inputs))},
        not_allocatable={s.entry.name: less for s in steps if (less := _not_allocatable(s, inputs))},
    )


def _below_expected(step: _Step, inputs: PlanInput) -> tuple[int, int] | None:
    """(quantity, expected quantity) if the Node has less than expected. Unknown is not less."""
    expected = inputs.expect.get(step.entry.name)
    if expected is None or not isinstance(step.reading, Quantity | Absent):
        return None
    if isinstance(step.reading, Absent) and not step.reading.applies:
        return None
    if step.decision.action in (Action.REFUSE, Action.DENY):
        return None  # a reason of its own
    if step.decision.action is Action.HOLD:
        quantity = (whole_quantity(step.entry.current) if step.entry.current is not None else 0) or 0
    else:
        quantity = step.reading.value if isinstance(step.reading, Quantity) else 0
    return (quantity, expected) if quantity < expected else None


def _not_allocatable(step: _Step, inputs: PlanInput) -> tuple[str, str] | None:
    """(published quantity, allocatable) if it is less after this plan, or if what the last plan repaired is less again.

    So the condition is never set to True while pods can't get what is published.
    """
    quantity = step.decision.record
    if quantity is None or step.decision.action in (Action.REFUSE, Action.DENY):
        return None  # a reason of its own
    if step.decision.action is Action.SET:
        less = step.behind and step.entry.name in inputs.behind
    else:
        less = _less(step.entry.allocatable, quantity)
    return (str(quantity), plain(step.entry.allocatable)) if less else None


def _less(stored: str | None, quantity: int) -> bool:
    """Whether a stored quantity is missing, or less."""
    return stored is None or (whole_quantity(stored) or 0) < quantity


def _reported_before(state: NodeState, inputs: PlanInput) -> Reported:
    """What Events have reported. All of it is reported again on a Node that was created anew."""
    anew = state.condition is None and inputs.condition
    return Reported() if inputs.machine is None or anew else inputs.machine.reported


def _reported(health: Health, before: Reported, inputs: PlanInput) -> Reported:
    errors = "\n".join(health.configuration_errors)
    return Reported(
        refused=frozenset((*health.refused, *health.unverified)),
        denied=frozenset(health.denied),
        # What is unknown meanwhile is still below as far as Events are concerned.
        below_expected=frozenset(health.below_expected)
        | (before.below_expected & inputs.expect.keys() & {*health.unknown, *health.denied, *health.refused}),
        configuration=hashlib.sha256(errors.encode("utf-8", "surrogatepass")).hexdigest()[:12] if errors else "",
        unknown=frozenset(health.unknown) & (before.unknown | long_unknown(inputs)),
    )


def long_unknown(inputs: PlanInput) -> frozenset[str]:
    """The names that have been unknown for so long that an Event reports it."""
    return frozenset(n for n, since in inputs.unknown_since.items() if inputs.uptime - since >= _REPORT_UNKNOWN_AFTER)


def _step(
    name: str, readings: Mapping[str, Reading], record: Mapping[str, int], state: NodeState, inputs: PlanInput
) -> _Step:
    entry = capacity_entry(name, state, record.get(name), inputs, name in readings)
    reading = readings.get(name)
    decision = decide(entry, reading, inputs, bool(readings))
    if not decision.action.writes:
        return _Step(entry, reading, decision)
    if name in inputs.denied:
        return _Step(entry, reading, Decision(Action.DENY, decision.value, inputs.denied[name], entry.last_applied))
    lower = lowers(entry, decision)
    if _needs_record(entry, decision, lower, inputs):
        why = f"{decision.reason}; held back while this machine can't keep a record of it"
        return _Step(entry, reading, Decision(Action.HOLD, decision.value, why, entry.last_applied))
    until, why = max(hold_deadlines(entry, decision, inputs))
    if until <= inputs.uptime:
        return _Step(entry, reading, decision)
    why = f"{decision.reason}; held back for {until - inputs.uptime:.0f} s more, {why}"
    held = Decision(Action.HOLD, decision.value, why, entry.last_applied)
    return _Step(entry, reading, held, until, lower)


def _needs_record(entry: CapacityEntry, decision: Decision, lower: bool, inputs: PlanInput) -> bool:
    """Whether a change must wait until this machine can write its record.

    A reduction must last, and nothing would remember since when. A new name would not be known as ours later.
    """
    if not inputs.unwritable:
        return False
    if inputs.record_unreadable:
        new = entry.last_applied is None
    else:
        new = inputs.machine is not None and not inputs.machine.names(entry.name)
    return new or lower or decision.action is Action.REMOVE


def make_withdrawal(state: NodeState, inputs: PlanInput) -> Plan:
    """Removes what this machine has published, and the condition. Another writer's values stay.

    Without a machine record that is every key that the annotation names. What is denied stays on the annotation, and
    so does what only the annotation names: this machine may have published it before it got a new image.
    """
    changes, published = [], {}
    for name, recorded in sorted(last_applied(state, inputs.machine).items()):
        entry = capacity_entry(name, state, recorded, inputs, configured=True)
        decision = of_plugin(entry, inputs) or unpublish(entry, "withdrawn")
        if decision.action is Action.REMOVE and name in inputs.denied:
            decision = Decision(Action.DENY, None, inputs.denied[name], recorded)
        if decision.record is not None:
            published[name] = decision.record
        changes.append(_change(entry, decision))
    own = {
        name: quantity for name, quantity in published.items() if not _is_unconfirmed(name, quantity, inputs.machine)
    }
    refused = tuple(c.name for c in changes if c.action is Action.REFUSE)
    denied = {c.name: c.reason for c in changes if c.action is Action.DENY}
    patch = patch_for(state, changes, published, "", None, drop=True)
    return Plan(state.name, tuple(changes), patch, published, refused, refused, own=own, health=Health(denied=denied))


def only_annotated(state: NodeState, record: MachineRecord | None) -> list[str]:
    """The keys on the Node that the annotation names and this machine's record does not confirm."""
    annotated = last_applied(state, record)
    return [n for n, q in annotated.items() if n in (state.capacity or {}) and _is_unconfirmed(n, q, record)]


def _is_unconfirmed(name: str, quantity: int, record: MachineRecord | None) -> bool:
    return record is not None and not record.confirms(name, quantity)


def _change(entry: CapacityEntry, decision: Decision) -> Change:
    stays = decision.action in (Action.KEEP, Action.REFUSE)
    new = entry.current if stays else None if decision.value is None else str(decision.value)
    return Change(entry.name, decision.action, entry.current, new, decision.reason)
