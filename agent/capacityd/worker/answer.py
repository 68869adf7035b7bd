"""Builds the answer of a pass to the resident process, with the line for `systemctl status`."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.model.errors import CredentialsMissing, NodeError, NodeMissing, NodeUnauthorized, NodeUnreachable
from capacityd.model.messages import PassResult
from capacityd.model.reading import Reading, reading_text
from capacityd.model.reasons import RetryCause
from capacityd.reconcile.reconcile import PassEnd
from capacityd.worker.pass_state import PassStatus

_MIN_REQUEUE = 0.1
"""Minimum pause between two passes, in seconds."""


def answer_of(
    end: PassEnd, status: PassStatus, last: PassStatus, *, memory: str, credential_files: tuple[str, ...]
) -> PassResult:
    """The answer to the resident process. status, last: the status of this pass and of the last pass.

    memory: the text for the next worker. credential_files: the files with the credentials that the pass has used,
    or could not use.
    """
    error = end.error
    if error is not None and not isinstance(error, NodeUnauthorized):
        credential_files = ()  # a change of the files would not end the error
    first = min((wait.until for wait in end.waits), default=None)
    return PassResult(
        status.error,
        cause=error.cause if error else RetryCause.OTHER,
        retry_after=error.retry_after if isinstance(error, NodeUnreachable) else 0.0,
        memory=memory,
        requeue_after=None if first is None else max(_MIN_REQUEUE, first - end.inputs.uptime),
        credential_files=credential_files,
        node=_fingerprint_of(end),
        changed=_texts_by_name(status.readings) != _texts_by_name(last.readings),
        written=end.outcome is not None and end.outcome.is_written,
        status=status_line(status, error),
    )


def _fingerprint_of(end: PassEnd) -> str | None:
    """The Node's fingerprint, or "" if the Node does not exist; None if the pass has not read the Node."""
    if isinstance(end.error, NodeMissing):
        return ""
    return end.outcome.node.fingerprint if end.outcome else None


def _texts_by_name(readings: Mapping[str, Reading]) -> dict[str, str]:
    """Name -> quantity of the reading, "absent" or "unknown"."""
    return {name: reading_text(reading) for name, reading in readings.items()}


def status_line(status: PassStatus, error: NodeError | None) -> str:
    """The line for `systemctl status`."""
    if error is None:
        return status.summary
    return f"waiting for a kubeconfig: {error}" if isinstance(error, CredentialsMissing) else str(error)
