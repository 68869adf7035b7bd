"""What is done to one name: what rules.py decides, unless it is denied, or held back. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from capacityd.model.plan import Action, Change
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Quantity, Reading
from capacityd.reconcile.plan_input import PlanInput
from capacityd.reconcile.rate_limit import not_before
from capacityd.reconcile.rules import CapacityEntry, Decision, decide


class Wait(NamedTuple):
    """A limit that holds a change back."""

    until: float
    """Uptime."""
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to one name."""

    entry: CapacityEntry
    reading: Reading | None
    decision: Decision
    wait: Wait | None = None
    """None: no time holds it back."""
    lowers: bool = False
    """Whether it is held back because it is lower."""

    @property
    def name(self) -> str:
        """The name."""
        return self.entry.name

    @property
    def change(self) -> Change:
        """What it does, for Events and the journal."""
        return change_of(self.entry, self.decision)

    @property
    def recorded(self) -> int | None:
        """The quantity in the machine's record afterwards. Another writer's number never gets into it."""
        decision = self.decision
        publishes = decision.action is Action.SET or (decision.action is Action.KEEP and decision.desired is not None)
        return decision.annotated if publishes or decision.annotated is None else self.entry.recorded

    @property
    def allocatable_was_less(self) -> bool:
        """Whether the Node had less allocatable of it than what was published, and it is ours.

        Where capacity itself differs and is left as it is, no kubelet and no repair will change allocatable.
        """
        annotated = self.entry.annotated
        if annotated is None or not self.entry.is_ours or self.decision.action is Action.REFUSE:
            return False
        left = self.decision.action is Action.KEEP and not self.entry.equals(annotated)
        return not left and is_less(self.entry.allocatable, annotated)

    @property
    def unverified(self) -> bool:
        """Whether it stays because only the annotation lists it as ours."""
        annotated = self.decision.action is Action.REFUSE and self.decision.annotated is not None
        return annotated and not isinstance(self.reading, Quantity) and not self.entry.confirmed


def make_step(entry: CapacityEntry, inputs: PlanInput) -> Step:
    """Decides about a name, and whether that can be done now."""
    reading, decision = inputs.readings.get(entry.name), decide(entry, inputs)
    if not decision.action.writes:
        return Step(entry, reading, decision)
    unchanged = replace(decision, annotated=entry.annotated)
    if (reason := _why_denied(entry.name, decision.desired, inputs)) is not None:
        return Step(entry, reading, replace(unchanged, action=Action.DENY, reason=reason))
    held = replace(unchanged, action=Action.HOLD)
    if _needs_record(entry, decision, inputs):
        reason = f"{decision.reason}; held back while this machine can't keep a record of it"
        return Step(entry, reading, replace(held, reason=reason))
    wait, uptime = _longest_wait(entry, decision, inputs), inputs.context.uptime
    if wait.until <= uptime:
        return Step(entry, reading, decision)
    reason = f"{decision.reason}; held back for {wait.until - uptime:.0f} s more, {wait.reason}"
    return Step(entry, reading, replace(held, reason=reason), wait, _lowers(entry, decision))


def _why_denied(name: str, desired: int | None, inputs: PlanInput) -> str | None:
    """Why the API server denies a change to this quantity (None: a removal); None if it can be tried."""
    denial = inputs.state.denied.get(name)
    if denial and denial.holds(desired, inputs.context.uptime):
        return inputs.denied.get(name, denial.reason)
    return inputs.denied.get(name)


def change_of(entry: CapacityEntry, decision: Decision) -> Change:
    """What a decision does to a name."""
    if decision.action in (Action.KEEP, Action.REFUSE):
        after = entry.current
    else:
        after = None if decision.desired is None else str(decision.desired)
    return Change(entry.name, decision.action, entry.current, after, decision.reason)


def is_less(current: str | None, quantity: int) -> bool:
    """Whether a quantity on the Node is missing, or less."""
    return current is None or (whole_quantity(current) or 0) < quantity


def _lowers(entry: CapacityEntry, decision: Decision) -> bool:
    """Whether this reduces capacity, below both the current and the annotated quantity. Removing a 0 does not."""
    if decision.desired is None:
        return not entry.equals(0)
    if entry.current is None:
        return False
    current = whole_quantity(entry.current)
    return (current is None or decision.desired < current) and (
        entry.annotated is None or decision.desired < entry.annotated
    )


def _needs_record(entry: CapacityEntry, decision: Decision, inputs: PlanInput) -> bool:
    """Whether a change must wait until this machine can write its record.

    A reduction must last, and nothing would remember since when. A new name would not be known as ours later.
    """
    machine_record = inputs.context.machine_record
    if not inputs.context.unrecordable:
        return False
    if inputs.context.machine_record_error:
        new = entry.annotated is None
    else:
        new = machine_record is not None and not machine_record.names(entry.name)
    return new or decision.action is Action.REMOVE or _lowers(entry, decision)


def _longest_wait(entry: CapacityEntry, decision: Decision, inputs: PlanInput) -> Wait:
    """The limit that holds this change back longest; it may be over."""
    rate_limit = Wait(not_before(inputs.state.write_times, entry.name), "because it keeps changing")
    if not _lowers(entry, decision):
        return rate_limit
    since = inputs.state.lower_since.get(entry.name, inputs.context.uptime)
    lower_after = Wait(since + inputs.policy.lower_after, "in case it comes back")
    return max(lower_after, rate_limit, key=lambda wait: wait.until)
