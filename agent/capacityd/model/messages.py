"""The messages between the resident process and its children, and the status of the resident process.

Each message is a line of JSON. A worker reads a JobRequest from standard input, and answers on standard output. Each
line of the answer begins with the name of a class:

- For the job CHECK: a CheckResult. Afterwards, the same worker may get the job RECONCILE.
- For the job RECONCILE: Probed after the worker has read the machine, a PassResult, and a MetricsResult if a metrics
  file was written or removed. Then the worker ends.

The resident process ignores other lines. If a worker ends without a result, its pass is lost. A worker may start before
it has a job. Until the worker gets a job, it may end at any time.

PassResult.memory is the text that a pass leaves for the next pass. The resident process does not parse the text, and
gives it to the next worker for any job. The text is empty after a start of the service, and after a lost pass.

The watcher reads one line from standard input: PassResult.watch_target of the last pass. The watcher sends a NodeSeen
after the first event of each connection, and after each change of the Node's fingerprint. It sends a NotWatched after
each failed attempt to connect. An empty line is a sign of life. If the watcher writes no line for a while, the resident
process replaces the watcher.

The resident process imports this module, so the module imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from capacityd.model.reasons import Activity, Job, KernelEvents, PassReason, RetryCause


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The job that the resident process gives a worker."""

    job: Job
    reasons: frozenset[PassReason] = frozenset()
    """Why the job is due."""
    memory: str = ""
    """PassResult.memory of the last pass; "" after a start of the service, or after a pass without a result."""
    node_unchanged: bool = False
    """Whether the Node is watched, and has not changed since the last pass."""


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """The part of the configuration that the resident process needs."""

    subsystems: tuple[str, ...] = ()
    """The udev subsystems whose events start a reconcile pass."""
    kernel: tuple[KernelEvents, ...] = ()
    """The other kernel events that start a reconcile pass."""
    files: Mapping[str, PassReason] = field(default_factory=dict)
    """Path -> the reason for the reconcile pass that a change of the file starts."""
    detectors_timeout: float = 0.0
    """Seconds that all detectors of a reconcile pass may take together."""
    resync: float = 3600.0
    """Seconds after which a reconcile pass starts without an event. The pass refreshes the condition's heartbeat."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The worker has read the machine, so the service is ready."""


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """The files of the configuration at the time of a check."""

    path: str | None
    """The absolute path of the file or folder that the command line selects; None for the usual places."""
    stamps: Mapping[str, str] | None
    """Path of each file -> its modification time and size, as text; None if a folder could not be read."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check of the configuration has ended."""

    config: ServiceConfig | None = None
    """The configuration that is now active; None if the last one stays active, because the check could not run."""
    error: str = ""
    """Why the check failed and must be retried; "" if it did not fail."""
    configuration_errors: tuple[str, ...] = ()
    """The errors in the configuration, each with its file and line."""
    previous_active: bool = False
    """Whether the previous configuration stays active, because a reload has found errors."""
    files: ConfigFiles | None = None
    """The checked files; None if the check could not run."""


@dataclass(frozen=True, slots=True)
class PassResult:
    """A reconcile pass has ended."""

    error: str = ""
    """Why the pass has failed; "" if it has not."""
    cause: RetryCause = RetryCause.OTHER
    """The cause of the error."""
    retry_after: float = 0.0
    """The API server's Retry-After in seconds, if the pass has failed."""
    memory: str = ""
    """What this pass leaves for the next pass, as a text that only workers parse."""
    requeue_after: float | None = None
    """Seconds until the next pass that this pass needs; None if this pass waits for nothing."""
    start_in: float | None = None
    """Seconds until the first pass that reads the Node (start_jitter); None if there is no delay."""
    credential_files: tuple[str, ...] = ()
    """The files with the pass's credentials. If empty, the service continues to watch the files of the last pass."""
    node_fingerprint: str | None = None
    """The Node's fingerprint after the pass; "" if there is no Node, None if the pass has not read the Node."""
    changed: bool = True
    """Whether a reading differs from that of the last pass. True if the worker has ended without a result."""
    watch_target: str = field(default="", repr=False)
    """The Node to watch, with the credentials that the pass has used: a ClusterAccess as JSON. If empty, the watcher
    continues to watch the last target."""
    status: str = ""
    """A line for `systemctl status`."""


@dataclass(frozen=True, slots=True)
class MetricsResult:
    """The result of writing the metrics file, and of removing files at earlier paths."""

    path: str
    """The metrics file; "" if none is configured."""
    error: str = ""
    """Why a file could not be written or removed; "" if there was no error."""
    advice: str = ""
    """How to fix the error."""


NO_METRICS = MetricsResult("")
"""The result if no metrics file is configured, and no file had to be removed."""


Message: TypeAlias = Probed | CheckResult | PassResult | MetricsResult
"""A line of a worker's standard output."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The watcher has seen the Node, or a change of the Node."""

    fingerprint: str
    """A hash of the parts of the Node that a plan depends on; "" if the Node does not exist."""


@dataclass(frozen=True, slots=True)
class NotWatched:
    """The Node is not watched now. The watcher tries again."""

    reason: str
    """Why the Node is not watched, and how to fix it."""
    look_now: bool = False
    """Whether a pass must read the Node now, because a change may have been missed, or the credentials have expired."""


WatcherMessage: TypeAlias = NodeSeen | NotWatched
"""A line of the watcher's standard output."""

EARLY = "early"
"""The argument of a worker process that starts before its pass is due. It then imports the modules for the pass."""

SERVICE_STATUS = "service.json"
"""The file in the runtime directory with the status of the resident process."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The content of service.json: the status of the resident process."""

    pid: int
    next_pass: float
    """When the next pass is due, in seconds since the epoch."""
    overdue_at_uptime: float
    """The uptime in seconds by which the process must have written the file again. Otherwise, the process is stuck."""
    error: str = ""
    """The errors of the last check and of the last pass."""
    event_source_errors: tuple[str, ...] = ()
    configuration_errors: tuple[str, ...] = ()
    """From the last CheckResult, like previous_active and configuration_files."""
    previous_active: bool = False
    configuration_files: ConfigFiles | None = None
    metrics_error: str = ""
    """From the last MetricsResult, like metrics_advice."""
    metrics_advice: str = ""
    pass_running: bool = False
    """Whether a worker for any job is running or about to run."""
    watched_since: float | None = None
    """Since when the Node has been watched, in seconds since the epoch; None if the Node is not watched."""
    not_watched: str = ""
    """Why the Node is not watched; "" if the Node is watched, or if the watch has not begun yet."""
    activity: Activity | None = None
    """What a worker does now; None if no worker has a job."""
    busy_since: float = 0.0
    """When the worker got its job, in seconds since the epoch."""


NO_STATUS = ServiceStatus(pid=0, next_pass=0.0, overdue_at_uptime=0.0)
"""The status of a service that has not written a status yet."""
