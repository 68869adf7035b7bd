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
    if reason := _denial(decided, facts):
        return replace(unchanged, action=Action.DENY, reason=reason)
    if _needs_record(decided, facts):
        reason = f"{decided.reason}; held back while this machine can't keep a record of it"
        return replace(unchanged, action=Action.HOLD, reason=reason)
    wait = _longest_wait(decided, facts)
    if wait.until <= facts.uptime:
        return decided
    if wait.reason is not WaitReason.LOWER_AFTER and (denial := facts.memory.denied.get(entry.name)):
        # The API server has recently denied this name several times, with other quantities.
        return replace(unchanged, action=Action.DENY, reason=denial.reason, wait=wait)
    return replace(unchanged, action=Action.HOLD, reason=f"{decided.reason}; {wait.text(facts.uptime)}", wait=wait)


def _denial(step: Step, facts: Facts) -> str:
    """Why the API server denies this change; "" if it is not known to. A change to another quantity is not denied."""
    if step.name in facts.denied:
        return facts.denied[step.name]
    denial = facts.memory.denied.get(step.name)
    return denial.reason if denial and denial.holds(step.desired, facts.uptime) else ""


def _needs_record(step: Step, facts: Facts) -> bool:
    """Whether a change must wait until this machine can write its record.

    Without a record, capacityd would not know since when a reduction has been due. It would not own a new key later.
    """
    if not facts.unrecordable:
        return False
    if facts.machine_record_error:
        is_new = step.entry.annotated is None
    else:
        is_new = facts.machine_record is not None and not facts.machine_record.names(step.name)
    return is_new or step.action is Action.REMOVE or step.lowers


def _longest_wait(step: Step, facts: Facts) -> Wait:
    """The limit that holds a change back longest; this limit may be over."""
    limit = write_limit(step.name, facts)
    if not step.lowers:
        return limit
    since = facts.memory.lower_since.get(step.name, facts.uptime)
    lower_after = Wait(since + facts.lower_after, WaitReason.LOWER_AFTER, step.name)
    return max(lower_after, limit, key=lambda wait: wait.until)


def write_limit(name: str, facts: Facts) -> Wait:
    """The limit of how often a name is written; it may be over. "": the condition and the annotations."""
    times = facts.memory.write_times
    return times.wait_for_other_agent(name) if facts.other_agent else times.wait_for(name)
