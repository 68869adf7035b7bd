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
from capacityd.model.messages import RetryCause
from capacityd.model.node import MachineRecord, Node, NodeState, Plan, read_record
from capacityd.model.reading import Reading, Unknown
from capacityd.reconcile.apply import TRIES, Decide, Denied, Outcome, Retries, SaveIntention, apply, no_record
from capacityd.reconcile.gate import hold, must_ask
from capacityd.reconcile.plan import make_plan
from capacityd.reconcile.plan_input import METADATA_ONLY, PlanInput
from capacityd.reconcile.rate_limit import MIN_INTERVAL, not_before
from capacityd.reconcile.state import PassContext, ReconcileState, remember, still_lower, writes_of

RETRY_DENIED = frozenset({"boot", "config", "credentials"})
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

    memory: ReconcileState
    """The state for the next pass."""
    outcome: Outcome | None = None
    """None if the Node was not read."""
    requeue_after: float | None = None
    """Seconds until the next pass; None: nothing is due."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Name -> seconds for which its change is still held back."""
    error: str = ""
    """The error, for the operator."""
    failed: bool = False
    """Whether the Node is not as desired because of it."""
    retry_after: float | None = None
    """Seconds that the API server asked to wait."""
    unwritable: str = ""
    """Why this machine could not save what must last."""
    cause: RetryCause = RetryCause.OTHER
    files: tuple[str, ...] = ()
    """Files whose change may end the error."""


def reconcile(
    config: Config,
    readings: Mapping[str, Reading],
    reasons: Collection[str],
    memory: ReconcileState,
    here: PassContext,
    open_node: Callable[[], Node],
    plugins: Callable[[], Collection[str] | None],
    save_intention: SaveIntention = no_record,
) -> ReconcileResult:
    """Reconciles the Node with the readings, unless it matches, or has to wait. Raises no NodeError; the result has it.

    plugins: returns the names of device plugins, None if unknown; called for each plan, because a conflict may come
    from one that registers.
    save_intention: as for apply(). If it raises StateError, what needs no record is still written.
    """
    any_unknown = any(isinstance(r, Unknown) for r in readings.values())
    memory = replace(
        memory,
        lower_since=still_lower(readings, memory),
        unknown_since={
            name: memory.unknown_since.get(name, here.uptime)
            for name, reading in readings.items()
            if isinstance(reading, Unknown)
        },
        unknown_streak=memory.unknown_streak + 1 if any_unknown else 0,
    )
    inputs = _plan_input(config, memory, here)
    if not RETRY_DENIED.isdisjoint(reasons):
        inputs = replace(inputs, denied={})
    same_plugins = "plugins" not in reasons or _named(plugins()) == memory.plugins
    holding = None if must_ask(reasons, memory, here, same_plugins) else hold(readings, memory, inputs)
    if holding is not None:
        memory = replace(memory, lower_since=holding.lower_since)
        requeue = _requeue_after(memory, here, [*holding.held.values(), holding.metadata_in])
        return ReconcileResult(memory, requeue_after=requeue, held=holding.held)

    wait = memory.conflict_at + MIN_INTERVAL - here.uptime
    if memory.conflict and 0 < wait <= MIN_INTERVAL:
        # Whatever the reason for this pass: conflicts that go on cost the API server two requests a minute.
        return ReconcileResult(memory, error=memory.conflict, failed=True, retry_after=wait, cause=NodeConflict.cause)

    known: list[Collection[str] | None] = []

    unwritable = "; ".join(filter(None, (here.record_error, here.unwritable)))

    def decide(state: NodeState, record: MachineRecord | None, denied: Denied, unwritable: str = unwritable) -> Plan:
        known[:] = [plugins()]
        denied = {**inputs.denied, **denied}
        now = replace(inputs, machine=record, plugins=known[0], unwritable=unwritable, denied=denied)
        return make_plan(readings, state, replace(now, not_before=not_before(writes_of(state, memory))))

    retries = Retries(conflicts=1 if memory.conflict else TRIES)
    try:
        node = open_node()
        if config.settings.observe:
            outcome = _observe(node, decide, here.record, inputs.lower_since)
        elif unwritable:
            outcome = apply(node, decide, here.record, retries=retries)
        else:
            try:
                outcome = apply(node, decide, here.record, save_intention, retries)
            except StateError as e:
                unwritable = str(e)
                outcome = apply(node, partial(decide, unwritable=unwritable), here.record, retries=retries)
    except NodeError as e:
        return _failed(memory, e, here.uptime)
    after = replace(remember(memory, readings, outcome, here), plugins=_named(known[0]))
    held = {name: max(_MIN_REQUEUE, until - here.uptime) for name, until in outcome.plan.held.items()}
    metadata_in = inputs.not_before[METADATA_ONLY] - here.uptime if after.delayed else None
    settle_in = _SETTLE_PAUSES[min(after.settle_passes, len(_SETTLE_PAUSES)) - 1] if after.settle_passes else None
    denied = [denial.retry_at - here.uptime for denial in after.denied.values()]
    requeue = _requeue_after(after, here, [*held.values(), *denied, metadata_in, settle_in])
    if unwritable:
        return ReconcileResult(
            after, outcome, requeue, held, failed=True, unwritable=unwritable, cause=RetryCause.STATE
        )
    return ReconcileResult(after, outcome, requeue, held)


