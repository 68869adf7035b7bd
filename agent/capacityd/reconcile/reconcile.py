"""One reconcile pass, after discovery: whether the Node must be read at all, and the state for the next pass.

Everything but the Node comes in and goes out as values, so that a model can drive it through any history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from capacityd.linux.clock import BOOTING
from capacityd.model.config import Config
from capacityd.model.errors import (
    NodeConflict,
    NodeDenied,
    NodeError,
    NodeGuardUnexplained,
    NodeUnreachable,
    StateError,
)
from capacityd.model.messages import Failure, PassReason, RetryCause
from capacityd.model.node import MachineRecord, Node, NodeState, Plan, read_record
from capacityd.model.reading import Reading
from capacityd.reconcile.apply import TRIES, Denied, Outcome, Retries, SaveIntention, apply, no_record
from capacityd.reconcile.gate import HeldBack, changes_held_back
from capacityd.reconcile.plan import make_plan
from capacityd.reconcile.plan_input import PlanInput
from capacityd.reconcile.rate_limit import MIN_INTERVAL, metadata_not_before, not_before
from capacityd.reconcile.state import (
    PassContext,
    ReconcileState,
    remember,
    retry_denied,
    with_readings,
    writes_of,
)

_LOCAL = frozenset({PassReason.HARDWARE, PassReason.FILE, PassReason.REQUEUE, PassReason.PLUGINS})
"""Reasons that say nothing about the Node: if the readings are what was last applied, it need not be read.

PLUGINS: the kubelet rewrites its checkpoint for each pod with devices; only the set of names in it counts.
"""

_RETRY_DENIED = frozenset({PassReason.BOOT, PassReason.CONFIG, PassReason.CREDENTIALS})
"""Reasons after which a denied change is tried again at once."""

_HEARTBEAT_SHARE = 0.5
"""Share of the resync period after which a pass that reads the Node refreshes the heartbeat of the condition."""

_SETTLE_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds between passes while a restarted kubelet may still write
# Seconds between passes while something is unknown: at first, and at most.
_UNKNOWN_BACKOFF, _UNKNOWN_BACKOFF_MAX = 60.0, 3600.0
_MIN_REQUEUE = 0.1  # seconds between two passes, at least


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a pass."""

    state: ReconcileState
    """The state for the next pass."""
    outcome: Outcome | None = None
    """None if the Node was not read."""
    requeue_after: float | None = None
    """Seconds until the next pass; None: nothing is due."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Name -> seconds for which its change is still held back."""
    failure: Failure | None = None
    """What has gone wrong. RetryCause.STATE: this machine could not save what must last, so nothing is lowered or
    removed; any other cause: the Node is not as desired."""

    @property
    def unwritable(self) -> str:
        """Why this machine could not save what must last; empty if it could."""
        return self.failure.message if self.failure and self.failure.cause is RetryCause.STATE else ""

    @property
    def node_error(self) -> str:
        """Why the Node could not be reconciled; empty if it could."""
        return self.failure.message if self.failure and not self.unwritable else ""


