"""Builds a pass's answer to the resident process: its failure, and a line for `systemctl status`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capacityd.model.messages import Failure
from capacityd.model.node import published_resources
from capacityd.model.plan import UNWRITABLE
from capacityd.model.reading import Reading, Unknown
from capacityd.model.reasons import RetryCause
from capacityd.reconcile.reconcile import ReconcileResult


def failure_of(result: ReconcileResult, save_errors: Sequence[str]) -> Failure | None:
    """The failure of a pass, including errors from saving its state; None if nothing failed."""
    failure = result.failure
    unsaved = result.unwritable or "".join(save_errors[:1])
    if not unsaved:
        return failure
    message = f"{unsaved}; until this is fixed, {UNWRITABLE}"
    if failure is None or result.unwritable:
        return Failure(message, RetryCause.STATE)
    return replace(failure, message=f"{message}; {failure.message}")


def status_line(readings: Mapping[str, Reading], result: ReconcileResult, failure: Failure | None) -> str:
    """One line for systemctl status."""
    if failure:
        no_kubeconfig = failure.cause is RetryCause.CREDENTIALS
        return f"waiting for a kubeconfig: {failure.message}" if no_kubeconfig else failure.message
    node, plan = result.memory.node, result.plan
    published = len(published_resources(node))
    numbers = {
        "unknown": sum(isinstance(r, Unknown) for r in readings.values()),
        "denied": len(plan.health.denied) if plan else 0,
        "held back": len({wait.name for wait in result.waits if wait.holds_change}),
    }
    parts = [f"{published} of {len(readings)} resources published"]
    return ", ".join(parts + [f"{number} {what}" for what, number in numbers.items() if number])
