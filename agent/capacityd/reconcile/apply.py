"""Plans and writes. If another writer has changed the Node in between, reads the Node and starts over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeUnreachable
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import MachineRecord, Outcome, Plan
from capacityd.reconcile.attempt import Attempt, Denied, Planner, is_same_version, rejection_of, report
from capacityd.reconcile.writing import write, write_in_parts

MAX_CONFLICTS = 6
"""The number of conflicts at which a pass or a command gives up."""

_MAX_PAUSE = 5.0  # seconds between two attempts while the API server is unavailable


@dataclass(frozen=True, slots=True)
class RecordFile:
    """The file with the machine record. Before a plan is written to the Node, the file says what the plan is about to
    publish (its intention), so the record is right even if the process is killed. machine_record.py has the functions
    that a pass uses."""

    intend: Callable[[MachineRecord | None, Plan], MachineRecord | None]
    """Saves the record with the plan's intention. Takes the old record and the plan, returns the new record."""
    replace: Callable[[MachineRecord | None], None]
    """Saves this record after a conflict or a rejection. None: removes the file."""


NO_RECORD_FILE = RecordFile(intend=lambda machine_record, _plan: machine_record, replace=lambda _machine_record: None)
"""Saves nothing: for a machine that can't save its record, or a Node without a record."""


@dataclass(frozen=True, slots=True)
class Start:
    """What apply() knows before its first request."""

    machine_record: MachineRecord | None
    """The quantities that this machine has published; None: the record is missing or can't be read."""
    node_state: NodeState | None = None
    """None: apply() reads the Node first."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often apply() tries again."""

    timeout: float = 0.0
    """Seconds for which apply() retries while the API server is unavailable."""
    max_conflicts: int = MAX_CONFLICTS
    """The number of conflicts at which apply() gives up."""
    rejects_server_errors: bool = False
    """Whether a server error in response to a write counts as a rejection. Then apply() writes the changes in parts, so
    that the rejected part does not block the others. Otherwise apply() tries the same write again."""


def apply(
    node: Node,
    make_plan: Planner,
    start: Start,
    record_file: RecordFile = NO_RECORD_FILE,
    retries: Retries = Retries(),
) -> Outcome:
    """Makes a plan and writes it. If a test of the patch fails, reads the Node and starts over. Raises NodeError.

    An exception from the record file ends the attempt.
    Events are best effort: apply() reports a change once, after the write. If the response is lost, no Event is
    created.
    """
    responses: list[NodeState] = []
    try:
        return _apply(node, make_plan, start, record_file, retries, responses)
    except NodeError as e:
        e.node_state = responses[-1] if responses else None
        raise


def _apply(  # noqa: PLR0913  # the arguments of apply(), and the responses
    node: Node, make_plan: Planner, start: Start, record_file: RecordFile, retries: Retries, responses: list[NodeState]
) -> Outcome:
    """As apply(). Adds the Node after each write to responses."""
    deadline = time.monotonic() + retries.timeout
    conflicts = 0
    failures = 0
    lost_response = False  # whether no response to a write came: the write may have succeeded, or may still succeed
    attempt: Attempt | None = None  # the last one with a patch
    conflict: NodeConflict | None = None  # how the last attempt ended; None: in another way
    known_state = start.node_state
    machine_record = start.machine_record
    no_denials: Denied = {}  # a plan for the whole patch; write_in_parts() adds the names that it finds denied
    while True:
        rejection: NodeRejected | None = None
        is_writing = False
        try:
            node_state = _checked(node, known_state)
            known_state = None  # any further attempt reads the Node
            rejection = _rejection(conflict, attempt, node_state)
            partly_written = attempt.plan if attempt and attempt.written else None  # may explain what has changed
            plan = make_plan(node_state, machine_record, no_denials, partly_written)
            if not plan.write.patch:
                return report(node, Outcome(plan, node_state, applied=False))
            attempt = Attempt(
                node,
                make_plan,
                node_state=node_state,
                record_before=machine_record,
                record_with_intention=record_file.intend(machine_record, plan),
                plan=plan,
                rejects_server_errors=retries.rejects_server_errors,
                responses=responses,
            )
            machine_record = attempt.record_with_intention
            is_writing = True
            return write_in_parts(attempt, rejection) if rejection else write(attempt)
        except NodeRejected:
            _record_written(record_file, attempt)
            raise
        except NodeConflict as e:
            # After a lost response, the intention stays, because its quantities may be on the Node.
            if attempt is not None and not lost_response:
                machine_record = _take_intention_back(record_file, attempt)
            if rejection:
                # The API server rejects the whole patch, and another writer wrote between the patches of
                # write_in_parts(). A new attempt would meet the rejection again. So the pass reports the rejection, and
                # the next pass starts over.
                raise rejection from e
            conflict = e
            conflicts += 1
            if conflicts == retries.max_conflicts:
                error = NodeConflict(f"{e}; tried {conflicts} times; another writer changed the Node first each time")
                _report_conflict(attempt, error, conflicts)
                raise error from e
            time.sleep(random.uniform(0, 0.05 * 2**conflicts))  # noqa: S311  # jitter is no secret
        except NodeUnreachable as e:
            failures += 1
            conflict = None  # the last attempt ended in this error, so a new plan is written in one patch again
            lost_response = lost_response or is_writing
            pause = _pause_after(e, failures)
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)