@dataclass(frozen=True, slots=True)
class Access:
    """How a pass reaches what is outside of it."""

    open_node: Callable[[], Node]
    device_plugins: Callable[[], Collection[str] | None]
    """Returns their names, None if unknown; called for each plan, because a conflict may come from one that
    registers."""
    save_intention: SaveIntention = no_record
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
        if not self.must_read_node():
            held_back = changes_held_back(self.readings, self.state, self.plan_input())
            if held_back is not None:
                return self.wait(held_back)
        if failure := self.lasting_conflict():
            return ReconcileResult(self.state, failure=failure)
        try:
            node = self.access.open_node()
            outcome = self.observe(node) if self.config.settings.observe else self.write(node)
        except NodeError as error:
            return self.fail(error)
        return self.report(outcome, remember(self.state, self.readings, outcome, self.context))

    def must_read_node(self) -> bool:
        """Whether the reasons for this pass concern the Node itself."""
        reasons, verify_at = self.context.reasons, self.state.verify_at
        if not _LOCAL.issuperset(reasons) or (verify_at is not None and self.context.uptime >= verify_at):
            return True
        return PassReason.PLUGINS in reasons and _sorted(self.access.device_plugins()) != self.state.plugins

    def wait(self, held_back: HeldBack) -> ReconcileResult:
        """Ends the pass without reading the Node."""
        state = replace(self.state, lower_since=held_back.lower_since)
        requeue = _requeue_after(state, self.context.uptime, [*held_back.held.values(), held_back.metadata_in])
        return ReconcileResult(state, requeue_after=requeue, held=held_back.held)

    def lasting_conflict(self) -> Failure | None:
        """Conflicts that go on, while another attempt is too early; None if it is not.

        Whatever the reason for this pass: they cost the API server two requests a minute.
        """
        wait = self.state.conflict_at + MIN_INTERVAL - self.context.uptime
        if not self.state.conflict or not 0 < wait <= MIN_INTERVAL:
            return None
        return Failure(self.state.conflict, NodeConflict.cause, wait)

    def observe(self, node: Node) -> Outcome:
        """Reads the Node, and plans without writing."""
        node_state = node.read()
        plan = self.plan(node_state, self.context.record, {})
        # Nothing is written, so the annotation stays, and what is lower stays lower since the same moment.
        unwritten = {change.name for change in plan.changes if change.action.writes}
        since = {name: at for name, at in self.state.lower_since.items() if name in unwritten} | dict(plan.lower_since)
        annotated = read_record(node_state.annotation)
        plan = replace(plan, published=annotated, lower_since=since, behind=frozenset())
        return Outcome(plan, False, node_state)

    def write(self, node: Node) -> Outcome:
        """Reads the Node, plans and writes. What can't be recorded is neither lowered nor removed."""
        record, retries = self.context.record, Retries(conflicts=1 if self.state.conflict else TRIES)
        if self.context.unsaved:
            return apply(node, self.plan, record, retries=retries)
        try:
            return apply(node, self.plan, record, self.access.save_intention, retries)
        except StateError as error:
            return apply(node, partial(self.plan, unwritable=str(error)), record, retries=retries)

    def plan(self, node_state: NodeState, record: MachineRecord | None, denied: Denied, unwritable: str = "") -> Plan:
        """The plan for this Node. record: the machine's. unwritable: why that could not be saved in this pass."""
        inputs, written = self.plan_input(), writes_of(node_state, self.state)
        inputs = replace(
            inputs,
            machine=record,
            plugins=self.access.device_plugins(),
            unwritable=unwritable or self.context.unsaved,
            denied={**inputs.denied, **denied},
            not_before=not_before(written),
            metadata_not_before=metadata_not_before(written),
        )
        return make_plan(self.readings, node_state, inputs)

    def fail(self, error: NodeError) -> ReconcileResult:
        """Ends the pass with this error."""
        if isinstance(error, NodeConflict | NodeGuardUnexplained):
            # A single attempt can't determine the cause, so the message of the first ones is kept.
            conflict = self.state.conflict or str(error)
            state = replace(self.state, conflict=conflict, conflict_at=self.context.uptime)
            return ReconcileResult(state, failure=Failure(conflict, error.cause))
        files = error.files if isinstance(error, NodeDenied) else ()
        retry_after = error.retry_after if isinstance(error, NodeUnreachable) else None
        return ReconcileResult(self.state, failure=Failure(str(error), error.cause, retry_after, files))

    def report(self, outcome: Outcome, state: ReconcileState) -> ReconcileResult:
        """Ends a pass that has read the Node. state: for the next pass."""
        uptime, unwritable = self.context.uptime, outcome.plan.health.unwritable
        held = {name: max(_MIN_REQUEUE, until - uptime) for name, until in outcome.plan.held.items()}
        denied = [denial.retry_at - uptime for denial in state.denied.values()]
        metadata_in = metadata_not_before(self.state.written) - uptime if state.delayed else None
        settle_in = _SETTLE_PAUSES[min(state.settle_passes, len(_SETTLE_PAUSES)) - 1] if state.settle_passes else None
        requeue = _requeue_after(state, uptime, [*held.values(), *denied, metadata_in, settle_in])
        failure = Failure(unwritable, RetryCause.STATE) if unwritable else None
        return ReconcileResult(state, outcome, requeue, held, failure)

    def plan_input(self) -> PlanInput:
        """What a plan depends on, as far as it is known before the Node is read."""
        config, context, state = self.config, self.context, self.state
        settings, kubelet_started_at = config.settings, context.kubelet_started_at
        return PlanInput(
            adopt=frozenset(r.name for r in config.resources if r.adopt),
            complete=config.complete,
            now=context.now,
            condition=settings.condition,
            uptime=context.uptime,
            lower_after=max(settings.lower_after, settings.lower_after_boot if context.uptime < BOOTING else 0.0),
            lower_since=state.lower_since,
            not_before=not_before(state.written),
            metadata_not_before=metadata_not_before(state.written),
            kubelet_may_zero=bool(state.settle_passes)
            or kubelet_started_at is None
            or kubelet_started_at != state.kubelet_started_at,
            machine=context.record,
            record_unreadable=bool(context.record_error),
            configuration=config.digest,
            configuration_errors=context.configuration_errors or configuration_errors(config),
            expect=config.expectations(),
            denied={name: d.reason for name, d in state.denied.items() if d.retry_at > context.uptime},
            # Without a record of what has been reported, it would be reported again and again.
            unknown_since={} if context.unwritable or settings.observe else state.unknown_since,
            behind=state.behind,
            heartbeat_after=max(MIN_INTERVAL, settings.resync * _HEARTBEAT_SHARE),
        )


def _requeue_after(state: ReconcileState, uptime: float, delays: Iterable[float | None]) -> float | None:
    """Seconds until the next pass: the least of these, of the next read of allocatable, and of the next retry."""
    verify_in = None if state.verify_at is None else state.verify_at - uptime
    due = [delay for delay in (*delays, verify_in, _unknown_retry(state)) if delay is not None]
    return max(_MIN_REQUEUE, min(due)) if due else None


def _unknown_retry(state: ReconcileState) -> float | None:
    """Seconds until something unknown is read again: no event may say that it can be read by now.

    At boot, for example, the system's interface is unknown before there is a default route.
    """
    if not state.unknown_streak:
        return None
    return min(_UNKNOWN_BACKOFF * 2.0 ** min(state.unknown_streak - 1, 10), _UNKNOWN_BACKOFF_MAX)


def _sorted(plugins: Collection[str] | None) -> tuple[str, ...] | None:
    """The names, so that they can be compared; None if they are unknown."""
    return None if plugins is None else tuple(sorted(plugins))


def configuration_errors(config: Config) -> tuple[str, ...]:
    """The errors of the effective configuration itself."""
    errors = tuple(f"{name}: {why}" for name, why in config.broken.items())
    return errors or (() if config.complete else ("a file could not be parsed",))
