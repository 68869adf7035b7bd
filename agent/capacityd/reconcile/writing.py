"""Writes a plan in one patch. If the API server rejects the patch, writes the plan in parts.

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
    """The writes of a pass."""

    state: NodeState
    """The Node after the last patch or, after a conflict, as it was read again."""
    memory: Memory
    """The memory after the last patch."""

    def __init__(self, node: Node, inputs: Inputs) -> None:
        self.state_before: NodeState | None = None
        """The Node as the pass first read it."""
        self.has_sent = False
        """Whether a patch was sent, even if it was rejected."""
        self.has_written = False
        """Whether a patch was stored."""
        self.written: dict[Key, Change] = {}
        """The changes that were stored."""
        self._node = node
        self._inputs = inputs
        self._uptime = inputs.uptime

    def begin(self, device_plugins: Collection[str] | None, state: NodeState, memory: Memory) -> None:
        """Begins with a Node that was just read.

        device_plugins: the names that device plugins have registered; None if their list is unreadable. memory: the
        memory before the writes.
        """
        self._device_plugins = device_plugins
        if self.state_before is None:
            self.state_before = state
        self.state = state
        self.memory = memory

    def write(self, plan: Plan) -> Plan:
        """Writes a plan. Returns the last plan, with all changes that were written.

        Raises NodeConflict if another writer changes the Node in between, or another NodeError. `memory` and `written`
        then show what was stored before the error.
        """
        if plan.patch is None and not plan.retried:
            self.memory = self.memory.after_plan(plan)
            return plan.with_written(self.written)
        denied_before = self._denials()
        rejection = self._send(plan)
        if rejection and plan.written_changes:
            self._write_parts(tuple(str(change.key) for change in plan.written_changes))
        for key in plan.retried:
            self._try_again(key, plan.retried)
        if rejection or self._denials() != denied_before:
            # The condition comes last, because it reports what was denied.
            last_names = (THE_ANNOTATION, THE_CONDITION)
            self._write_parts(last_names)
            plan = self._plan(last_names)
        return plan.with_written(self.written)

    def _try_again(self, key: Key, due: Collection[Key]) -> None:
        """Writes a denied change in a patch of its own, and then the label of a resource in another patch."""
        if not key.is_label:
            self._write_parts((str(key),))
            self._write_parts((str(key.label),))
            return
        resource = Key(key.name)
        if resource not in due:  # otherwise, the label is written after its resource
            self._write_parts((str(key),))

    def _denials(self) -> Mapping[str, Denial]:
        """The denials that the condition reports."""
        return {name: denial for name, denial in self.memory.denied.items() if name != THE_CONDITION}

    def _plan(self, names: tuple[str, ...]) -> Plan:
        return make_plan(self.state, self._device_plugins, self.memory, self._inputs, names)

    def _write_parts(self, names: tuple[str, ...]) -> None:
        """Writes in one patch what these names stand for.

        If the API server rejects the patch, writes each half of the names in the same way. Records a single name that
        is rejected as denied.
        """
        plan = self._plan(names)
        rejection = self._send(plan)
        if not rejection:
            return
        if len(names) == 1:
            (name,) = names
            self.memory = self.memory.with_denied(name, _sent(plan, name), rejection, self._uptime)
            return
        middle = len(names) // 2
        self._write_parts(names[:middle])
        self._write_parts(names[middle:])

    def _send(self, plan: Plan) -> str:
        """Sends the plan's patch, if there is one. Returns why the API server rejects the patch; "" if it does not."""
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
        self.memory = self.memory.after_write(plan, plan.patch, stored, self._uptime)
        for change in plan.written_changes:
            if str(change.key) not in self.memory.denied:
                self.written[change.key] = change
        self.state = stored
        return ""


def _sent(plan: Plan, name: str) -> str:
    """What the patch of a plan for a single name contains, as text. The content of the annotation is left out."""
    if plan.patch is not None and plan.patch.condition is not None:
        return condition_text(plan.patch.condition)
    if plan.written_changes:
        return sent_text(plan.written_changes[0])
    return name
