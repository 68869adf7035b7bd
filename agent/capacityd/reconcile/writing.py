"""Writes a plan in one patch or, if the API server denies this patch, in several.

So a denied resource does not block the others. Each plan starts from the Node and the machine record as the previous
write left them.
"""

from __future__ import annotations

from capacityd.model.errors import NodeConflict, NodeRejected
from capacityd.model.label import resources_first
from capacityd.model.node import NodeState
from capacityd.model.plan import Outcome
from capacityd.reconcile.attempt import Attempt, Denied, altered_quantities, is_same_version, rejection_of, report
from capacityd.reconcile.isolation import isolate


def write(attempt: Attempt) -> Outcome:
    """Writes the whole plan in one patch. If the API server denies the patch, writes the changes in several patches.

    Raises NodeError.
    """
    plan = attempt.plan
    try:
        node_state = attempt.write_plan(plan)
    except NodeRejected as error:
        return write_in_parts(attempt, error)
    attempt.reject_altered_annotation(plan, node_state)
    altered = altered_quantities(plan, node_state)
    if altered or plan.write.condition_follows:
        return _finish(attempt, node_state, denied=altered)
    return report(attempt.node, Outcome(plan, node_state, applied=True, attempted=plan.changed_names))


def write_in_parts(attempt: Attempt, error: NodeRejected) -> Outcome:
    """Writes the changes in several patches, to isolate the denied ones. error: the error of the whole patch.

    Raises NodeError.
    """
    parts = _Parts(attempt, error)
    names = tuple(parts.unwritten)
    if not names:  # the patch changes no quantity, so no part of it can be left out
        attempt.reject(attempt.plan, attempt.node_state, error)  # raises
    isolate(names, parts.write)
    return _finish(attempt, parts.node_state, denied=parts.unwritten | parts.altered, error=error)


class _Parts:
    """A plan's changes while they are written in several patches.

    Each patch sets the condition as if everything not yet written were denied. So the last patch that succeeds leaves
    the right condition, and no further request is needed unless all changes are denied.
    """

    def __init__(self, attempt: Attempt, error: NodeRejected) -> None:
        self.node_state = attempt.node_state
        """The Node after the last patch that succeeded."""
        names = sorted(attempt.plan.changed_names, key=resources_first)
        self.unwritten: dict[str, str] = dict.fromkeys(names, error.reason)
        """Name -> why the API server has denied the last patch with its change."""
        self.altered: dict[str, str] = {}
        """Name -> how the API server has altered its quantity."""
        self._attempt = attempt

    def write(self, names: tuple[str, ...]) -> bool:
        """Writes the changes of these names in one patch. Returns whether the API server accepts the patch."""
        attempt = self._attempt
        left_out = {name: why for name, why in self.unwritten.items() if name not in names}
        plan = attempt.plan_after(self.node_state, denied=left_out | self.altered)
        try:
            self.node_state = attempt.write_plan(plan)
        except NodeRejected as e:
            self.unwritten |= dict.fromkeys(names, e.reason)
            return False
        except NodeConflict as e:
            if not is_same_version(attempt.node.read(), self.node_state):
                raise  # another writer changed the Node
            self.unwritten |= dict.fromkeys(names, rejection_of(e).reason)
            return False
        self.unwritten = left_out
        attempt.reject_altered_annotation(plan, self.node_state)
        self.altered |= altered_quantities(plan, self.node_state)
        return True


def _finish(attempt: Attempt, node_state: NodeState, *, denied: Denied, error: NodeRejected | None = None) -> Outcome:
    """Writes what remains after the patches of an attempt, above all the condition, which says what is denied. Writes
    nothing if the Node already is as planned. Creates the Events, and returns the outcome of the attempt.

    denied: the denied and the altered changes. error: the error to raise if the API server denies this write as well;
    None: the write's own.
    """
    plan = attempt.plan_after(node_state, denied)
    if plan.write.patch:
        try:
            node_state = attempt.write_plan(plan)
        except NodeRejected as e:
            attempt.reject(plan, node_state, error or e)
    stored = [change for change in attempt.written if change.name not in denied]  # as written, not altered
    outcome = Outcome(
        plan.with_earlier(stored),
        node_state,
        applied=bool(attempt.written or plan.write.patch),
        denied=denied,
        attempted=attempt.plan.changed_names,
    )
    return report(attempt.node, outcome)