def _failed(memory: ReconcileState, e: NodeError, uptime: float) -> ReconcileResult:
    """The result of a pass that ended with this error."""
    if isinstance(e, NodeConflict | NodeGuardUnexplained):
        # A single attempt can't determine the cause, so the message of the first ones is kept.
        memory = replace(memory, conflict=memory.conflict or str(e), conflict_at=uptime)
        return ReconcileResult(memory, error=memory.conflict, failed=True, cause=e.cause)
    files = e.files if isinstance(e, NodeDenied) else ()
    retry_after = e.retry_after if isinstance(e, NodeUnreachable) else None
    return ReconcileResult(memory, error=str(e), failed=True, retry_after=retry_after, cause=e.cause, files=files)


def _requeue_after(memory: ReconcileState, here: PassContext, delays: Iterable[float | None]) -> float | None:
    """Seconds until the next pass: the least of these, of the next read of allocatable, and of the next retry."""
    verify_in = None if memory.verify_at is None else memory.verify_at - here.uptime
    due = [delay for delay in (*delays, verify_in, _unknown_retry(memory)) if delay is not None]
    return max(_MIN_REQUEUE, min(due)) if due else None


def _named(plugins: Collection[str] | None) -> tuple[str, ...] | None:
    """The names sorted, so that they can be compared; None if they are unknown."""
    return None if plugins is None else tuple(sorted(plugins))


def _unknown_retry(memory: ReconcileState) -> float | None:
    """Seconds until something unknown is read again: no event may say that it can be read by now.

    At boot, for example, the system's interface is unknown before there is a default route.
    """
    if not memory.unknown_streak:
        return None
    return min(_UNKNOWN_BACKOFF * 2.0 ** min(memory.unknown_streak - 1, 10), _UNKNOWN_BACKOFF_MAX)


def _plan_input(config: Config, memory: ReconcileState, here: PassContext) -> PlanInput:
    settings, kubelet = config.settings, here.kubelet_started_at
    booting = here.uptime < BOOTING
    return PlanInput(
        adopt=frozenset(r.name for r in config.resources if r.adopt),
        complete=config.complete,
        now=here.now,
        condition=settings.condition,
        uptime=here.uptime,
        lower_after=max(settings.lower_after, settings.lower_after_boot) if booting else settings.lower_after,
        lower_since=memory.lower_since,
        not_before=not_before(memory.written),
        kubelet_may_zero=bool(memory.settle_passes) or kubelet is None or kubelet != memory.kubelet,
        machine=here.record,
        record_unreadable=bool(here.record_error),
        configuration=config.digest,
        configuration_errors=here.configuration_errors or configuration_errors(config),
        expect=expectations(config),
        denied={name: d.reason for name, d in memory.denied.items() if d.retry_at > here.uptime},
        # Without a record of what has been reported, it would be reported again and again.
        unknown_since={} if here.unwritable or settings.observe else memory.unknown_since,
        behind=memory.behind,
        heartbeat_after=max(MIN_INTERVAL, settings.resync * _HEARTBEAT_SHARE),
    )


def expectations(config: Config) -> dict[str, int]:
    """Name -> expected quantity, of the resources that have one."""
    return {r.name: r.expect for r in config.resources if r.expect is not None}


def configuration_errors(config: Config) -> tuple[str, ...]:
    """The errors of the effective configuration itself."""
    errors = tuple(f"{name}: {why}" for name, why in config.broken.items())
    return errors or (() if config.complete else ("a file could not be parsed",))


def _observe(node: Node, decide: Decide, record: MachineRecord | None, lower_since: Mapping[str, float]) -> Outcome:
    state = node.read()
    plan = decide(state, record, {})
    # Nothing is written, so the annotation stays, and what is lower stays lower since the same moment.
    reverted = {c.name for c in plan.changes if c.action.writes}
    since = {name: at for name, at in lower_since.items() if name in reverted} | dict(plan.lower_since)
    published = read_record(state.annotation)
    return Outcome(replace(plan, published=published, lower_since=since, behind=frozenset()), False, state)
