"""One attempt to write a plan to the Node: the requests that it consists of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeAlias

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, NodeWriteFailed
from capacityd.model.label import is_label
from capacityd.model.node import ANNOTATION, ConditionReason, Node, NodeState, annotated_quantities
from capacityd.model.plan import Change, MachineRecord, Outcome, Patch, Plan
from capacityd.model.quantity import plain
from capacityd.reconcile.condition import changed_condition
from capacityd.reconcile.events import events
from capacityd.reconcile.patch import condition_patch

_ALTERED = "the API server accepted {} but stored {}; does an admission webhook or policy change it?"
_CONFLICT_WITHOUT_CHANGE = "the API server reports a conflict, but the Node has not changed: {}"
"""For example, an admission webhook answers with HTTP 409 or 422."""

Denied: TypeAlias = Mapping[str, str]
"""Name of a resource or label -> why the API server denies its change."""

Planner: TypeAlias = Callable[[NodeState, MachineRecord | None, Denied, Plan | None], Plan]
"""Makes a plan. Takes the Node's state, the machine record, the changes that were denied in this pass (the plan keeps
the values of these names), and an earlier plan of this pass, whose patches may explain what has changed on the Node
(None: no patch of this pass has succeeded)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to write a plan. Every method that writes raises NodeError, unless its docstring says otherwise."""

    node: Node
    make_plan: Planner
    node_state: NodeState
    """The Node before the attempt."""
    record_before: MachineRecord | None
    """The machine record before the attempt."""
    record_with_intention: MachineRecord | None
    """The machine record with the quantities that the plan is about to publish; None: no record is kept."""
    plan: Plan
    rejects_server_errors: bool
    """Whether a server error in response to a write counts as a rejection of the patch. Otherwise, the server error
    ends the attempt."""
    responses: list[NodeState]
    """The Node after each write of this pass, also of earlier attempts. Every write adds to this list."""
    written: list[Change] = field(default_factory=list)
    """The changes that have been written so far. write_plan() adds to this list."""

    @property
    def written_quantities(self) -> dict[str, int]:
        """Name -> intended quantity, of the names that have been written so far."""
        if self.record_with_intention is None:
            return {}
        names = {change.name for change in self.written}
        intended = self.record_with_intention.intended
        return {name: quantity for name, quantity in intended.items() if name in names}

    def plan_after(self, node_state: NodeState, denied: Denied) -> Plan:
        """The plan for the changes that remain after a patch. denied: the changes that this attempt knows are denied.

        The Events of the attempt are created at its end, from its last plan. So every plan starts from what Events had
        reported before the attempt.
        """
        record = self.record_with_intention
        if record is not None:
            record = replace(record, reported=self.plan.confirmed_record.reported)
        return self.make_plan(node_state, record, denied, self.plan)

    def write_plan(self, plan: Plan) -> NodeState:
        """Writes the plan, and adds its changes to those written. Returns the Node after the write."""
        node_state = self._write(plan.write.patch)
        self.written.extend(plan.written_changes)
        return node_state

    def _write(self, patch: Patch) -> NodeState:
        try:
            node_state = self.node.write(patch)
        except NodeWriteFailed as e:
            if self.rejects_server_errors:
                raise e.rejection from e  # the same error as a NodeRejected
            raise
        self.responses.append(node_state)
        return node_state

    def reject_altered_annotation(self, plan: Plan, node_state: NodeState) -> None:
        """After a write of the plan: calls reject() if the API server has stored another annotation than the plan's.

        Nothing else is written until the annotation lists the keys that capacityd owns.
        """
        if annotated_quantities(node_state.annotation) != plan.write.annotated:
            error = NodeRejected(_ALTERED.format(f"the annotation {ANNOTATION}", "a different one"))
            self.reject(plan, node_state, error)

    def reject(self, plan: Plan, node_state: NodeState, error: NodeRejected) -> NoReturn:
        """Writes a rejection into the condition, and raises it. The message also says if the condition can't be
        written."""
        why_unwritten = self.write_error_condition(plan, node_state, error)
        if not why_unwritten:
            raise error
        message = f"{error}; the Node's condition can't be written either, so it may be out of date: {why_unwritten}"
        raise NodeRejected(message, reason=error.reason)

    def write_error_condition(self, plan: Plan, node_state: NodeState, error: NodeError) -> str:
        """Writes this error into the condition, and changes nothing else on the Node. This may succeed where the rest
        is rejected, for example if annotations are too large.

        Returns why the condition can't be written; "" if it is as desired, or if no condition is kept. Raises nothing:
        the caller raises the error that the condition reports.
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


def altered_quantities(plan: Plan, node_state: NodeState) -> dict[str, str]:
    """Name -> how the quantity that the API server has stored differs from the one that this plan has written.

    node_state: the Node after the write.
    """
    altered = {}
    for change in plan.written_changes:
        name = change.name
        if not _is_as_written(change, node_state):
            altered[name] = _ALTERED.format(plain(change.new), plain(node_state.stored(name)))
            continue
        allocatable = plain((node_state.allocatable or {}).get(name))
        if not is_label(name) and allocatable != plain(change.new):
            altered[name] = _ALTERED.format(plain(change.new), f"{allocatable} as allocatable")
    return altered


def _is_as_written(change: Change, node_state: NodeState) -> bool:
    """Whether capacity, or the label, is as this change has written it."""
    if change.new is None:
        return node_state.stored(change.name) is None
    return node_state.number(change.name) == int(change.new)


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
    """Whether both states are the same version of the Node: nobody has written the Node in between. False if a version
    is unknown."""
    return bool(node_state.resource_version) and node_state.resource_version == other.resource_version


def rejection_of(conflict: NodeConflict) -> NodeRejected:
    """The error for a conflict although nobody has written the Node in between: the API server rejects the patch."""
    return NodeRejected(_CONFLICT_WITHOUT_CHANGE.format(conflict.reason))
