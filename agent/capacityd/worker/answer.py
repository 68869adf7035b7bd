"""Builds the answer of a pass to the resident process: the failure, and a line for `systemctl status`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capacityd.model.messages import Failure, PassResult
from capacityd.model.node import published_resources
from capacityd.model.plan import UNSAVED
from capacityd.model.reading import Reading, Unknown, reading_text
from capacityd.model.reasons import RetryCause
from capacityd.reconcile.result import ReconcileResult


def answer_of(  # noqa: PLR0913  # what the answer says comes from several places
    result: ReconcileResult,
    readings: Mapping[str, Reading],
    failure: Failure | None,
    *,
    memory: str,
    credential_files: tuple[str, ...],
    last_readings: Mapping[str, Reading],
) -> PassResult:
    """The answer to the resident process. failure: as from failure_of(). last_readings: those of the last pass.

    memory: the text for the next pass.
    credential_files: the files with the credentials that the pass has used.
    """
    outcome = result.outcome  # None if the pass failed
    return PassResult(
        failure,
        memory=memory,
        requeue_after=result.requeue_after,
        credential_files=credential_files,
        node=_fingerprint(result),
        changed=_texts_by_name(readings) != _texts_by_name(last_readings),
        written=outcome is not None and outcome.applied,
        status=status_line(readings, result, failure),
    )


def _fingerprint(result: ReconcileResult) -> str | None:
    """As PassResult.node."""
    if result.node_missing:
        return ""
    node = result.memory.node
    return node.fingerprint if node and (result.outcome or result.has_response) else None


def _texts_by_name(readings: Mapping[str, Reading]) -> dict[str, str]:
    """Name -> what a reading publishes, as text."""
    return {name: reading_text(reading) for name, reading in readings.items()}


def failure_of(result: ReconcileResult, save_errors: Sequence[str]) -> Failure | None:
    """The failure of a pass, including errors from saving its state; None if nothing failed."""
    if result.unsaved:  # the failure of the pass itself is that nothing can be saved
        return Failure(_unsaved(result.unsaved), RetryCause.STATE)
    if not save_errors:
        return result.failure
    unsaved = _unsaved(save_errors[0])
    if result.failure is None:
        return Failure(unsaved, RetryCause.STATE)
    return replace(result.failure, message=f"{unsaved}; {result.failure.message}")


def _unsaved(why: str) -> str:
    """The message for a pass whose state can't be saved. UNSAVED says what such a pass leaves undone."""
    return f"{why}; until this is fixed, {UNSAVED}"


def status_line(readings: Mapping[str, Reading], result: ReconcileResult, failure: Failure | None) -> str:
    """One line for systemctl status."""
    if failure:
        if failure.cause is RetryCause.CREDENTIALS:
            return f"waiting for a kubeconfig: {failure.message}"
        return failure.message
    published = len(published_resources(result.memory.node))
    problems = {
        "unknown": sum(isinstance(reading, Unknown) for reading in readings.values()),
        "denied": len(result.plan.health.denied) if result.plan else 0,
        "held back": len({wait.name for wait in result.waits if wait.holds_change}),
    }
    texts = [f"{number} {problem}" for problem, number in problems.items() if number]
    return ", ".join([f"{published} of {len(readings)} resources published", *texts])
