"""Reads the Node, plans, writes, and starts over when another writer came in between.

If the API server denies the patch, the changes are sent one by one, so that one denied resource blocks no other. Each
plan is made from the Node and the machine's record as they are after the write before it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from capacityd.model.errors import NodeConflict, NodeError, NodeGuardUnexplained, NodeRejected, NodeUnreachable
from capacityd.model.node import ANNOTATION, Event, MachineRecord, Node, NodeState, Plan, read_record
from capacityd.model.quantity import plain
from capacityd.reconcile.condition import rejected_condition
from capacityd.reconcile.events import events
from capacityd.reconcile.patch import condition_patch

TRIES = 6
"""How often a plan is made because a guard failed, before the pass gives up."""

_MAX_PAUSE = 5.0  # seconds between two attempts while the API server is unavailable

_ALTERED = "the API server accepted {} but stored {}; does an admission webhook or policy change it?"
_UNCHANGED = "the API server reports a conflict, but the Node has not changed: {}"

Denied: TypeAlias = Mapping[str, str]
"""Name -> why the API server denies its change."""

Decide: TypeAlias = Callable[[NodeState, MachineRecord | None, Denied], Plan]
"""From the Node's state and the machine's record to the plan. Names that are denied keep their value, in addition to
those known before."""

SaveIntention: TypeAlias = Callable[[MachineRecord | None, Plan], MachineRecord | None]
"""Saves in the machine's record what a plan is about to publish. From the record before to the record after."""


def no_record(record: MachineRecord | None, _: Plan) -> MachineRecord | None:
    """Saves nothing: for a machine that can't, or a Node that needs no record."""
    return record


@dataclass(frozen=True, slots=True)
class Retries:
    """How often apply() tries again."""

    timeout: float = 0.0
    """Seconds for which an API server that is unavailable is tried again."""
    conflicts: int = TRIES
    """How often a plan is made because of conflicts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of apply()."""

    plan: Plan
    applied: bool
    """Whether something was written."""
    state: NodeState
    """The Node afterwards."""
    warnings: tuple[str, ...] = ()
    """Events that could not be created."""
    denied: Denied = field(default_factory=dict)
    """What the API server has denied just now."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt to write a plan."""

    node: Node
    decide: Decide
    state: NodeState
    """The Node before it."""
    record: MachineRecord | None
    """The machine's record, which has the plan's intention."""
    plan: Plan

    def plan_after(self, state: NodeState, denied: Denied) -> Plan:
        """The plan for what is left to write."""
        return self.decide(state, self.record, denied)


def apply(
    node: Node,
    decide: Decide,
    record: MachineRecord | None,
    save_intention: SaveIntention = no_record,
    retries: Retries = Retries(),
) -> Outcome:
    """Makes a plan and writes it. Raises NodeError.

    record: the machine's record. save_intention: called before a plan is written, so that this machine knows what it is
    about to publish even if it is killed; what it raises ends the attempt.
    Events are best effort: a change is reported once, after its write, and not at all if the response is lost.
    """
    deadline = time.monotonic() + retries.timeout
    conflicts = failures = 0
    attempt: _Attempt | None = None
    conflict: NodeConflict | None = None
    unexplained: NodeRejected | None = None
    while True:
        try:
            state, unexplained = _read(node, attempt, conflict)
            plan = decide(state, record, {})
            if not plan.patch:
                return Outcome(plan, False, state, tuple(_report(node, events(plan), state)))
            record = save_intention(record, plan)
            attempt = _Attempt(node, decide, state, record, plan)
            return _write_one_by_one(attempt, unexplained) if unexplained else _write(attempt)
        except NodeConflict as e:
            if unexplained:
                raise unexplained from e
            conflicts += 1
            conflict = e
            if conflicts == retries.conflicts:
                error = NodeConflict(f"{e}; tried {conflicts} times, each time somebody else wrote the same in between")
                _report_conflict(attempt, error, conflicts)
                raise error from e
            time.sleep(random.uniform(0, 0.05 * 2**conflicts))  # noqa: S311  # jitter is no secret
        except NodeUnreachable as e:
            failures += 1
            conflict = None
            pause = e.retry_after if e.retry_after is not None else random.uniform(0, min(_MAX_PAUSE, 2**failures))  # noqa: S311
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)


def _read(node: Node, attempt: _Attempt | None, conflict: NodeConflict | None) -> tuple[NodeState, NodeRejected | None]:
    """The Node, and why the last attempt failed if no other writer explains its conflict."""
    try:
        state = node.read()
    except NodeGuardUnexplained as e:
        return node.read(), e
    if conflict and attempt and _same_version(state, attempt.state):
        return state, _unexplained(conflict)
    return state, None


def _same_version(state: NodeState, other: NodeState) -> bool:
    return bool(state.resource_version) and state.resource_version == other.resource_version


def _unexplained(conflict: NodeConflict) -> NodeRejected:
    reason = _UNCHANGED.format(conflict.reason or conflict)
    return NodeRejected(reason)


