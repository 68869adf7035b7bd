"""One reconcile pass after discovery: plan for the Node as it is known, write if needed, and remember.

While the Node is watched, the pass knows it without a request. Otherwise, the pass reads it.

Except for the Node, all input and output is values, so that tests can drive a pass through any history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from capacityd.linux.clock import BOOT_SECONDS
from capacityd.model.errors import NodeConflict, NodeError, NodeMissing, NodeUnauthorized, NodeUnreachable, StateError
from capacityd.model.messages import Failure
from capacityd.model.node import Node, NodeState
from capacityd.model.plan import MachineRecord, Outcome, Plan
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.reconcile import timing
from capacityd.reconcile.apply import MAX_CONFLICTS, NO_RECORD_FILE, RecordFile, Retries, Start, apply
from capacityd.reconcile.attempt import Denied
from capacityd.reconcile.events import events
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.known_node import known_node
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.pass_waits import waits_after
from capacityd.reconcile.plan import make_plan
from capacityd.reconcile.result import ReconcileResult

_TRIES_AGAIN = frozenset({PassReason.BOOT, PassReason.CONFIG, PassReason.CREDENTIALS})
"""Reasons for a pass that tries denied changes again at once, and does not wait after a conflict."""

_HEARTBEAT_SHARE = 0.5
"""A resync, or a pass that writes anyway, refreshes the condition's heartbeat if it is older than this share of the
resync period."""


@dataclass(frozen=True, slots=True)
class Access:
    """The interfaces through which a pass reads and writes external state."""

    open_node: Callable[[], Node]
    device_plugins: Callable[[], Collection[str] | None]
    """Returns the device plugins' names, None if they are unknown. Called for each plan, because a device plugin that
    registers may cause a conflict."""
    record_file: RecordFile = NO_RECORD_FILE
    """If this raises StateError, the pass still writes the changes that need no machine record."""


def reconcile(facts: Facts, access: Access) -> ReconcileResult:
    """Reconciles the Node with the readings. A NodeError becomes the result's failure.

    facts: with the memory of the previous pass.
    """
    memory = facts.memory.without_future(facts.uptime).with_readings(facts.readings, facts.uptime)
    if not _TRIES_AGAIN.isdisjoint(facts.reasons):
        memory = memory.with_denials_due(facts.uptime)
    errors = facts.configuration_errors
    if not errors:  # the configuration in use may have errors that no check has listed
        errors = facts.config.errors()
    return Pass(replace(facts, memory=memory, configuration_errors=errors), access).run()


@dataclass(frozen=True, slots=True)
class Pass:
    """A reconcile pass: run() and its steps, in order."""

    facts: Facts
    """With the memory of the previous pass and the readings of this pass."""
    access: Access

    def run(self) -> ReconcileResult:
        """Runs the pass. A NodeError becomes the result's failure."""
        facts = self.facts
        watched = facts.watched
        if watched is None:
            return self.read_and_reconcile()
        if watched.state is None and facts.memory.node is None:  # no earlier pass has found the Node either
            missing = NodeMissing(watched.server, watched.name, named_by_credentials=watched.named_by_credentials)
            return self.fail(plan=None, error=missing)
        known = known_node(watched, facts.memory)
        if known is None:
            return self.read_and_reconcile()
        # A heartbeat alone is a reason for a write only at a resync.
        plan = make_plan(known, self.facts_for_plan(heartbeats=PassReason.RESYNC in facts.reasons))
        intends = facts.machine_record is not None and bool(facts.machine_record.intended)
        if intends and plan.write.recorded is not None:
            # A write whose response was lost may have been carried out, and the watch may not have reported it yet.
            return self.read_and_reconcile()
        with_times = self.with_lower_since(plan.lower_since)
        is_event_due = bool(events(plan, applied=False))  # an Event that is created without a write
        if plan.write.patch or is_event_due:
            return with_times.reconcile_node(known=known, plan_of_known=plan)
        return with_times.finish(Outcome(plan, known, applied=False))

    def read_and_reconcile(self) -> ReconcileResult:
        """Reads the Node, plans and writes.

        The read may fail. So a plan for the Node as last known first updates the times since when reductions have been
        due: a reduction that the readings no longer ask for is no longer due.
        """
        last = self.facts.memory.node
        lower_since = make_plan(last, self.facts_for_plan()).lower_since if last else {}
        return self.with_lower_since(lower_since).reconcile_node()

    def with_lower_since(self, lower_since: Mapping[str, float]) -> Pass:
        """This pass, with these times since when a reduction has been due."""
        return replace(self, facts=replace(self.facts, memory=replace(self.facts.memory, lower_since=lower_since)))

    def reconcile_node(self, known: NodeState | None = None, plan_of_known: Plan | None = None) -> ReconcileResult:
        """Plans and writes. known: the Node; None: it is read first. plan_of_known: the plan for it, which the result
        contains if the pass fails."""
        conflict = self.facts.memory.conflict
        if conflict and self.facts.uptime < conflict.retry_at and _TRIES_AGAIN.isdisjoint(self.facts.reasons):
            # Too early for the next attempt: each one costs the API server two requests.
            failure = Failure(conflict.message, NodeConflict.cause)
            return self.result(self.facts.memory, plan_of_known, failure)
        try:
            node = self.access.open_node()
            carry_out = self.observe if self.facts.config.settings.observe else self.write
            outcome = carry_out(node, known)
        except NodeError as error:
            return self.fail(plan=plan_of_known, error=error)
        has_response = outcome.node_state is not known  # without a request, the outcome holds the known state itself
        return replace(self.finish(outcome), has_response=has_response)

    def finish(self, outcome: Outcome) -> ReconcileResult:
        """The result of a pass that has carried out its plan."""
        unsaved = outcome.plan.health.unsaved
        failure = Failure(unsaved, RetryCause.STATE) if unsaved else None
        memory = self.facts.memory.after_outcome(outcome, self.facts.uptime)
        return replace(self.result(memory, outcome.plan, failure), outcome=outcome)

    def observe(self, node: Node, known: NodeState | None) -> Outcome:
        """Plans without writing. known: as for reconcile_node()."""
        node_state = known or node.read()
        plan = self.make_plan(node_state, self.facts.machine_record, denied={}, written=None)
        return Outcome(plan, node_state, applied=False)

    def write(self, node: Node, known: NodeState | None) -> Outcome:
        """Plans and writes. known: as for reconcile_node().

        If the machine record can't be saved, writes only the changes that need none: limits.py holds back the others.
        """
        record_file = NO_RECORD_FILE if self.facts.unsaved else self.access.record_file
        retries = Retries(
            # While conflicts continue, a single plan in each pass: reconcile_node() limits the rate of the passes.
            max_conflicts=1 if self.facts.memory.conflict else MAX_CONFLICTS,
            rejects_server_errors=self.facts.memory.rejects_server_errors(self.facts.uptime),
        )
        start = Start(self.facts.machine_record, node_state=known)
        try:
            return apply(node, self.make_plan, start, record_file, retries)
        except StateError as error:  # from the record file; the second attempt uses none
            unsaved = replace(self.facts, save_error=str(error))
            return replace(self, facts=unsaved).write(node, known)

    def make_plan(
        self, node_state: NodeState, machine_record: MachineRecord | None, denied: Denied, written: Plan | None
    ) -> Plan:
        """The plan for this Node. denied, written: as in Facts."""
        facts = replace(self.facts_for_plan(), machine_record=machine_record, denied=denied, written=written)
        return make_plan(node_state, facts)

    def facts_for_plan(self, *, heartbeats: bool = True) -> Facts:
        """The facts for a plan that is made now. heartbeats: whether the plan refreshes the condition's heartbeat."""
        settings = self.facts.config.settings
        lower_after = settings.lower_after
        if self.facts.uptime < BOOT_SECONDS:  # drivers and devices may still appear
            lower_after = max(lower_after, settings.lower_after_boot)
        heartbeat_after: float | None = None
        if heartbeats:  # at most once a minute, even if the resync period is short
            heartbeat_after = max(timing.MIN_INTERVAL, settings.resync * _HEARTBEAT_SHARE)
        return replace(
            self.facts,
            device_plugins=self.access.device_plugins(),
            lower_after=lower_after,
            heartbeat_after=heartbeat_after,
            observe=settings.observe,
        )

    def fail(self, plan: Plan | None, error: NodeError) -> ReconcileResult:
        """The result of a pass that this error has ended. plan: as for result()."""
        memory = self.facts.memory.after_error(error, self.facts.uptime)
        message = str(error)
        if memory.conflict and isinstance(error, NodeConflict):
            message = memory.conflict.message  # that of the first conflicts
        retry_after = error.retry_after if isinstance(error, NodeUnreachable) else None
        files = error.files if isinstance(error, NodeUnauthorized) else ()
        failure = Failure(message, error.cause, retry_after=retry_after, credential_files=files)
        return replace(
            self.result(memory, plan, failure),
            has_response=error.node_state is not None,
            node_missing=isinstance(error, NodeMissing),
        )

    def result(self, memory: Memory, plan: Plan | None, failure: Failure | None = None) -> ReconcileResult:
        """The result, with all waits. memory: for the next pass. plan: the last plan; None: no plan was made."""
        uptime = self.facts.uptime
        waits = waits_after(plan, memory, self.facts.readings, uptime)
        # After a failure, the time of a wait may be over. The retry after the failure then does what has waited.
        waits = [wait for wait in waits if wait.until > uptime]
        return ReconcileResult(memory, uptime, waits=tuple(waits), plan=plan, failure=failure)
