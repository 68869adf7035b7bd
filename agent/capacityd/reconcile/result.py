"""How a reconcile pass ends: its result, and when the next pass is due. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.errors import NodeConflict, NodeDenied, NodeError, NodeUnreachable
from capacityd.model.messages import Failure
from capacityd.model.reasons import RetryCause
from capacityd.reconcile.attempt import Outcome
from capacityd.reconcile.rate_limit import MIN_INTERVAL
from capacityd.reconcile.state import ReconcileState

_SETTLE_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds between passes while a restarted kubelet may still write

_UNKNOWN_PAUSE, _UNKNOWN_PAUSE_MAX = 60.0, 3600.0
"""Seconds between two reads of a resource that is unknown: at first, and at most."""

_AT_BOOT = 600.0
"""Seconds of uptime during which _UNKNOWN_PAUSE is the longest pause: drivers, routes and mounts still appear."""

_MIN_REQUEUE = 0.1  # seconds between two passes, at least


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a pass."""

    state: ReconcileState
    """The state for the next pass."""
    outcome: Outcome | None = None
    """None if the Node was not read."""
    requeue_after: float | None = None
    """Seconds until the next pass; None: nothing is due. After a failure, the retry comes as well."""
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


def lasting_conflict(state: ReconcileState, uptime: float) -> ReconcileResult | None:
    """The result while conflicts go on, and another attempt is too early; None if it is not.

    Whatever the reason for this pass: they cost the API server two requests a minute.
    """
    wait = state.conflict_at + MIN_INTERVAL - uptime
    if not state.conflict or not 0 < wait <= MIN_INTERVAL:
        return None
    failure = Failure(state.conflict, NodeConflict.cause, wait)
    return ReconcileResult(state, requeue_after=requeue_after(state, uptime, []), failure=failure)


def failed_result(error: NodeError, state: ReconcileState, uptime: float) -> ReconcileResult:
    """The result of a pass that has ended with this error. state: before it."""
    message = str(error)
    if isinstance(error, NodeConflict):
        # A single attempt can't determine the cause, so the message of the first ones is kept.
        message = state.conflict or message
        state = replace(state, conflict=message, conflict_at=uptime)
    files = error.files if isinstance(error, NodeDenied) else ()
    retry_after = error.retry_after if isinstance(error, NodeUnreachable) else None
    failure = Failure(message, error.cause, retry_after, files)
    return ReconcileResult(state, requeue_after=requeue_after(state, uptime, []), failure=failure)


def reconciled_result(outcome: Outcome, state: ReconcileState, uptime: float) -> ReconcileResult:
    """The result of a pass that has read the Node. state: for the next pass."""
    unwritable = outcome.plan.health.unwritable
    held = {name: max(_MIN_REQUEUE, until - uptime) for name, until in outcome.plan.held.items()}
    denied = [denial.retry_at - uptime for denial in state.denied.values()]
    metadata_in = None if state.metadata_held_until is None else state.metadata_held_until - uptime
    settle_in = _SETTLE_PAUSES[min(state.settle_passes, len(_SETTLE_PAUSES)) - 1] if state.settle_passes else None
    delay = requeue_after(state, uptime, [*held.values(), *denied, metadata_in, settle_in])
    failure = Failure(unwritable, RetryCause.STATE) if unwritable else None
    return ReconcileResult(state, outcome, delay, held, failure)


def requeue_after(state: ReconcileState, uptime: float, delays: Iterable[float | None]) -> float | None:
    """Seconds until the next pass: the least of these, of the next read of allocatable, and of the next read of what is
    unknown."""
    verify_in = None if state.verify_at is None else state.verify_at - uptime
    unknown = [next_read(since, uptime) - uptime for since in state.unknown_since.values()]
    due = [delay for delay in (*delays, verify_in, *unknown) if delay is not None]
    return max(_MIN_REQUEUE, min(due)) if due else None


def next_read(unknown_since: float, uptime: float) -> float:
    """The uptime at which a resource that has been unknown since that uptime is read again: no event may announce it.

    The times depend on nothing else, so neither an event of another resource nor a failed pass delays a read: 60, 120,
    240 s and so on after unknown_since, with pauses that double to an hour. Soon after boot it is read each minute.
    """
    at, pause = unknown_since + _UNKNOWN_PAUSE, _UNKNOWN_PAUSE
    while at <= uptime:
        at, pause = at + pause, min(2.0 * pause, _UNKNOWN_PAUSE_MAX)
    return min(at, uptime + _UNKNOWN_PAUSE) if uptime < _AT_BOOT else at
