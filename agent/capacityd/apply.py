"""Reads the Node, has a plan made, writes it, and begins again when somebody else wrote in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from capacityd.capacity import Change, Event, NodeState, Plan
from capacityd.errors import NodeConflict, NodeError, NodeUnreachable
from capacityd.node import Node

TRIES = 6
"""How often a plan is made anew because a guard did not hold, before somebody has to look at who keeps writing."""

_LONGEST_PAUSE = 5.0
_MOST_TOLD = 1000  # bytes of an Event's message; the API server takes 1,024


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it. state: the Node afterwards. warnings: what went wrong beside it."""

    plan: Plan
    applied: bool
    state: NodeState
    warnings: tuple[str, ...] = ()


def apply(node: Node, decide: Callable[[NodeState], Plan], patience: float) -> Outcome:
    """Makes and writes a plan. decide: from what the Node says to the plan.

    patience: seconds in which an API server that does not answer, or says "later", is tried again. Raises NodeError.
    """
    deadline = time.monotonic() + patience
    conflicts = failures = 0
    while True:
        try:
            return _once(node, decide)
        except NodeConflict as e:
            conflicts += 1
            if conflicts == TRIES:
                raise NodeConflict(
                    f"{e}; tried {TRIES} times, each time somebody else wrote the same in between"
                ) from e
            time.sleep(random.uniform(0, 0.05 * 2**conflicts))  # noqa: S311  # jitter is no secret
        except NodeUnreachable as e:
            failures += 1
            pause = e.retry_after if e.retry_after is not None else random.uniform(0, min(_LONGEST_PAUSE, 2**failures))  # noqa: S311
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)


def _once(node: Node, decide: Callable[[NodeState], Plan]) -> Outcome:
    state = node.read()
    plan = decide(state)
    after = node.write(plan.patch) if plan.patch else state
    warnings = []
    for event in events(plan):
        try:
            node.report(event, after)
        except NodeError as e:
            warnings.append(f"the Event could not be written: {e}")
    return Outcome(plan, bool(plan.patch), after, tuple(warnings))


def events(plan: Plan) -> list[Event]:
    """What the Node's Events are to tell of a plan: each write that changed a quantity, and each new refusal."""
    if not plan.patch:
        return []
    found = []
    changed = [c for c in plan.changes if c.action in ("set", "remove")]
    if changed:
        found.append(Event("Normal", "CapacityChanged", _told(changed, _moved)))
    refused = [c for c in plan.changes if c.action == "refuse" and c.name in plan.newly_refused]
    if refused:
        found.append(Event("Warning", "CapacityRefused", _told(refused, lambda c: f"{c.name}: {c.reason}")))
    return found


def _moved(change: Change) -> str:
    old, new = (text if text is not None else "none" for text in (change.old, change.new))
    return f"{change.name}: {old} → {new} ({change.reason})"


def _told(changes: list[Change], say: Callable[[Change], str]) -> str:
    text, told = say(changes[0]).encode()[:_MOST_TOLD].decode(errors="ignore"), 1
    for change in changes[1:]:
        part = f"; {say(change)}"
        if len((text + part).encode()) > _MOST_TOLD:
            return f"{text}; and {len(changes) - told} more"
        text, told = text + part, told + 1
    return text
