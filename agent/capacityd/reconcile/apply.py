"""Reads the Node, plans, writes, and starts over when another writer came in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.model.errors import NodeConflict, NodeRejected, NodeUnreachable
from capacityd.model.node import Node
from capacityd.model.plan import MachineRecord, Plan
from capacityd.reconcile.writing import Attempt, Outcome, Planner, is_same_version, report, unexplained

TRIES = 6
"""How often a plan is made because a guard failed, before the pass gives up."""

_MAX_PAUSE = 5.0  # seconds between two attempts while the API server is unavailable

SaveIntention: TypeAlias = Callable[[MachineRecord | None, Plan], MachineRecord | None]
"""Saves in the machine's record what a plan is about to publish. From the record before to the record after."""


def save_nothing(machine_record: MachineRecord | None, _: Plan) -> MachineRecord | None:
    """For a machine that can't save its record, or a Node that needs none."""
    return machine_record


@dataclass(frozen=True, slots=True)
class Retries:
    """How often apply() tries again."""

    timeout: float = 0.0
    """Seconds for which an API server that is unavailable is tried again."""
    conflicts: int = TRIES
    """How often a plan is made because of conflicts."""


def apply(
    node: Node,
    make_plan: Planner,
    machine_record: MachineRecord | None,
    save_intention: SaveIntention = save_nothing,
    retries: Retries = Retries(),
) -> Outcome:
    """Makes a plan and writes it. Raises NodeError.

    save_intention: called before a plan is written, so that this machine knows what it is about to publish even if it
    is killed; what it raises ends the attempt.
    Events are best effort: a change is reported once, after its write, and not at all if the response is lost.
    """
    deadline = time.monotonic() + retries.timeout
    conflicts = failures = 0
    attempt: Attempt | None = None
    conflict: NodeConflict | None = None
    rejection: NodeRejected | None = None
    while True:
        try:
            node_state = node.read()
            no_other_writer = attempt is not None and is_same_version(node_state, attempt.node_state)
            rejection = unexplained(conflict) if conflict and no_other_writer else None
            plan = make_plan(node_state, machine_record, {})
            if plan.write.patch:
                machine_record = save_intention(machine_record, plan)
            attempt = Attempt(node, make_plan, node_state, machine_record, plan)
            if not plan.write.patch:
                return report(node, Outcome(plan, node_state, applied=False))
            return attempt.write_in_parts(rejection) if rejection else attempt.write()
        except NodeConflict as e:
            if rejection:
                raise rejection from e
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


def _report_conflict(attempt: Attempt | None, error: NodeConflict, conflicts: int) -> None:
    """Writes the condition alone while conflicts do not end. A single attempt does not replace the first message."""
    if attempt is None:
        return
    condition = attempt.node_state.condition
    if conflicts > 1 or condition is None or condition.status == "True":
        attempt.write_rejection(attempt.plan, attempt.node_state, error)
