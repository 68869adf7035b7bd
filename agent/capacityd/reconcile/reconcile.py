"""One reconcile pass, for the service and for the commands. Pass.run() contains the steps.

A pass uses only what the fields of Pass provide, so tests can run passes through any history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.errors import NodeConflict, NodeError, NodeUnreachable
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import Plan
from capacityd.model.reading import Reading
from capacityd.model.waits import Wait
from capacityd.reconcile.events import events
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import make_plan
from capacityd.reconcile.waits import waits_after
from capacityd.reconcile.writing import Writing

MAX_CONFLICTS = 6
"""How often a pass tries to write, if another writer changes the Node before each attempt."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass has done with the Node."""

    plan: Plan
    """The last plan, with all changes that the pass has written."""
    node: NodeState
    """The Node after the pass."""
    is_written: bool = False
    warnings: tuple[str, ...] = ()
    """Why Events could not be created."""


@dataclass(frozen=True, slots=True)
class PassEnd:
    """How a pass has ended."""

    inputs: Inputs
    memory: Memory
    """The memory for the next pass."""
    outcome: Outcome | None = None
    """The result; None if the pass has failed, or has found nothing new and sent nothing."""
    error: NodeError | None = None
    """Why the pass has failed; None after success."""

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What later passes wait for, and until when."""
        plan = self.outcome.plan if self.outcome else None
        return waits_after(plan, self.memory, self.inputs)


@dataclass(frozen=True, slots=True)
class Pass:
    """A reconcile pass: what it uses, and its steps."""

    node: Node
    read_machine: Callable[[str | None], Mapping[str, Reading]]
    """Reads all resources. The argument is the Node's name, or None if the name is not known."""
    inputs_of: Callable[[Mapping[str, Reading]], Inputs]
    """Returns the readings together with the configuration and the time."""
    device_plugins: Callable[[], Collection[str] | None]
    """Returns the names that device plugins have registered, or None if their list is unreadable."""
    memory: Memory = field(default_factory=Memory)
    """The memory of the last pass."""
    writes: bool = True
    """Whether the pass writes its plan."""
    may_send_nothing: bool = False
    """Whether only readings can have changed since the last pass. If no reading has changed, the pass sends nothing."""
    resets_limits: bool = False
    """Whether the pass ignores earlier writes and denials, because a person asked for it or credentials are new."""

    def run(self) -> PassEnd:
        """Identifies the Node, reads the machine, and reconciles the Node. A NodeError is returned in PassEnd.error."""
        name, error = self._identify()
        inputs = self.inputs_of(self.read_machine(name))
        memory = self.memory.with_readings(inputs.readings, inputs.uptime)
        if self.resets_limits:
            memory = memory.without_limits(inputs.uptime)
        if error is not None:
            return PassEnd(inputs, replace(memory, settled_digest=""), error=error)
        if self.may_send_nothing and memory.settled_digest == inputs.digest:
            return PassEnd(inputs, memory)
        memory = replace(memory, settled_digest="")
        try:
            return self._reconcile(inputs, memory)
        except NodeError as e:  # the Node could not be read
            return PassEnd(inputs, memory, error=e)

    def _identify(self) -> tuple[str | None, NodeError | None]:
        """The Node's name and the error. The name is None if it is not known."""
        try:
            return self.node.identify(), None
        except NodeError as e:
            return None, e

    def _reconcile(self, inputs: Inputs, memory: Memory) -> PassEnd:
        """Reads the Node and the list of device plugins, makes a plan, and writes it.

        Makes a new plan if another writer changes the Node in between. Raises NodeError if the Node can't be read.
        """
        writing = Writing(self.node, inputs, self.node.read())
        for _ in range(MAX_CONFLICTS):
            state = writing.state
            plugins = self.device_plugins()
            memory = memory.with_node(state, inputs.readings, inputs.uptime)
            plan = make_plan(state, plugins, memory, inputs)
            if not self.writes:
                # Nothing was written, so the memory changes only in what it keeps about the readings.
                memory = replace(self.memory, lower_since=memory.lower_since, unknown_since=memory.unknown_since)
                return PassEnd(inputs, memory, Outcome(plan, state))
            try:
                plan = writing.write(plan, plugins, memory)
            except NodeConflict:
                memory = writing.memory
                continue
            except NodeUnreachable as e:  # it is not known whether the patch was stored
                return PassEnd(inputs, Memory(), error=e)
            except NodeError as e:
                return PassEnd(inputs, writing.memory, error=e)
            return self._finish(inputs, plan, writing)
        conflict = NodeConflict(f"another writer changed the Node before each of {MAX_CONFLICTS} patches")
        return PassEnd(inputs, memory, error=conflict)

    def _finish(self, inputs: Inputs, plan: Plan, writing: Writing) -> PassEnd:
        """Creates the Events of a pass that has carried out its plan. Returns the end of the pass."""
        warnings = self._report(plan, writing) if writing.has_written else []
        memory = writing.memory
        if writing.has_sent:  # a patch that the API server has rejected also counts for the limit of writes
            memory = memory.with_write(inputs.uptime)
        memory = memory.after_pass(plan, inputs.uptime)
        outcome = Outcome(plan, writing.state, is_written=writing.has_written, warnings=tuple(warnings))
        is_unsettled = bool(plan.troubles or plan.waits or memory.denied)
        settled_digest = "" if is_unsettled else inputs.digest
        return PassEnd(inputs, replace(memory, settled_digest=settled_digest), outcome)

    def _report(self, plan: Plan, writing: Writing) -> list[str]:
        """Creates the Events of a pass. Returns an error for each Event that could not be created."""
        is_news = writing.memory.condition_subject != self.memory.condition_subject
        condition_before = writing.state_before.condition
        errors = []
        for event in events(plan, condition_before, writing.state, is_news=is_news):
            try:
                self.node.report(event, writing.state)
            except NodeError as e:
                errors.append(f"the Event could not be created: {e}")
        return errors
