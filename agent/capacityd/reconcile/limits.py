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
    if why_denied := _why_denied(decided, facts):
        return _not_made(decided, Action.DENY, why_denied)
    if _needs_record(decided, facts):
        reason = f"{decided.reason}; held back while this machine can't keep a record of it"
        return _not_made(decided, Action.HOLD, reason)
    wait = _longest_wait(decided, facts)
    if wait.until <= facts.uptime:
        return decided
    denial = facts.memory.denied.get(entry.name)
    if denial is not None and wait.reason is not WaitReason.LOWER_AFTER:
        # The limit comes from recent attempts with other quantities, which the API server has denied.
        return _not_made(decided, Action.DENY, denial.reason, wait)
    return _not_made(decided, Action.HOLD, f"{decided.reason}; {wait.text(facts.uptime)}", wait)


def _not_made(step: Step, action: Action, reason: str, wait: Wait | None = None) -> Step:
    """The step with a change that is not made now, so the annotation keeps the published quantity."""
    return replace(step, action=action, reason=reason, wait=wait, annotated=step.entry.published)


def _why_denied(step: Step, facts: Facts) -> str:
    """Why the API server denies this change, in this pass or until the next attempt; "" if no denial is known. A change
    to another quantity is not denied."""
    if step.name in facts.denied:
        return facts.denied[step.name]
    denial = facts.memory.denied.get(step.name)
    if denial is not None and denial.must_wait(step.desired, facts.uptime):
        return denial.reason
    return ""


def _needs_record(step: Step, facts: Facts) -> bool:
    """Whether a change must wait until this machine can save its state and its machine record.

    Without them, capacityd would later not know since when a reduction has been due, or that it owns a new key.
    """
    if not facts.unsaved:
        return False
    if step.action is Action.REMOVE or step.lowers:
        return True
    if facts.machine_record_error:
        return step.entry.published is None  # a new key may be missing from the record that can't be read
    if facts.machine_record is None:
        return False  # while the record is missing, the annotation alone says which keys capacityd owns
    return not facts.machine_record.has(step.name)


def _longest_wait(step: Step, facts: Facts) -> Wait:
    """The limit that holds a change back longest. If the limit's end has passed, no limit holds the change back."""
    limit = _resource_limit(step.name, facts)
    if not step.lowers:
        return limit
    since = facts.memory.lower_since.get(step.name, facts.uptime)
    lower_after = Wait(since + facts.lower_after, WaitReason.LOWER_AFTER, step.name)
    return lower_after if lower_after.until >= limit.until else limit


def _resource_limit(name: str, facts: Facts) -> Wait:
    """The limit of how often a resource is written; its end may have passed."""
    times = facts.memory.write_times
    return times.other_agent_limit(name) if facts.other_agent else times.resource_limit(name)


def metadata_limit(facts: Facts) -> Wait:
    """The limit of how often the condition and the annotations are written; its end may have passed."""
    times = facts.memory.write_times
    return times.other_agent_limit() if facts.other_agent else times.metadata_limit()
