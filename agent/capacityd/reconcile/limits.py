"""Whether a step can be made now: the API server may deny the change, or a limit may hold the change back. Pure."""

from __future__ import annotations

from dataclasses import replace

from capacityd.model.plan import Action
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.rules import decide
from capacityd.reconcile.step import CapacityEntry, Step


def make_step(entry: CapacityEntry, facts: Facts) -> Step:
    """Decides about a name, and whether the change can be made now."""
    decided = decide(entry, facts)
    if not decided.action.writes:
        return decided
    decided = replace(decided, lowers=decided.reduces)
    # A change that is not made leaves the annotation as it is.
    unchanged = replace(decided, annotated=entry.annotated)
    if denied_because := _denial(decided, facts):
        return replace(unchanged, action=Action.DENY, reason=denied_because)
    if _needs_record(decided, facts):
        reason = f"{decided.reason}; held back while this machine can't keep a record of it"
        return replace(unchanged, action=Action.HOLD, reason=reason)
    wait = _longest_wait(decided, facts)
    if wait.until <= facts.uptime:
        return decided
    denial = facts.memory.denied.get(entry.name)
    if denial is not None and wait.reason is not WaitReason.LOWER_AFTER:
        # The API server has recently denied this name several times, with other quantities.
        return replace(unchanged, action=Action.DENY, reason=denial.reason, wait=wait)
    reason = f"{decided.reason}; {wait.text(facts.uptime)}"
    return replace(unchanged, action=Action.HOLD, reason=reason, wait=wait)


def _denial(step: Step, facts: Facts) -> str:
    """Why the API server denies this change, in this pass or until the next attempt; "" if it is not known to. A change
    to another quantity is not denied."""
    if step.name in facts.denied:
        return facts.denied[step.name]
    denial = facts.memory.denied.get(step.name)
    if denial is None or not denial.holds(step.desired, facts.uptime):
        return ""
    return denial.reason


def _needs_record(step: Step, facts: Facts) -> bool:
    """Whether a change must wait until this machine can write its record.

    Without a record, capacityd would not know since when a reduction has been due. It would not own a new key later.
    """
    if not facts.unsaved:
        return False
    if facts.machine_record_error:
        is_new = step.entry.annotated is None
    else:
        is_new = facts.machine_record is not None and not facts.machine_record.has(step.name)
    return is_new or step.action is Action.REMOVE or step.lowers


def _longest_wait(step: Step, facts: Facts) -> Wait:
    """The limit that holds a change back longest; its time may be over."""
    limit = write_limit(step.name, facts)
    if not step.lowers:
        return limit
    since = facts.memory.lower_since.get(step.name, facts.uptime)
    lower_after = Wait(since + facts.lower_after, WaitReason.LOWER_AFTER, step.name)
    return lower_after if lower_after.until >= limit.until else limit


def write_limit(name: str, facts: Facts) -> Wait:
    """The limit of how often a name is written; its time may be over. name: "" for the condition and the
    annotations."""
    times = facts.memory.write_times
    return times.wait_for_other_agent(name) if facts.other_agent else times.wait_for(name)
