"""Builds the answer of a pass to the resident process, with the line for `systemctl status`."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.model.errors import CredentialsMissing, NodeError, NodeMissing, NodeUnreachable
from capacityd.model.messages import PassResult
from capacityd.model.reading import Reading, reading_text
from capacityd.model.reasons import RetryCause
from capacityd.node.identity import CredentialsCache
from capacityd.reconcile.reconcile import PassEnd
from capacityd.worker.pass_state import PassStatus

_MIN_REQUEUE = 0.1
"""Minimum pause between two passes, in seconds."""


def answer_of(
    end: PassEnd, status: PassStatus, last: PassStatus, *, memory: str, cache: CredentialsCache
) -> PassResult:
    """The answer to the resident process. status, last: the status of this pass and of the last pass.

    memory: the text for the next worker. cache: what this pass has learned about the credentials.
    """
    error = end.error
    return PassResult(
        status.error,
        cause=error.cause if error else RetryCause.OTHER,
        retry_after=error.retry_after if isinstance(error, NodeUnreachable) else 0.0,
        memory=memory,
        requeue_after=_requeue_after(end),
        credential_files=cache.files,
        node_fingerprint=_fingerprint_of(end),
        changed=_texts_by_name(status.readings) != _texts_by_name(last.readings),
        watch_target=cache.watch_target.as_json() if cache.watch_target else "",
        status=_status_line(status, error),
    )


def _requeue_after(end: PassEnd) -> float | None:
    """Seconds until the first wait of the pass ends; None if the pass waits for nothing."""
    if not end.waits:
        return None
    first_end = min(wait.until for wait in end.waits)
    return max(_MIN_REQUEUE, first_end - end.inputs.uptime)


def _fingerprint_of(end: PassEnd) -> str | None:
    """The Node's fingerprint, or "" if the Node does not exist; None if the pass has not read the Node."""
    if isinstance(end.error, NodeMissing):
        return ""
    return end.outcome.node.fingerprint if end.outcome else None


def _texts_by_name(readings: Mapping[str, Reading]) -> dict[str, str]:
    """Name -> quantity of the reading, "absent" or "unknown"."""
    return {name: reading_text(reading) for name, reading in readings.items()}


def _status_line(status: PassStatus, error: NodeError | None) -> str:
    """Why the pass has failed or, after success, how many resources are published."""
    if isinstance(error, CredentialsMissing):
        return f"waiting for a kubeconfig: {error}"
    return str(error) if error else status.summary
