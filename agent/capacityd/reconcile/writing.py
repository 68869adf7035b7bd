"""Writes a plan in one patch. If the API server rejects the patch, writes each change in a patch of its own.

A denied change therefore does not block the other changes. After each patch, the memory records what was stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from capacityd.model.errors import NodeConflict, NodeRejected
from capacityd.model.key import Key
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import Change, Plan
from capacityd.reconcile.denial import THE_ANNOTATION, THE_CONDITION, Denial, condition_text, sent_text
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import make_plan


class Writing:
    """The writes of a pass. state: the Node as the pass first read it."""

    memory: Memory
    """The memory after the last patch."""

    def __init__(self, node: Node, inputs: Inputs, state: NodeState) -> None:
        self.state_before = state
        self.state = state
        """The Node after the last patch or, after a conflict, as it was read again."""
        self.has_sent = False
        """Whether a patch was sent, even if it was rejected."""
        self.has_written = False
        """Whether a patch was stored."""
        self._written: dict[Key, Change] = {}  # the changes that were stored
        self._node = node
        self._inputs = inputs

    def write(self, plan: Plan, device_plugins: Collection[str] | None, memory: Memory) -> Plan:
        """Writes a plan for `state`. Returns the last plan of the pass, with all changes that the pass has written.

        Raises NodeConflict if another writer changes the Node in between, or another NodeError. `memory` then shows
        what was stored before the error.

        device_plugins: the names that device plugins have registered; None if their list is unreadable. memory: the
        memory that the plan was made from.
        """
        self._device_plugins = device_plugins
        self.memory = memory
        if plan.patch is None and not plan.retried:
            self.memory = memory.after_plan(plan)
            return plan.with_written(self._written)
        denied_before = self._denials()
        rejection = self._send(plan)
        if rejection:
            for change in plan.written_changes:
                self._write_alone(str(change.key))
        for key in plan.retried:
            self._try_again(key, plan.retried)
        if rejection or self._denials() != denied_before:
            # The condition comes last, because it reports what was denied.
            last_names = (THE_ANNOTATION, THE_CONDITION)
            if self._send(self._new_plan(last_names)):
                for name in last_names:
                    self._write_alone(name)
            plan = self._new_plan(last_names)
        return plan.with_written(self._written)

    def _try_again(self, key: Key, retried: Collection[Key]) -> None:
        """Writes a denied change, and after a resource also its label, each in a patch of its own."""
        if key.is_label and Key(key.name) in retried:
            return  # the label was written after its resource
        self._write_alone(str(key))
        if not key.is_label:
            self._write_alone(str(key.label))

    def _denials(self) -> Mapping[str, Denial]:
        """The denials that the condition reports."""
        return {name: denial for name, denial in self.memory.denied.items() if name != THE_CONDITION}

    def _new_plan(self, only: Collection[str]) -> Plan:
        return make_plan(self.state, self._device_plugins, self.memory, self._inputs, only)

    def _write_alone(self, name: str) -> None:
        """Writes a change, the annotation or the condition in a patch of its own. Records a rejection as a denial.

        name: the text of the changed key, THE_ANNOTATION or THE_CONDITION.
        """
        plan = self._new_plan([name])
        rejection = self._send(plan)
        if rejection:
            self.memory = self.memory.with_denied(name, _sent_content(plan, name), rejection, self._inputs.uptime)

    def _send(self, plan: Plan) -> str:
        """Sends the plan's patch, if there is one. Returns why the API server rejects it; "" if it does not."""
        if plan.patch is None:
            return ""
        self.has_sent = True
        try:
            stored = self._node.write(plan.patch)
        except NodeRejected as e:
            return e.reason
        except NodeConflict as e:
            found = self._node.read()
            if found.resource_version != self.state.resource_version:
                self.state = found
                raise
            return f"the API server reports a conflict, but nobody has changed the Node: {e.reason}"
        self.has_written = True
        self.memory = self.memory.after_write(plan, plan.patch, stored, self._inputs.uptime)
        for change in plan.written_changes:
            if str(change.key) not in self.memory.denied:
                self._written[change.key] = change
        self.state = stored
        return ""


def _sent_content(plan: Plan, name: str) -> str:
    """What a plan for a single name sends, as text. For the annotation, the text is only this name."""
    if plan.patch is not None and plan.patch.condition is not None:
        return condition_text(plan.patch.condition)
    if plan.written_changes:
        return sent_text(plan.written_changes[0])
    return name
