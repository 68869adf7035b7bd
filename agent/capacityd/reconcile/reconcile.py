"""One reconcile pass, for the service and for the commands. Its steps stand in Pass.run(), in their order.

Except for the Node and the machine, all input and output is values, so that tests can drive a pass through any history.
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
"""How often a pass begins again because another writer has changed the Node before its patch."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass has done with the Node."""

    plan: Plan
    """The last plan, with all changes that were written."""
    node: NodeState
    """The Node after the pass."""
    is_written: bool = False
    warnings: tuple[str, ...] = ()
    """Events that could not be created."""


@dataclass(frozen=True, slots=True)
class PassEnd:
    """How a pass has ended."""

    inputs: Inputs
    """With the readings as the machine gave them."""
    memory: Memory
    """For the next pass."""
    outcome: Outcome | None = None
    """None: the pass has failed, or has found nothing new and sent nothing."""
    error: NodeError | None = None
    """Why the pass has failed; None: it has not."""

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What later passes wait for."""
        return waits_after(self.outcome.plan if self.outcome else None, self.memory, self.inputs)


@dataclass(frozen=True, slots=True)
class Pass:
    """A reconcile pass: what it uses, and its steps."""

    node: Node
    read_machine: Callable[[str | None], Mapping[str, Reading]]
    """Reads all resources. Takes the Node's name; None: it is not known."""
    inputs_of: Callable[[Mapping[str, Reading]], Inputs]
    """Adds the configuration and the time to the readings."""
    device_plugins: Callable[[], Collection[str] | None]
    """Returns the names that device plugins have registered; None: their list is unreadable."""
    memory: Memory = field(default_factory=Memory)
    """Of the pass before."""
    writes: bool = True
    """Whether the plan is written."""
    may_send_nothing: bool = False
    """Whether nothing but a reading can have changed since the last pass, because the Node is watched."""
    resets_limits: bool = False
    """Whether the pass is a person's intent, or has new credentials: then no limit and no denial delays a write."""

    def run(self) -> PassEnd:
        """Identifies the Node, reads the machine, and reconciles the Node. A NodeError becomes the error."""
        name, error = self._identify()
        inputs = self.inputs_of(self.read_machine(name))
        memory = self.memory.with_readings(inputs.readings, inputs.uptime)
        if self.resets_limits:
            memory = memory.without_limits(inputs.uptime)
        if error is not None:
            return PassEnd(inputs, replace(memory, settled=""), error=error)
        if self.may_send_nothing and memory.settled == inputs.digest:
            return PassEnd(inputs, memory)
        memory = replace(memory, settled="")
        try:
            return self._reconcile(inputs, memory)
        except NodeError as e:  # the Node could not be read
            return PassEnd(inputs, memory, error=e)

    def _identify(self) -> tuple[str | None, NodeError | None]:
        """The Node's name, or why it is not known."""
        try:
            return self.node.identify(), None
        except NodeError as e:
            return None, e

    def _reconcile(self, inputs: Inputs, memory: Memory) -> PassEnd:
        """Reads the Node and the list of device plugins, plans, writes, looks at what was stored, and remembers.

        If another writer comes in between, begins again. Raises NodeError if the Node can't be read.
        """
        writing = Writing(self.node, inputs)
        state = self.node.read()
        for _ in range(MAX_CONFLICTS):
            plugins = self.device_plugins()
            memory = memory.of_node(state).with_restored(state, inputs.uptime)
            plan = make_plan(state, plugins, memory, inputs)
            if not self.writes:
                return PassEnd(inputs, replace(self.memory, lower_since=plan.lower_since), Outcome(plan, state))
            writing.begin(plugins, state, memory)
            try:
                plan = writing.write(plan)
            except NodeConflict:
                state, memory = writing.state, writing.memory
                continue
            except NodeUnreachable as e:  # the patch may have been stored, or not
                return PassEnd(inputs, Memory(), error=e)
            except NodeError as e:
                return PassEnd(inputs, writing.memory, error=e)
            return self._finish(inputs, plan, writing)
        conflict = NodeConflict(f"another writer changed the Node before each of {MAX_CONFLICTS} patches")
        return PassEnd(inputs, memory, error=conflict)

    def _finish(self, inputs: Inputs, plan: Plan, writing: Writing) -> PassEnd:
        """The end of a pass that has carried out its plan. Creates its Events."""
        warnings = self._report(plan, writing) if writing.has_written else []
        memory = writing.memory.with_write(inputs.uptime) if writing.has_sent else writing.memory
        outcome = Outcome(plan, writing.state, is_written=writing.has_written, warnings=tuple(warnings))
        is_settled = not plan.troubles and not plan.waits and not memory.has_denials
        settled = inputs.digest if is_settled else ""
        return PassEnd(inputs, replace(memory, settled=settled), outcome)

    def _report(self, plan: Plan, writing: Writing) -> list[str]:
        """Creates the Events of a pass. Returns why some could not be created."""
        is_news = writing.memory.condition_about != self.memory.condition_about
        before = writing.state_before.condition if writing.state_before else None
        errors = []
        for event in events(plan, before, writing.state, is_news=is_news):
            try:
                self.node.report(event, writing.state)
            except NodeError as e:
                errors.append(f"the Event could not be created: {e}")
        return errors
