"""One reconcile pass, after discovery: whether the Node must be read at all, and the state for the next pass.

Everything but the Node comes in and goes out as values, so that a model can drive it through any history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from capacityd.linux.clock import BOOTING
from capacityd.model.config import Config
from capacityd.model.errors import NodeError, StateError
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Reading
from capacityd.model.reasons import PassReason
from capacityd.reconcile.apply import TRIES, Retries, SaveIntention, apply, save_nothing
from capacityd.reconcile.attempt import Denied, Outcome
from capacityd.reconcile.held_back import changes_held_back
from capacityd.reconcile.plan import make_plan, unwritten
from capacityd.reconcile.plan_input import PlanInput, Policy
from capacityd.reconcile.rate_limit import MIN_INTERVAL
from capacityd.reconcile.result import (
    ReconcileResult,
    failed_result,
    lasting_conflict,
    reconciled_result,
)
from capacityd.reconcile.state import PassContext, ReconcileState, remember, retry_denied, with_readings, write_times_of

_LOCAL = frozenset({PassReason.HARDWARE, PassReason.FILE, PassReason.REQUEUE, PassReason.PLUGINS})
"""Reasons that say nothing about the Node: if the readings are what was last applied, it need not be read.

PLUGINS: the kubelet rewrites its checkpoint for each pod with devices; only the set of names in it counts.
"""

_RETRY_DENIED = frozenset({PassReason.BOOT, PassReason.CONFIG, PassReason.CREDENTIALS})
"""Reasons after which a denied change is tried again at once."""

_HEARTBEAT_SHARE = 0.5
"""Share of the resync period after which a pass that reads the Node refreshes the heartbeat of the condition."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a pass reaches what is outside of it."""

    open_node: Callable[[], Node]
    device_plugins: Callable[[], Collection[str] | None]
    """Returns their names, None if unknown; called for each plan, because a conflict may come from one that
    registers."""
    save_intention: SaveIntention = save_nothing
    """As for apply(). If it raises StateError, what needs no record is still written."""


def reconcile(
    config: Config, readings: Mapping[str, Reading], context: PassContext, state: ReconcileState, access: Access
) -> ReconcileResult:
    """Reconciles the Node with the readings, unless it matches, or has to wait. Raises no NodeError; the result has it.

    state: what the pass before left.
    """
    state = with_readings(state, readings, context.uptime)
    if not _RETRY_DENIED.isdisjoint(context.reasons):
        state = retry_denied(state, context.uptime)
    return Pass(config, readings, context, state, access).run()


@dataclass(frozen=True, slots=True)
class Pass:
    """A reconcile pass: run(), and its steps in their order."""

    config: Config
    readings: Mapping[str, Reading]
    context: PassContext
    state: ReconcileState
    """The state before the pass, with its readings."""
    access: Access

    def run(self) -> ReconcileResult:
        """Makes the pass. Raises no NodeError; the result has it."""
        if not self.must_read_node() and (result := changes_held_back(self.plan_input())):
            return result
        if result := lasting_conflict(self.state, self.context.uptime):
            return result
        try:
            node = self.access.open_node()
            outcome = self.observe(node) if self.config.settings.observe else self.write(node)
        except NodeError as error:
            return failed_result(error, self.state, self.context.uptime)
        state = remember(self.state, self.readings, outcome, self.context)
        return reconciled_result(outcome, state, self.context.uptime)

    def must_read_node(self) -> bool:
        """Whether the reasons for this pass concern the Node itself."""
        reasons, verify_at = self.context.reasons, self.state.verify_at
        if not _LOCAL.issuperset(reasons) or (verify_at is not None and self.context.uptime >= verify_at):
            return True
        return PassReason.PLUGINS in reasons and _sorted(self.access.device_plugins()) != self.state.device_plugins

    def observe(self, node: Node) -> Outcome:
        """Reads the Node, and plans without writing."""
        node_state = node.read()
        plan = unwritten(self.plan(node_state, self.context.machine_record, {}), node_state, self.state.lower_since)
        return Outcome(plan, applied=False, node_state=node_state)

    def write(self, node: Node) -> Outcome:
        """Reads the Node, plans and writes. What can't be recorded is neither lowered nor removed."""
        save_intention = save_nothing if self.context.unrecordable else self.access.save_intention
        retries = Retries(conflicts=1 if self.state.conflict else TRIES)
        try:
            return apply(node, self.plan, self.context.machine_record, save_intention, retries)
        except StateError as error:
            return replace(self, context=replace(self.context, unwritable=str(error))).write(node)

    def plan(self, node_state: NodeState, machine_record: MachineRecord | None, denied: Denied) -> Plan:
        """The plan for this Node, and for what is denied just now."""
        inputs = self.plan_input()
        inputs = replace(
            inputs,
            context=replace(self.context, machine_record=machine_record),
            state=replace(self.state, write_times=write_times_of(node_state, self.state)),
            device_plugins=self.access.device_plugins(),
            denied=denied,
        )
        return make_plan(node_state, inputs)

    def plan_input(self) -> PlanInput:
        """What a plan depends on, as far as it is known before the Node is read."""
        settings, uptime, state = self.config.settings, self.context.uptime, self.state
        policy = replace(
            Policy.of(self.config),
            configuration_errors=self.context.configuration_errors or self.config.errors(),
            lower_after=max(settings.lower_after, settings.lower_after_boot if uptime < BOOTING else 0.0),
            reports_unknown=not settings.observe and not self.context.unwritable,
            heartbeat_after=max(MIN_INTERVAL, settings.resync * _HEARTBEAT_SHARE),
        )
        return PlanInput(self.readings, policy, self.context, state)


def _sorted(names: Collection[str] | None) -> tuple[str, ...] | None:
    """The names of device plugins, so that they can be compared; None if they are unknown."""
    return None if names is None else tuple(sorted(names))
