"""What the resident process and its workers tell each other, on a worker's command line and standard output.

Also what the resident process leaves for `status`. The resident process imports this module, so it imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from capacityd.model.reasons import Activity, KernelEvents, PassReason, RetryCause


@dataclass(frozen=True, slots=True)
class Watch:
    """Which events concern a configuration, and what else the resident process has to know of it."""

    subsystems: tuple[str, ...] = ()
    """Those of udev."""
    kernel: tuple[KernelEvents, ...] = ()
    files: Mapping[str, PassReason] = field(default_factory=dict)
    """Path -> the reason for a pass that a change of it is."""
    allowed: float = 0.0
    """Seconds that the detectors of a pass may take together."""
    resync: float = 3600.0
    """Seconds between two passes that read the Node although no event came."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What has gone wrong in a pass."""

    message: str
    cause: RetryCause = RetryCause.OTHER
    retry_after: float | None = None
    """Seconds that the API server asked to wait."""
    files: tuple[str, ...] = ()
    """Files whose change may end it."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The worker has read the machine, so the service is ready."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check of the configuration has ended."""

    watch: Watch | None = None
    """None: what the one before asked for."""
    error: str = ""
    """Why it failed and has to be repeated; empty if it did not."""
    configuration_errors: tuple[str, ...] = ()
    """Each with its file and line."""
    previous_active: bool = False
    """Whether they are those of a reload, so that the previous configuration stays active."""


@dataclass(frozen=True, slots=True)
class PassResult:
    """A reconcile pass has ended."""

    failure: Failure | None = None
    requeue_after: float | None = None
    """Seconds until the pass that it asks for; None: it asks for none."""
    start_in: float | None = None
    """Seconds by which the pass that first reads the Node is delayed (start_jitter); None: it is not."""
    node_read: bool = True
    awaits_node: float = 0.0
    """Seconds for which the worker goes on to wait for the Node, and then makes the pass again. It may be killed."""
    status: str = ""
    """A line for `systemctl status`."""


@dataclass(frozen=True, slots=True)
class MetricsResult:
    """The file of metrics was written, or could not be."""

    path: str
    error: str = ""
    advice: str = ""
    """What to do about the error."""


Message: TypeAlias = Probed | CheckResult | PassResult | MetricsResult
"""A line of a worker's standard output."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """service.json: what the resident process knows."""

    pid: int
    next_reconcile: float
    """When the next pass is due, in seconds since the epoch."""
    overdue_at_uptime: float
    """Seconds of uptime by which the file is written again, unless the process is stuck."""
    error: str = ""
    """The errors of the last check and of the last pass."""
    event_source_errors: tuple[str, ...] = ()
    configuration_errors: tuple[str, ...] = ()
    """Of the last check, as in CheckResult; so is previous_active."""
    previous_active: bool = False
    metrics_error: str = ""
    metrics_advice: str = ""
    """Of the last pass, as in MetricsResult."""
    pass_running: bool = False
    """Whether a worker runs that does not only wait for the Node, or is about to."""
    slow_activity: Activity | None = None
    """What a worker is doing that has taken long (worker_process.SLOW); None: there is none."""
    slow_since: float = 0.0
    """When that worker began, in seconds since the epoch."""
