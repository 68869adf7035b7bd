"""The result of a reconcile pass, for the next pass, the service and the journal. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.messages import Failure
from capacityd.model.plan import Outcome, Plan
from capacityd.model.reasons import RetryCause
from capacityd.model.waits import Wait
from capacityd.reconcile.memory import Memory

_MIN_REQUEUE = 0.1
"""Minimum pause between two passes, in seconds."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a pass."""

    memory: Memory
    """The memory for the next pass."""
    uptime: float
    """Seconds of uptime at this pass."""
    waits: tuple[Wait, ...] = ()
    """Reasons for later passes. The earliest one decides when the next pass runs."""
    plan: Plan | None = None
    """The last plan; None if the Node is not known."""
    outcome: Outcome | None = None
    """The result of the plan; None if the pass failed."""
    failure: Failure | None = None
    """What went wrong. RetryCause.STATE: this machine could not save its state, so the pass lowered and removed
    nothing, and may have held back new resources. Any other cause: the error that ended the pass, so the Node is not as
    desired."""
    has_response: bool = False
    """Whether memory.node comes from a response to this pass. Otherwise, it was known before the pass."""
    node_missing: bool = False
    """Whether the Node does not exist."""

    @classmethod
    def not_run(cls, memory: Memory, uptime: float, wait: Wait) -> ReconcileResult:
        """The result of a pass that only waits: it reconciles nothing."""
        return cls(memory, uptime, waits=(wait,))

    @property
    def unsaved(self) -> str:
        """Why this machine could not save its state; empty if it could."""
        return self.failure.message if self.failure and self.failure.cause is RetryCause.STATE else ""

    @property
    def node_error(self) -> str:
        """Why the pass could not reconcile the Node; empty if it could."""
        return self.failure.message if self.failure and not self.unsaved else ""

    @property
    def requeue_after(self) -> float | None:
        """Seconds until the next pass; None if none is due. The retry after a failure is scheduled in addition."""
        first = min((wait.until for wait in self.waits), default=None)
        return None if first is None else max(_MIN_REQUEUE, first - self.uptime)

    def wait_text(self, name: str) -> str:
        """Why and for how long this resource waits, after a semicolon; "" if it does not wait."""
        waits = [wait for wait in self.waits if wait.name == name]
        if not waits:
            return ""
        first = min(waits, key=lambda wait: wait.until)
        return f"; {first.text(self.uptime)}"
