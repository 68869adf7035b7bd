"""Reads the Node, plans, writes, and starts over when another writer came in between.

If the API server denies the patch, the changes are sent one by one, so that one denied resource blocks no other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeUnreachable
from capacityd.model.node import ANNOTATION, Event, Node, NodeState, Plan, read_record
from capacityd.model.quantity import plain
from capacityd.reconcile.condition import rejected_condition
from capacityd.reconcile.events import events
from capacityd.reconcile.patch import condition_patch

TRIES = 6
"""How often a plan is made because a guard failed, before the pass gives up."""

_MAX_PAUSE = 5.0  # seconds between two attempts while the API server is unavailable

_ALTERED = "the API server accepted {} but stored {}; does an admission webhook or policy change it?"

Denied: TypeAlias = Mapping[str, str]
"""Name -> why the API server denies its change."""

Decide: TypeAlias = Callable[[NodeState, Denied], Plan]
"""From the Node's state to the plan. Names that are denied keep their value, in addition to those known before."""


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


def apply(
    node: Node,
    decide: Decide,
    retry_timeout: float,
    before_write: Callable[[Plan], None] = lambda _: None,
    tries: int = TRIES,
) -> Outcome:
    """Makes a plan and writes it. Raises NodeError.

    retry_timeout: seconds for which an API server that is unavailable is tried again. tries: how often a plan is made
    because of conflicts. before_write: called before a plan is written, so that this machine knows what it is about to
    publish even if it is killed; what it raises ends the attempt.
    Events are best effort: a change is reported once, after its write, and not at all if the response is lost.
    """
    deadline = time.monotonic() + retry_timeout
    conflicts = failures = 0
    while True:
        try:
            return _once(node, decide, before_write)
        except NodeConflict as e:
            conflicts += 1
            if conflicts == tries:
                raise NodeConflict(
                    f"{e}; tried {tries} times, each time somebody else wrote the same in between"
                ) from e
            time.sleep(random.uniform(0, 0.05 * 2**conflicts))  # noqa: S311  # jitter is no secret
        except NodeUnreachable as e:
            failures += 1
            pause = e.retry_after if e.retry_after is not None else random.uniform(0, min(_MAX_PAUSE, 2**failures))  # noqa: S311
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)


def _once(node: Node, decide: Decide, before_write: Callable[[Plan], None]) -> Outcome:
    state = node.read()
    plan = decide(state, {})
    if not plan.patch:
        return Outcome(plan, False, state, tuple(_report(node, events(plan), state)))
    before_write(plan)
    try:
        after = node.write(plan.patch)
    except NodeRejected as e:
        return _write_apart(node, decide, state, plan, e)
    denied = _changed_by_admission(plan, after)
    return _conclude(node, decide, state, after, denied) if denied else _written(node, plan, after, {})


def _write_apart(node: Node, decide: Decide, state: NodeState, whole: Plan, error: NodeRejected) -> Outcome:
    """Writes each change in a patch of its own, after a patch with all of them has been denied.

    Each patch has the condition that is right if everything not yet written is denied. So the last one that succeeds
    leaves the right condition, and no further request is needed, unless all are denied.
    """
    changing = sorted(_changing(whole))
    if not changing:
        _write_rejection(node, whole, state, str(error))
        raise error
    denied = dict.fromkeys(changing, error.reason)
    after = state
    for name in changing:
        if len(changing) == 1 or (name == changing[-1] and len(denied) == 1):
            break  # it is the only one left, so the patch was denied because of it
        plan = decide(after, {other: why for other, why in denied.items() if other != name})
        try:
            after = node.write(plan.patch)
        except NodeRejected as e:
            denied[name] = e.reason
            continue
        del denied[name]
        denied |= _changed_by_admission(plan, after)
    return _conclude(node, decide, state, after, denied, error)


def _conclude(
    node: Node, decide: Decide, before: NodeState, after: NodeState, denied: Denied, error: NodeRejected | None = None
) -> Outcome:
    """Writes the condition that reports what is denied, unless it is there. error: raised if that is denied, too."""
    rest = decide(after, denied)
    if rest.patch:
        try:
            after = node.write(rest.patch)
        except NodeRejected:
            if error is None:
                raise
            _write_rejection(node, rest, after, str(error))
            raise error from None
    plan = replace(
        decide(before, denied), published=rest.published, own=rest.own, health=rest.health, reported=rest.reported
    )
    return _written(node, plan, after, denied)


def _written(node: Node, plan: Plan, after: NodeState, denied: Denied) -> Outcome:
    return Outcome(plan, bool(plan.patch), after, tuple(_report(node, events(plan), after)), denied)


def _changing(plan: Plan) -> set[str]:
    return {c.name for c in plan.changes if c.action in ("set", "remove")}


def _write_rejection(node: Node, plan: Plan, state: NodeState, why: str) -> None:
    """Writes the condition alone: it may pass where the rest is rejected, for example if annotations are too large."""
    patch = condition_patch(state, rejected_condition(state, why, time.time())) if plan.has_condition else ()
    if patch:
        with suppress(NodeError):
            node.write(patch)


def _changed_by_admission(plan: Plan, after: NodeState) -> dict[str, str]:
    """Name -> how the stored quantity differs from the one that the API server accepted.

    Raises NodeRejected if the annotation differs: then nothing could be recognised as ours later.
    """
    if read_record(after.annotation) != plan.published:
        raise NodeRejected(_ALTERED.format(f"the annotation {ANNOTATION}", "a different one"))
    desired = {c.name: c.new for c in plan.changes if c.action in ("set", "remove")}
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
