"""The options that the commands share, and those of a worker."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.reasons import Job, PassReason


@dataclass(frozen=True, slots=True)
class Selection:
    """The options that select a machine, a configuration and a Node. None: the default."""

    config: str | None = None
    """A configuration file or folder."""
    machine: str | None = None
    """A recording of a machine."""
    node_file: str | None = None
    """A file that contains a Node."""
    kubeconfig: str | None = None
    node_name: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What the service asks of a worker."""

    job: Job
    folder: str
    """The runtime directory."""
    selection: Selection
    reasons: frozenset[PassReason] = frozenset()
    """Why the service needs the job."""
    lost: int = 0
    """How many passes have ended without a result since the last one with a result."""
