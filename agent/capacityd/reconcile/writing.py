"""Writes a plan in one patch or, if the API server denies this patch, in several.

So a denied resource does not block the others. Each plan starts from the Node and the machine record as the previous
write left them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeWriteFailed
from capacityd.model.label import is_label, resources_first
from capacityd.model.node import ANNOTATION, ConditionReason, Node, NodeState, annotated_quantities
from capacityd.model.plan import Change, MachineRecord, Outcome, Patch, Plan
from capacityd.model.quantity import plain
from capacityd.reconcile.condition import changed_condition
from capacityd.reconcile.events import events
from capacityd.reconcile.isolation import isolate
from capacityd.reconcile.patch import condition_patch

_ALTERED = "the API server accepted {} but stored {}; does an admission webhook or policy change it?"
_CONFLICT_WITHOUT_CHANGE = "the API server reports a conflict, but the Node has not changed: {}"

Denied: TypeAlias = Mapping[str, str]
"""Name -> why the API server denies its change."""

Planner: TypeAlias = Callable[[NodeState, MachineRecord | None, Denied, Plan | None], Plan]
"""Takes the Node's state, the machine record, the names denied in addition to the known ones, and the plan whose write
has left the Node in this state (None: others may have written it since); returns the plan. Denied names keep their
values."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to write a plan. Every method that writes raises NodeError."""

    node: Node
    make_plan: Planner
    node_state: NodeState
    """The Node before the attempt."""
    machine_record: MachineRecord | None
    """The machine record, which already contains the plan's intention."""
    plan: Plan
    rejects_failed_writes: bool
    """Whether a server error to a write counts as a rejection."""
    written: set[str] = field(default_factory=set)
    """The names whose changes have been written so far."""
    answers: list[NodeState] = field(default_factory=list)
    """The Node after each write of this attempt and of earlier ones."""

    def confirmed(self, recorded: MachineRecord) -> dict[str, int]:
        """Name -> quantity, of what has been written so far. recorded: the record with the attempt's intention."""
        return {name: quantity for name, quantity in recorded.intended.items() if name in self.written}

    def write(self) -> Outcome:
        """Writes the whole plan in one patch. If the API server denies the patch, writes the changes in several
        patches."""
        try:
            node_state = self._write_plan(self.plan)
        except NodeRejected as error:
            return self.write_in_parts(error)
        altered = self._altered_quantities(self.plan, node_state)
        if altered or self.plan.write.condition_follows:
            return self._write_condition_of_denials(node_state, written=_writing(self.plan), denied=altered)
        return report(self.node, Outcome(self.plan, node_state, applied=True))

    def write_in_parts(self, error: NodeRejected) -> Outcome:
        """Writes the changes in several patches, to isolate the denied ones. error: the error of the whole patch.

        Each patch sets the condition as if everything not yet written were denied. So the last patch that succeeds
        leaves the right condition, and no further request is needed unless all changes are denied.
        """
        names = tuple(sorted(self.plan.changed_names, key=resources_first))
        if not names:
            raise self._reported(self.plan, self.node_state, error)
        node_state = self.node_state
        written: tuple[Change, ...] = ()
        denied = dict.fromkeys(names, error.reason)  # at first, everything that is not yet written
        altered: dict[str, str] = {}  # written, but the API server stored another quantity

        def accepts(tried: tuple[str, ...]) -> bool:
            nonlocal node_state, denied, written
            not_tried = {name: why for name, why in denied.items() if name not in tried}
            plan = self._plan_after(node_state, not_tried | altered)
            try:
                node_state = self._write_plan(plan)
            except NodeRejected as e:
                denied |= dict.fromkeys(tried, e.reason)
                return False
            except NodeConflict as e:
                denied |= dict.fromkeys(tried, self._reason_without_other_writer(node_state, e))
                return False
            written += _writing(plan)
            denied = not_tried
            altered.update(self._altered_quantities(plan, node_state))
            return True

        isolate(names, accepts)
        return self._write_condition_of_denials(node_state, written=written, denied=denied | altered, error=error)

    def _write_plan(self, plan: Plan) -> NodeState:
        """Writes the plan, and notes its names as written. Returns the Node after the write."""
        node_state = self._write(plan.write.patch)
        self.written.update(plan.changed_names)
        return node_state

    def _write(self, patch: Patch) -> NodeState:
        try:
            self.answers.append(self.node.write(patch))
            return self.answers[-1]
        except NodeWriteFailed as e:
            if self.rejects_failed_writes:
                raise e.rejection from e
            raise

    def _reason_without_other_writer(self, node_state: NodeState, conflict: NodeConflict) -> str:
        """Why the API server denies a change with what looks like a conflict. Raises the conflict if another writer
        explains it."""
        if not is_same_version(self.node.read(), node_state):
            raise conflict
        return unexplained(conflict).reason

    def _write_condition_of_denials(
        self,
        node_state: NodeState,
        *,
        written: tuple[Change, ...],
        denied: Denied,
        error: NodeRejected | None = None,
    ) -> Outcome:
        """Reports denied changes in the condition, or that nothing is denied any more, unless it already does.

        written: the changes of the earlier patches. error: raised if this write is denied as well; None: that of the
        write is raised.
        """
        plan = self._plan_after(node_state, denied)
        if plan.write.patch:
            try:
                node_state = self._write_plan(plan)
            except NodeRejected as e:
                raise self._reported(plan, node_state, error or e) from None
        stored = [change for change in written if change.name not in denied]
        applied = bool(written or plan.write.patch)
        return report(self.node, Outcome(plan.with_earlier(stored), node_state, applied=applied, denied=denied))

    def _reported(self, plan: Plan, node_state: NodeState, error: NodeRejected) -> NodeRejected:
        """Writes a rejection into the condition. Returns the error, which also says if the condition can't be
        written."""
        why_unwritten = self.write_rejection(plan, node_state, error)
        if not why_unwritten:
            return error
        message = f"{error}; the Node's condition can't be written either, so it may be out of date: {why_unwritten}"
        return NodeRejected(message, reason=error.reason)

    def write_rejection(self, plan: Plan, node_state: NodeState, error: NodeError) -> str:
        """Writes only the condition. This may succeed where the rest is rejected, for example if annotations are too
        large.

        Returns why the condition can't be written; "" if it is as desired. Raises nothing.
        """
        if not plan.has_condition:
            return ""
        condition = changed_condition(node_state, ConditionReason.REJECTED, str(error), now=time.time())
        patch = condition_patch(node_state, condition)
        try:
            if patch:
                self._write(patch)
        except NodeRejected as e:
            return e.reason
        except NodeError as e:
            return str(e)
        return ""

    def _altered_quantities(self, plan: Plan, node_state: NodeState) -> dict[str, str]:
        """Name -> how the stored quantity differs from the one that the API server accepted.

        If the annotation differs, writes this into the condition and raises NodeRejected: nothing else is written until
        the annotation lists the keys that capacityd owns.
        """
        if annotated_quantities(node_state.annotation) != plan.write.annotated:
            error = NodeRejected(_ALTERED.format(f"the annotation {ANNOTATION}", "a different one"))
            raise self._reported(plan, node_state, error)
        altered = {}
        for change in _writing(plan):
            name = change.name
            stored = node_state.stored(name)
            allocatable = (node_state.allocatable or {}).get(name)
            is_as_desired = stored is None if change.new is None else node_state.number(name) == int(change.new)
            if not is_as_desired:
                altered[name] = _ALTERED.format(plain(change.new), plain(stored))
            elif not is_label(name) and plain(allocatable) != plain(change.new):
                altered[name] = _ALTERED.format(plain(change.new), f"{plain(allocatable)} as allocatable")
        return altered

    def _plan_after(self, node_state: NodeState, denied: Denied) -> Plan:
        """The plan for the remaining changes. Its Events are those that were due before the first write."""
        record = self.machine_record
        if record is not None:
            record = replace(record, reported=self.plan.reported_before)
        return self.make_plan(node_state, record, denied, self.plan)


def _writing(plan: Plan) -> tuple[Change, ...]:
    """The changes that the plan's patch makes."""
    return tuple(change for change in plan.changes if change.action.writes)


def report(node: Node, outcome: Outcome) -> Outcome:
    """Creates the Events for an outcome. Returns the outcome with a warning for each Event that could not be
    created."""
    warnings = []
    for event in events(outcome.plan, applied=outcome.applied):
        try:
            node.report(event, outcome.node_state)
        except NodeError as e:
            warnings.append(f"the Event could not be written: {e}")
    return replace(outcome, warnings=tuple(warnings))


def is_same_version(node_state: NodeState, other: NodeState) -> bool:
    """Whether both states are the same version of the Node: nobody has written it in between."""
    return bool(node_state.resource_version) and node_state.resource_version == other.resource_version


def unexplained(conflict: NodeConflict) -> NodeRejected:
    """The error for a conflict that no other writer explains."""
    return NodeRejected(_CONFLICT_WITHOUT_CHANGE.format(conflict.reason))
