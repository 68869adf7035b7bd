"""Writes a plan in one patch. If the API server rejects the patch, writes the plan in parts, so that a denied change
does not block the other changes. After each patch, the memory records what was stored."""

from __future__ import annotations

from collections.abc import Collection

from capacityd.model.errors import NodeConflict, NodeRejected
from capacityd.model.key import Key
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import Change, Plan
from capacityd.reconcile.denial import THE_ANNOTATION, THE_CONDITION, condition_text, sent_text
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import Part, make_plan

_REST = Part(frozenset())
"""No numbers: only the annotation, the hash of the configuration and the condition."""
_REST_OF_ANNOTATION = Part(frozenset(), has_condition=False)
"""Only the annotation and the hash of the configuration."""


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
        """Begins with a Node that was just read. device_plugins: see make_plan(). memory: before the writes."""
        self._device_plugins = device_plugins
        if self.state_before is None:
            self.state_before = state
        self.state = state
        self.memory = memory

    def write(self, plan: Plan) -> Plan:
        """Writes a plan. Returns the last plan, with all changes that were written.

        Raises NodeConflict if another writer changes the Node in between, or another NodeError. Then memory and written
        show what was stored before the error.
        """
        if plan.patch is None and not plan.due:
            self.memory = self.memory.after_plan(plan)
            return plan.with_written(self.written)
        denied_before = self._denials()
        why = self._send(plan)
        rejected = tuple(change.key for change in plan.written_changes) if why else ()
        # The patch of these keys leaves out the condition, which may be what the API server has rejected.
        if rejected and not self._write_keys(rejected):
            self._isolate(rejected)
        self._write_due()
        if why or self._denials() != denied_before:
            self._write_rest()
            plan = self._plan(_REST)
        return plan.with_written(self.written)

    def _write_due(self) -> None:
        """Tries each denied change that is due, alone. After a resource is written, its label is tried, too."""
        tried: set[Key] = set()
        while due := set(self._plan(_REST).due) - tried:
            key = min(due)
            tried.add(key)
            if self._write_keys((key,)) and not key.is_label:
                tried.add(key.label)
                self._write_keys((key.label,))

    def _isolate(self, keys: tuple[Key, ...]) -> None:
        """Halves these keys, whose patch was rejected, until each denied key is alone and all others are written."""
        if len(keys) == 1:
            return
        middle = len(keys) // 2
        for half in (keys[:middle], keys[middle:]):
            if not self._write_keys(half):
                self._isolate(half)

    def _denials(self) -> object:
        """The denials that the condition reports."""
        return {name: denial for name, denial in self.memory.denied.items() if name != THE_CONDITION}

    def _plan(self, part: Part) -> Plan:
        return make_plan(self.state, self._device_plugins, self.memory, self._inputs, part)

    def _write_keys(self, keys: Collection[Key]) -> bool:
        """Writes the numbers of these keys and their entries in the annotation. Returns whether they were accepted."""
        plan = self._plan(Part(frozenset(keys), has_rest=False, has_condition=False))
        unchanged = set(keys) - {change.key for change in plan.written_changes}
        # For example, the label of a denied resource does not change.
        self.memory = self.memory.without_denials_of(map(str, unchanged))
        why = self._send(plan)
        if why:
            for change in plan.written_changes:
                self.memory = self.memory.with_denied(str(change.key), sent_text(change), why, self._uptime)
        return not why

    def _write_rest(self) -> None:
        """Writes the annotation and the condition in one patch or, if the patch is rejected, each in its own patch."""
        plan = self._plan(_REST)
        why = self._send(plan)
        if why and plan.patch is not None and plan.patch.annotations:
            if why_annotation := self._send(self._plan(_REST_OF_ANNOTATION)):
                self.memory = self.memory.with_denied(THE_ANNOTATION, THE_ANNOTATION, why_annotation, self._uptime)
            plan = self._plan(_REST)
            why = self._send(plan)
        if why and plan.patch is not None and plan.patch.condition is not None:
            sent = condition_text(plan.patch.condition)
            self.memory = self.memory.with_denied(THE_CONDITION, sent, why, self._uptime)

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
        self.memory = self.memory.after_write(plan, plan.patch, stored, self._uptime)
        accepted = [change for change in plan.written_changes if str(change.key) not in self.memory.denied]
        self.written |= {change.key: change for change in accepted}
        self.state = stored
        return ""
