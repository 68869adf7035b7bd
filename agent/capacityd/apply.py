"""Reads the Node, has a plan made, writes it, and begins again when somebody else wrote in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from capacityd.capacity import NodeState, Plan
from capacityd.errors import NodeConflict, NodeError, NodeUnreachable
from capacityd.events import events
from capacityd.node import Node

TRIES = 6
"""How often a plan is made anew because a guard did not hold, before somebody has to look at who keeps writing."""

_LONGEST_PAUSE = 5.0


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