def _rejection(
    conflict: NodeConflict | None, last_attempt: Attempt | None, node_state: NodeState
) -> NodeRejected | None:
    """The last attempt's conflict as a rejection, if nobody has written the Node since: an admission webhook may answer
    like a conflict (HTTP 409 or 422). None: there was no conflict, or another writer explains it."""
    if conflict is None or last_attempt is None or not is_same_version(node_state, last_attempt.node_state):
        return None
    return rejection_of(conflict)


def _pause_after(error: NodeUnreachable, failures: int) -> float:
    """Seconds until the next attempt, after this many failures."""
    if error.retry_after is not None:
        return error.retry_after
    return random.uniform(0, min(_MAX_PAUSE, 2**failures))  # noqa: S311  # jitter is no secret


def _take_intention_back(record_file: RecordFile, attempt: Attempt) -> MachineRecord | None:
    """After a conflict, saves the machine record without the attempt's intention. Returns the record."""
    record = _record_after_conflict(attempt)
    if record != attempt.record_with_intention:  # what the file contains
        record_file.replace(record)
    return record


def _record_after_conflict(attempt: Attempt) -> MachineRecord | None:
    """The machine record without the attempt's intention, but with what the attempt's earlier patches wrote.

    Another writer may have published an intended quantity. So an intention from before the attempt counts only as far
    as the plan has found it on the Node.
    """
    confirmed = attempt.plan.confirmed_record  # what the plan has found on the Node
    before = attempt.record_before.of_node(confirmed.node_uid) if attempt.record_before else None
    if attempt.record_with_intention is None:  # no record is kept
        return attempt.record_before
    if before is None and not attempt.written:  # nothing was written, so no record of this Node is created
        return attempt.record_before
    published = confirmed.published  # without a record of this Node: what the annotation says
    if before is not None:
        found = {name: quantity for name, quantity in published.items() if name in before.intended}
        published = {**before.published, **found}
    return replace(attempt.record_with_intention, published={**published, **attempt.written_quantities}, intended={})


def _record_written(record_file: RecordFile, attempt: Attempt | None) -> None:
    """After a rejection, records what earlier patches of the attempt have written. The annotation alone may not show
    these quantities to the next pass: a webhook may have altered the annotation."""
    if attempt is None or attempt.record_with_intention is None:
        return
    written = attempt.written_quantities
    if written:
        record = attempt.record_with_intention
        record_with_written = replace(record, published={**record.published, **written})
        record_file.replace(record_with_written)


def _checked(node: Node, known_state: NodeState | None) -> NodeState:
    """The state of the Node, after a check that this is the machine's own Node. known_state: as Start.node_state."""
    if known_state is None:
        return node.read()
    node.check(known_state)
    return known_state


def _report_conflict(attempt: Attempt | None, error: NodeConflict, conflicts: int) -> None:
    """Writes the error into the condition, and nothing else.

    conflicts: how many this pass had. The first pass with conflicts has several. While conflicts continue, each later
    pass gives up after one (reconcile.py), and keeps the message that the first pass has written.
    """
    if attempt is None:
        return
    condition = attempt.node_state.condition
    is_false = condition is not None and condition.status != "True"
    is_later_pass = conflicts == 1
    if is_later_pass and is_false:
        return
    attempt.write_error_condition(attempt.plan, attempt.node_state, error)
