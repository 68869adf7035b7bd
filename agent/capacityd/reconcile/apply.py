"""Plans and writes; reads the Node and starts over if another writer has changed it in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from capacityd.model.errors import NodeConflict, NodeRejected, NodeUnreachable
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import MachineRecord, Outcome, Plan
from capacityd.reconcile.writing import Attempt, Planner, is_same_version, report, unexplained

TRIES = 6
"""How often apply() makes a plan because a patch's test failed, before it gives up."""

_MAX_PAUSE = 5.0  # seconds between two attempts while the API server is unavailable


@dataclass(frozen=True, slots=True)
class Intentions:
    """Records what a plan is about to publish, before it is written: so the machine record is right even if the process
    is killed. By default, records nothing: for a machine that can't save its record, or a Node without a record."""

    save: Callable[[MachineRecord | None, Plan], MachineRecord | None] = lambda machine_record, _: machine_record
    """Takes the old record and the plan, returns the new record."""
    forget: Callable[[MachineRecord | None], None] = lambda _: None
    """Takes the record to keep after a conflict or a rejection: with what was written."""


NO_INTENTIONS = Intentions()


@dataclass(frozen=True, slots=True)
class Start:
    """What apply() knows before its first request."""

    machine_record: MachineRecord | None
    node_state: NodeState | None = None
    """None: apply() reads the Node first."""


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
    start: Start,
    intentions: Intentions = NO_INTENTIONS,
    retries: Retries = Retries(),
) -> Outcome:
    """Makes a plan and writes it. If a test of the patch fails, reads the Node and starts over. Raises NodeError.

    An exception from an intention ends the attempt.
    Events are best effort: apply() reports a change once, after the write. If the response is lost, no Event is
    created.
    """
    deadline = time.monotonic() + retries.timeout
    conflicts = failures = 0
    unanswered = False  # a write may have been carried out, or may still be
    attempt: Attempt | None = None
    conflict: NodeConflict | None = None
    rejection: NodeRejected | None = None
    known, machine_record = start.node_state, start.machine_record
    before = machine_record  # without the attempt's intention
    while True:
        is_writing = False
        try:
            node_state, known = _checked(node, known), None
            no_other_writer = attempt is not None and is_same_version(node_state, attempt.node_state)
            rejection = unexplained(conflict) if conflict and no_other_writer else None
            plan = make_plan(node_state, machine_record, {})
            if plan.write.patch:
                before = machine_record
                machine_record = intentions.save(machine_record, plan)
            attempt = Attempt(node, make_plan, node_state, machine_record, plan, not retries.failed_writes)
            if not plan.write.patch:
                return report(node, Outcome(plan, node_state, applied=False))
            is_writing = True
            return attempt.write_in_parts(rejection) if rejection else attempt.write()
        except NodeRejected:
            _confirm(intentions, attempt)
            raise
        except NodeConflict as e:
            machine_record = _forget(intentions, attempt, before) if attempt and not unanswered else machine_record
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
            conflict, unanswered = None, unanswered or is_writing
            pause = e.retry_after if e.retry_after is not None else random.uniform(0, min(_MAX_PAUSE, 2**failures))  # noqa: S311
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)


def _forget(intentions: Intentions, attempt: Attempt, before: MachineRecord | None) -> MachineRecord | None:
    """After a conflict, takes the attempt's intention out of the machine record, except what earlier patches wrote.

    Another writer may have published an intended quantity. So of an older intention, only what the plan has found on
    the Node counts. before: the record without the attempt's intention. Returns the new record.
    """
    recorded, plan = attempt.machine_record, attempt.plan
    own = before.of_node(plan.node_uid) if before else None
    if recorded is None or (own is None and not attempt.written):
        record = before
    else:
        found = {n: q for n, q in plan.recorded_before.items() if own is None or n in own.intended}
        published = {**(own.published if own else {}), **found, **attempt.confirmed(recorded)}
        record = replace(recorded, published=published, intended={})
    if record != recorded:
        intentions.forget(record)
    return record


def _confirm(intentions: Intentions, attempt: Attempt | None) -> None:
    """After a rejection, records what was written: a webhook may have altered the annotation, which would show it."""
    recorded = attempt.machine_record if attempt else None
    if attempt and recorded and (written := attempt.confirmed(recorded)):
        intentions.forget(replace(recorded, published={**recorded.published, **written}))


def _checked(node: Node, known: NodeState | None) -> NodeState:
    """The Node's state, which is this machine's. known: as in Start."""
    if known is None:
        return node.read()
    node.check(known)
    return known


def _report_conflict(attempt: Attempt | None, error: NodeConflict, conflicts: int) -> None:
    """Writes only the condition while conflicts continue. A single attempt does not replace the first message."""
    if attempt is None:
        return
    condition = attempt.node_state.condition
    if conflicts > 1 or condition is None or condition.status == "True":
        attempt.write_rejection(attempt.plan, attempt.node_state, error)
