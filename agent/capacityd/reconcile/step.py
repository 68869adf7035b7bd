"""What happens to one name: rules.py's decision, unless the change is denied or held back. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from capacityd.model.plan import Action, Change
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Quantity, Reading
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.rules import CapacityEntry, Decision, decide


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one name."""

    entry: CapacityEntry
    reading: Reading | None
    decision: Decision
    wait: Wait | None = None
    """The limit that holds the change back; None: no limit does."""
    lowers: bool = False
    """Whether the decision reduces capacity, even if the change is held back or denied."""

    @property
    def name(self) -> str:
        """The name."""
        return self.entry.name

    @property
    def change(self) -> Change:
        """The change, for Events and the journal."""
        return change_of(self.entry, self.decision)

    @property
    def recorded(self) -> int | None:
        """The quantity in the machine record after the write. Another writer's number never enters the record."""
        decision = self.decision
        publishes = decision.action is Action.SET or (decision.action is Action.KEEP and decision.desired is not None)
        return decision.annotated if publishes or decision.annotated is None else self.entry.recorded

    @property
    def allocatable_was_less(self) -> bool:
        """Whether capacityd owns the key, and allocatable was less than the published quantity.

        If capacity differs, and stays as it is, neither the kubelet nor a repair will change allocatable.
        """
        annotated = self.entry.annotated
        if annotated is None or not self.entry.is_ours or self.decision.action is Action.REFUSE:
            return False
        left = self.decision.action is Action.KEEP and not self.entry.equals(annotated)
        return not left and is_less(self.entry.allocatable, annotated)

    @property
    def unverified(self) -> bool:
        """Whether the key stays because only the annotation, and not the machine record, lists it."""
        annotated = self.decision.action is Action.REFUSE and self.decision.annotated is not None
        return annotated and not isinstance(self.reading, Quantity) and not self.entry.confirmed


def make_step(entry: CapacityEntry, facts: Facts) -> Step:
    """Decides about a name, and whether the decision can be carried out now."""
    reading, decision, uptime = facts.readings.get(entry.name), decide(entry, facts), facts.context.uptime
    if not decision.action.writes:
        return Step(entry, reading, decision)
    lowers = decision.lowers(entry)
    unchanged = replace(decision, annotated=entry.annotated)
    if reason := _denial(entry.name, decision, facts):
        return Step(entry, reading, replace(unchanged, action=Action.DENY, reason=reason), lowers=lowers)
    held = replace(unchanged, action=Action.HOLD)
    if _needs_record(entry, decision, facts):
        reason = f"{decision.reason}; held back while this machine can't keep a record of it"
        return Step(entry, reading, replace(held, reason=reason), lowers=lowers)
    wait = _longest_wait(entry.name, facts, lowers=lowers)
    if wait.until <= uptime:
        return Step(entry, reading, decision, lowers=lowers)
    if wait.reason is not WaitReason.LOWER_AFTER and (denial := facts.memory.denied.get(entry.name)):
        # The API server has recently denied this name several times, with other quantities.
        return Step(entry, reading, replace(unchanged, action=Action.DENY, reason=denial.reason), wait, lowers)
    reason = f"{decision.reason}; {wait.text(uptime)}"
    return Step(entry, reading, replace(held, reason=reason), wait, lowers)


def change_of(entry: CapacityEntry, decision: Decision) -> Change:
    """The change that a decision makes to a name."""
    if decision.action in (Action.KEEP, Action.REFUSE):
        after = entry.current
    else:
        after = None if decision.desired is None else str(decision.desired)
    return Change(entry.name, decision.action, entry.current, after, decision.reason)


def is_less(current: str | None, quantity: int) -> bool:
    """Whether a quantity on the Node is missing, or less than this quantity."""
    return current is None or (whole_quantity(current) or 0) < quantity


def _denial(name: str, decision: Decision, facts: Facts) -> str:
    """Why the API server denies this change; "" if it is not known to. A change to another quantity is not denied."""
    if name in facts.denied:
        return facts.denied[name]
    denial = facts.memory.denied.get(name)
    return denial.reason if denial and denial.holds(decision.desired, facts.context.uptime) else ""


def _needs_record(entry: CapacityEntry, decision: Decision, facts: Facts) -> bool:
    """Whether a change must wait until this machine can write its record.

    Without a record, capacityd would not know since when a reduction has been due. It would not own a new key later.
    """
    machine_record = facts.context.machine_record
    if not facts.context.unrecordable:
        return False
    if facts.context.machine_record_error:
        new = entry.annotated is None
    else:
        new = machine_record is not None and not machine_record.names(entry.name)
    return new or decision.action is Action.REMOVE or decision.lowers(entry)


def _longest_wait(name: str, facts: Facts, *, lowers: bool) -> Wait:
    """The limit that holds a change back longest; this limit may be over."""
    limit = write_limit(name, facts)
    if not lowers:
        return limit
    since = facts.memory.lower_since.get(name, facts.context.uptime)
    lower_after = Wait(since + facts.policy.lower_after, WaitReason.LOWER_AFTER, name)
    return max(lower_after, limit, key=lambda wait: wait.until)


def write_limit(name: str, facts: Facts) -> Wait:
    """The limit of how often a name is written; it may be over. "": the condition and the annotations."""
    times = facts.memory.write_times
    return times.wait_for_other_agent(name) if facts.other_agent else times.wait_for(name)