def _write(attempt: _Attempt) -> Outcome:
    """Writes the whole plan in one patch, or its changes one by one if that is denied."""
    try:
        after = attempt.node.write(attempt.plan.patch)
    except NodeRejected as e:
        return _write_one_by_one(attempt, e)
    denied = _changed_by_admission(attempt, attempt.plan, after)
    return _conclude(attempt, after, denied) if denied else _written(attempt, attempt.plan, after, {})


def _write_one_by_one(attempt: _Attempt, error: NodeRejected) -> Outcome:
    """Writes each change in a patch of its own, after a patch with all of them has been denied.

    Each patch has the condition that is right if everything not yet written is denied. So the last one that succeeds
    leaves the right condition, and no further request is needed, unless all are denied.
    """
    changing = sorted(_changing(attempt.plan))
    if not changing:
        _write_rejection(attempt.node, attempt.plan, attempt.state, str(error))
        raise error
    denied = dict.fromkeys(changing, error.reason)
    after = attempt.state
    for name in changing:
        if len(changing) == 1 or (name == changing[-1] and len(denied) == 1):
            break  # it is the only one left, so the patch was denied because of it
        plan = attempt.plan_after(after, {other: why for other, why in denied.items() if other != name})
        try:
            after = attempt.node.write(plan.patch)
        except NodeRejected as e:
            denied[name] = e.reason
            continue
        except NodeConflict as e:
            denied[name] = _reason_without_other_writer(attempt.node, after, e)
            continue
        del denied[name]
        denied |= _changed_by_admission(attempt, plan, after)
    return _conclude(attempt, after, denied, error)


def _reason_without_other_writer(node: Node, before: NodeState, conflict: NodeConflict) -> str:
    """Why one change is denied with what looks like a conflict. Raises the conflict if another writer explains it."""
    try:
        state = node.read()
    except NodeGuardUnexplained as e:
        return e.reason
    if not _same_version(state, before):
        raise conflict
    return _unexplained(conflict).reason


def _conclude(attempt: _Attempt, after: NodeState, denied: Denied, error: NodeRejected | None = None) -> Outcome:
    """Writes the condition that reports what is denied, unless it is there. error: raised if that is also denied."""
    rest = attempt.plan_after(after, denied)
    if rest.patch:
        try:
            after = attempt.node.write(rest.patch)
        except NodeRejected as e:
            _write_rejection(attempt.node, rest, after, str(error or e))
            raise error or e from None
    plan = replace(
        attempt.plan_after(attempt.state, denied),
        published=rest.published,
        own=rest.own,
        health=rest.health,
        reported=rest.reported,
    )
    return _written(attempt, plan, after, denied)


def _written(attempt: _Attempt, plan: Plan, after: NodeState, denied: Denied) -> Outcome:
    return Outcome(plan, bool(plan.patch), after, tuple(_report(attempt.node, events(plan), after)), denied)


def _changing(plan: Plan) -> set[str]:
    return {c.name for c in plan.changes if c.action.writes}


def _write_rejection(node: Node, plan: Plan, state: NodeState, why: str) -> None:
    """Writes the condition alone: it may pass where the rest is rejected, for example if annotations are too large."""
    patch = condition_patch(state, rejected_condition(state, why, time.time())) if plan.has_condition else ()
    if patch:
        with suppress(NodeError):
            node.write(patch)


def _report_conflict(attempt: _Attempt | None, error: NodeConflict, conflicts: int) -> None:
    """Writes the condition alone while conflicts do not end. A single attempt does not replace the first message."""
    if attempt is None:
        return
    condition = attempt.state.condition
    if conflicts > 1 or condition is None or condition.status == "True":
        _write_rejection(attempt.node, attempt.plan, attempt.state, str(error))


def _changed_by_admission(attempt: _Attempt, plan: Plan, after: NodeState) -> dict[str, str]:
    """Name -> how the stored quantity differs from the one that the API server accepted.

    If the annotation differs, writes that into the condition and raises NodeRejected: nothing else is written until
    the annotation lists what is ours.
    """
    if read_record(after.annotation) != plan.published:
        error = NodeRejected(_ALTERED.format(f"the annotation {ANNOTATION}", "a different one"))
        _write_rejection(attempt.node, plan, after, str(error))
        raise error
    desired = {c.name: c.new for c in plan.changes if c.action.writes}
    return {
        name: _ALTERED.format(plain(new), f"{plain(stored.get(name))}{where}")
        for where, stored in ((" as allocatable", after.allocatable or {}), ("", after.capacity or {}))
        for name, new in desired.items()
        if plain(stored.get(name)) != plain(new)
    }


def _report(node: Node, due: Iterable[Event], state: NodeState) -> list[str]:
    """Creates Events. Returns the errors."""
    errors = []
    for event in due:
        try:
            node.report(event, state)
        except NodeError as e:
            errors.append(f"the Event could not be written: {e}")
    return errors
