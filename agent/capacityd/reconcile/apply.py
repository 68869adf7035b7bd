"""Reads the Node, plans and writes; starts over if another writer changes the Node in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.model.errors import NodeConflict, NodeRejected, NodeUnreachable
from capacityd.model.node import Node
from capacityd.model.plan import MachineRecord, Outcome, Plan
from capacityd.reconcile.writing import Attempt, Planner, is_same_version, report, unexplained

TRIES = 6
"""How often apply() makes a plan because a patch's test failed, before it gives up."""

_MAX_PAUSE = 5.0  # seconds between two attempts while the API server is unavailable

SaveIntention: TypeAlias = Callable[[MachineRecord | None, Plan], MachineRecord | None]
"""Saves in the machine record what a plan is about to publish: takes the old record and the plan, returns the new
record."""


def save_nothing(machine_record: MachineRecord | None, _: Plan) -> MachineRecord | None:
    """Saves nothing: for a machine that can't save its record, or for a Node whose record is not kept."""
    return machine_record


@dataclass(frozen=True, slots=True)
class Retries:
    """How often apply() tries again."""

    timeout: float = 0.0
    """Seconds for which apply() retries while the API server is unavailable."""
    conflicts: int = TRIES
    """How many plans apply() makes because of conflicts."""
    failed_writes: bool = True
    """Whether a write that fails with a server error may succeed later. False: the error is a rejection, so apply()
    writes the changes in parts, and the rejected part does not block the others."""


def apply(
    node: Node,
    make_plan: Planner,
    machine_record: MachineRecord | None,
    save_intention: SaveIntention = save_nothing,
    retries: Retries = Retries(),
) -> Outcome:
    """Makes a plan and writes it. Raises NodeError.

    save_intention: apply() calls this function before it writes a plan, so that this machine knows what it is about to
    publish even if the process is killed. An exception from this function ends the attempt.
    Events are best effort: apply() reports a change once, after the write. If the response is lost, no Event is
    created.
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
            attempt = Attempt(node, make_plan, node_state, machine_record, plan, not retries.failed_writes)
            if not plan.write.patch:
                return report(node, Outcome(plan, node_state, applied=False))
            return attempt.write_in_parts(rejection) if rejection else attempt.write()
        except NodeConflict as e:
            if rejection:
                raise rejection from e
            conflicts += 1
            conflict = e
            if conflicts == retries.conflicts:
                error = NodeConflict(f"{e}; tried {conflicts} times; another writer changed the Node first each time")
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
    """Writes only the condition while conflicts continue. A single attempt does not replace the first message."""
    if attempt is None:
        return
    condition = attempt.node_state.condition
    if conflicts > 1 or condition is None or condition.status == "True":
        attempt.write_rejection(attempt.plan, attempt.node_state, error)
