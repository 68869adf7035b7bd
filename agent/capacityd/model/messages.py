"""The messages between the resident process and its children, each a line of JSON. Also its status, for `status`.

A worker reads its job from standard input: one line, a JobRequest. It answers on standard output, with lines that begin
with the name of their class. For the job CHECK: a CheckResult. For the job RECONCILE: Probed once the machine has been
read, NodeToWatch if it has read the credentials, a PassResult, and a MetricsResult if a metrics file was written or
removed; then it ends. Other lines are ignored. A worker that ends without a result has lost its pass. After a CHECK,
the same worker may get the pass. A worker may be started before it has a job, and may end at any time until it has one.

What a pass leaves for the next one is PassResult.memory. The resident process does not parse this text. It hands the
last one to the next worker, whatever the job. The text is empty after a start of the service and after a lost pass.

The watcher reads what to watch from standard input: the text of the last NodeToWatch, as one line. It answers with a
NodeSeen after each connection's first event and after each change of the Node's fingerprint, and with a NotWatched
while there is no connection.

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
    """PassResult.memory of the last pass; "" if there is none."""
    node_unchanged: bool = False
    """Whether the Node is watched, and is as the last pass has left it."""


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """What the resident process needs of the configuration: the events that concern it, and some of its values."""

    subsystems: tuple[str, ...] = ()
    """udev subsystems."""
    kernel: tuple[KernelEvents, ...] = ()
    """The kernel events that come neither from udev nor from files."""
    files: Mapping[str, PassReason] = field(default_factory=dict)
    """Path -> the reason for a pass when the file changes."""
    detectors_timeout: float = 0.0
    """Seconds that the detectors of a pass may take in total."""
    resync: float = 3600.0
    """Seconds between two passes without an event. They refresh the condition's heartbeat."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The worker has read the machine, so the service is ready."""


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """The files of the configuration, as a check has read them."""

    path: str | None
    """The file or folder that the command line selects, absolute; None: it selects none, so the usual places count."""
    stamps: Mapping[str, str] | None
    """Path of each file -> its date and size, as text; None if a folder could not be read."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check of the configuration has ended."""

    config: ServiceConfig | None = None
    """None: the configuration of the previous check stays active."""
    error: str = ""
    """Why the check failed and must be retried; empty if it did not fail."""
    configuration_errors: tuple[str, ...] = ()
    """Each with its file and line."""
    previous_active: bool = False
    """Whether the configuration errors come from a reload, so that the previous configuration stays active."""
    files: ConfigFiles | None = None
    """None: the check has failed."""


@dataclass(frozen=True, slots=True)
class PassResult:
    """A reconcile pass has ended."""

    error: str = ""
    """Why the pass has failed; "" if it has not. The next two fields are about this error."""
    cause: RetryCause = RetryCause.OTHER
    retry_after: float = 0.0
    """The API server's Retry-After in seconds."""
    memory: str = ""
    """What this pass leaves for the next one (worker/pass_memory.py)."""
    requeue_after: float | None = None
    """Seconds until the pass that this one requests; None: it requests none."""
    start_in: float | None = None
    """This pass has only read the machine. Seconds until the first pass that needs the Node (start_jitter). None: this
    pass was an ordinary one."""
    credential_files: tuple[str, ...] = ()
    """The files with the credentials that the pass has used or, after an error, those of which a change may end the
    error."""
    node: str | None = None
    """The Node as the pass has left it, as NodeSeen.fingerprint; None: the pass has not read it."""
    changed: bool = True
    """Whether a reading differs from that of the pass before."""
    written: bool = False
    """Whether the pass wrote the Node."""
    status: str = ""
    """A line for `systemctl status`."""


@dataclass(frozen=True, slots=True)
class MetricsResult:
    """What became of the metrics file, and of files at earlier paths, which are removed."""

    path: str
    error: str = ""
    """Why a file could not be written or removed; "" if nothing is wrong."""
    advice: str = ""
    """How to fix the error."""


NO_METRICS = MetricsResult("")
"""No metrics file is configured, and none had to be removed."""


@dataclass(frozen=True, slots=True)
class NodeToWatch:
    """The Node that the pass has used, and the credentials for it. The watcher watches the Node with them."""

    target: str = field(repr=False)
    """A WatchTarget (model/watch_target.py) as JSON. The resident process passes it on, and does not parse it."""


Message: TypeAlias = Probed | CheckResult | NodeToWatch | PassResult | MetricsResult
"""A line of a worker's standard output."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The watcher has seen the Node, or a change of it."""

    fingerprint: str
    """As model/fingerprint.py defines it; "" if the Node does not exist."""


@dataclass(frozen=True, slots=True)
class NotWatched:
    """The Node is not watched now. The watcher tries again."""

    reason: str
    """What is missing, and how to get it."""
    look_now: bool = False
    """Whether a pass should look at the Node at once: a change may have been missed, or the credentials have ended."""


WatcherMessage: TypeAlias = NodeSeen | NotWatched
"""A line of the watcher's standard output."""

EARLY = "early"
"""An argument for a worker that is started before its pass is due, so that it imports everything meanwhile."""

SERVICE_STATUS = "service.json"
"""The file in the runtime directory with the status of the resident process."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """service.json: the resident process's state."""

    pid: int
    next_reconcile: float
    """When the next pass is due, in seconds since the epoch."""
    overdue_at_uptime: float
    """The uptime in seconds by which the file is written again, unless the process is stuck."""
    error: str = ""
    """The errors of the last check and of the last pass."""
    event_source_errors: tuple[str, ...] = ()
    configuration_errors: tuple[str, ...] = ()
    """As in CheckResult, from the last check; so are previous_active and configuration_files."""
    previous_active: bool = False
    configuration_files: ConfigFiles | None = None
    metrics_error: str = ""
    metrics_advice: str = ""
    """As in MetricsResult.advice, from the last pass."""
    pass_running: bool = False
    """Whether a worker for any job is running or about to run."""
    watched_since: float | None = None
    """Since when the Node has been watched, in seconds since the epoch; None: it is not watched."""
    not_watched: str = ""
    """Why the Node is not watched; empty if it is, or if the watch has not begun yet."""
    slow_activity: Activity | None = None
    """The activity of a worker that has run longer than worker_process.SLOW; None if there is none."""
    slow_since: float = 0.0
    """When that worker started, in seconds since the epoch."""


NO_STATUS = ServiceStatus(pid=0, next_reconcile=0.0, overdue_at_uptime=0.0)
"""In place of a status if there is none."""
