"""Plans and writes; reads the Node and starts over if another writer has changed it in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeUnreachable
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import MachineRecord, Outcome, Plan
from capacityd.reconcile.writing import Attempt, Planner, is_same_version, report, unexplained

TRIES = 6
"""How often apply() makes a plan because a patch's test failed, before it gives up."""

_MAX_PAUSE = 5.0  # seconds between two attempts while the API server is unavailable


@dataclass(frozen=True, slots=True)
class Intentions:
    """Records what a plan is about to publish, before it is written: so the machine record is right even if the process
    is killed. By default, records nothing: for a machine that can't save its record, or a Node without a record.

    machine_record.py has the functions that a pass uses."""

    save: Callable[[MachineRecord | None, Plan], MachineRecord | None] = lambda machine_record, _: machine_record
    """Takes the old record and the plan, returns the new record."""
    forget: Callable[[MachineRecord | None], None] = lambda _: None
    """Takes the record to keep after a conflict or a rejection, which contains what was written. None: no record."""


NO_INTENTIONS = Intentions()


@dataclass(frozen=True, slots=True)
class Start:
    """What apply() knows before its first request."""

    machine_record: MachineRecord | None
    """As in Facts."""
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
    answers: list[NodeState] = []
    try:
        return _apply(node, make_plan, start, intentions, retries, answers)
    except NodeError as e:
        e.node_state = answers[-1] if answers else None
        raise


def _apply(  # noqa: PLR0913  # the arguments of apply(), and the answers
    node: Node, make_plan: Planner, start: Start, intentions: Intentions, retries: Retries, answers: list[NodeState]
) -> Outcome:
    """As apply(). answers: to this list, adds the Node after each write."""
    deadline = time.monotonic() + retries.timeout
    conflicts = 0
    failures = 0
    unanswered = False  # a write may have been carried out, or may still be
    attempt: Attempt | None = None
    conflict: NodeConflict | None = None
    rejection: NodeRejected | None = None
    known = start.node_state
    machine_record = start.machine_record
    before = machine_record  # without the attempt's intention
    while True:
        is_writing = False
        try:
            node_state = _checked(node, known)
            known = None  # any further attempt reads the Node
            no_other_writer = attempt is not None and is_same_version(node_state, attempt.node_state)
            # What looks like a conflict is a rejection if nobody has written the Node since.
            rejection = unexplained(conflict) if conflict and no_other_writer else None
            plan = make_plan(node_state, machine_record, {}, attempt.plan if attempt and attempt.written else None)
            if not plan.write.patch:
                return report(node, Outcome(plan, node_state, applied=False))
            before = machine_record
            machine_record = intentions.save(machine_record, plan)
            attempt = Attempt(
                node,
                make_plan,
                node_state=node_state,
                machine_record=machine_record,
                plan=plan,
                rejects_failed_writes=not retries.failed_writes,
                answers=answers,
            )
            is_writing = True
            return attempt.write_in_parts(rejection) if rejection else attempt.write()
        except NodeRejected:
            _confirm(intentions, attempt)
            raise
        except NodeConflict as e:
            # After a lost response, the intention stays, because its quantities may be on the Node.
            if not unanswered:
                machine_record = _forget(intentions, attempt, machine_record, before=before)
            if rejection:
                raise rejection from e
            conflict = e
            conflicts += 1
            if conflicts == retries.conflicts:
                error = NodeConflict(f"{e}; tried {conflicts} times; another writer changed the Node first each time")
                _report_conflict(attempt, error, conflicts)
                raise error from e
            time.sleep(random.uniform(0, 0.05 * 2**conflicts))  # noqa: S311  # jitter is no secret
        except NodeUnreachable as e:
            failures += 1
            conflict = None
            unanswered = unanswered or is_writing
            pause = _pause_after(e, failures)
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)


def _pause_after(error: NodeUnreachable, failures: int) -> float:
    """Seconds until the next attempt, after this many failures."""
    if error.retry_after is not None:
        return error.retry_after
    return random.uniform(0, min(_MAX_PAUSE, 2**failures))  # noqa: S311  # jitter is no secret


def _forget(
    intentions: Intentions,
    attempt: Attempt | None,
    machine_record: MachineRecord | None,
    *,
    before: MachineRecord | None,
) -> MachineRecord | None:
    """After a conflict, takes the attempt's intention out of the machine record, except what earlier patches wrote.

    Another writer may have published an intended quantity. So of an older intention, only what the plan has found on
    the Node counts. before: the record without the attempt's intention. Returns the new record.
    """
    if attempt is None:
        return machine_record
    with_intention = attempt.machine_record
    plan = attempt.plan
    own = before.of_node(plan.node_uid) if before else None  # None: the record before was of another Node, or missing
    if with_intention is None or (own is None and not attempt.written):
        record = before
    else:
        published = own.published if own else {}
        found = {name: n for name, n in plan.recorded_before.items() if own is None or name in own.intended}
        written = attempt.confirmed(with_intention)
        record = replace(with_intention, published={**published, **found, **written}, intended={})
    if record != with_intention:
        intentions.forget(record)
    return record


def _confirm(intentions: Intentions, attempt: Attempt | None) -> None:
    """After a rejection, records what was written before it. The annotation need not show it: a webhook may have
    altered the annotation."""
    if attempt is None or attempt.machine_record is None:
        return
    record = attempt.machine_record
    written = attempt.confirmed(record)
    if written:
        intentions.forget(replace(record, published={**record.published, **written}))


def _checked(node: Node, known: NodeState | None) -> NodeState:
    """The state of the Node, after a check that it is this machine's Node. known: as Start.node_state."""
    if known is None:
        return node.read()
    node.check(known)
    return known


def _report_conflict(attempt: Attempt | None, error: NodeConflict, conflicts: int) -> None:
    """Writes only the condition while conflicts continue.

    conflicts: how many this pass had. A pass with a single one (reconcile.py allows one while conflicts continue) does
    not replace the message of the first pass.
    """
    if attempt is None:
        return
    condition = attempt.node_state.condition
    has_message = condition is not None and condition.status != "True"
    if conflicts > 1 or not has_message:
        attempt.write_rejection(attempt.plan, attempt.node_state, error)
