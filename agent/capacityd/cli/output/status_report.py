"""The report of `status`, and the problems that it shows below the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.model.errors import Cause
from capacityd.model.reasons import Activity, PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.worker.pass_state import OtherWriter


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource, a label, or a key on the Node that capacityd owns but that is not configured.

    Times, here and below, are in seconds since the epoch.
    """

    name: str
    reading: int | str | None
    """The quantity, "absent", "unknown" or "unconfigured". None: it is unknown whether the resource is configured, or
    the row is that of a label."""
    expect: int | None
    """None: the resource's configuration contains no `expect`, or nothing configures the name."""
    published: int | None
    """The quantity in the Node's annotation. None, here and in the next two fields: the Node lacks it or is unknown."""
    capacity: str | None
    """The quantity in capacity, or the label's value."""
    allocatable: str | None
    held_until: float | None
    """None: no change is held back."""
    cause: Cause | None
    """The cause of an unknown reading; otherwise None."""
    refused: bool
    """Whether capacityd leaves the key alone, because it does not own the key."""
    denied: bool
    """Whether the API server rejects the change."""
    not_configured: bool
    """Whether the key stays on the Node although nothing configures it."""
    below_expect: bool
    not_allocatable: bool
    """Whether another writer keeps the Node's allocatable below the published quantity."""
    overwritten: str | None = None
    """The allocatable that another writer has set, if not_allocatable is true. capacityd may have restored it since."""
    degraded: bool = False
    """Whether the resource is refused, denied, not configured, less than expected, not allocatable or unknown."""
    note: str = ""
    """Why the change is held back, refused or denied, or else the reason or warning of the reading; "" for none."""


@dataclass(frozen=True, slots=True)
class WaitReport:
    """What a later pass waits for."""

    reason: WaitReason
    name: str | None
    """The resource; None: the Node, its condition or its annotations wait."""
    until: float
    text: str
    """The reason for the wait, and its length."""

    @classmethod
    def of(cls, wait: Wait, *, now: float, uptime: float) -> WaitReport:
        """The report about a wait. now: in seconds since the epoch. uptime: the machine's, in seconds."""
        return cls(
            reason=wait.reason,
            name=wait.name or None,
            until=wait.until_epoch(now=now, uptime=uptime),
            text=wait.text(uptime),
        )


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """The resident process."""

    pid: int | None
    """None: not known yet."""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The complete information of `status`. The fields are those of `status --json`."""

    node: str | None
    observe: bool
    reasons: tuple[PassReason, ...]
    """The reasons for the last pass."""
    next_reconcile: float | None
    """None: unknown."""
    error: str
    """The errors of the last check and of the last pass; "" if there are none."""
    event_source_errors: tuple[str, ...]
    """The error of each source of events that is not open."""
    configuration_errors: tuple[str, ...]
    """Each with its file and line."""
    configuration: str | None
    """The hash of the configuration."""
    previous_configuration_active: bool
    """Whether the last reload was rejected, so that the configuration before it is active."""
    resources: tuple[ResourceRow, ...]
    waits: tuple[WaitReport, ...]
    """The reasons for later passes, earliest first."""
    last_reconcile: float | None
    """None: no pass has completed."""
    last_read: float | None
    """When a pass last knew the Node, by a request or from the watch; None: not yet."""
    last_write: float | None
    """When the Node was last written; None: not yet."""
    stale_reason: str
    """Why this report may be older than the service's state; "" if it is up to date."""
    slow_activity: Activity | None
    """The service's activity, if it is slow."""
    slow_since: float | None
    """When the slow activity began; None if no activity is slow."""
    metrics_error: str
    """Why the metrics file could not be written or removed; "" if it could."""
    metrics_advice: str
    """How to fix the error."""
    service: ServiceReport | None
    """None: the service is not running."""
    pass_running: bool = False
    """Whether a check or a pass is running, or about to run: then the errors are those of an earlier one."""
    condition_not_stored: bool = False
    """Whether the Node lacks the condition, or its condition differs from the written one."""
    other_resources: Mapping[str, OtherWriter] = field(default_factory=dict)
    """Name -> writer, for the Node's extended resources that capacityd does not publish."""
    watched_since: float | None = None
    """None: the Node is not watched."""
    not_watched: str = ""
    """Why the Node is not watched; "" if it is, or if the watch has not begun yet."""
    published_nothing: bool = False
    """Whether the Node keeps nothing of this machine, as far as the machine knows."""
    changed_files: tuple[str, ...] = ()
    """The files that make the configuration differ from the one that the service uses."""
    starts_at_boot: bool | None = None
    """None: unknown, or the service was not started by systemd."""
    impersonated: str | None = None
    """The user as whom the service acts; None: the user of its credentials."""
    other_agent: Mapping[str, tuple[int, int]] | None = None
    """Name -> this machine's quantity, and that of another capacityd that writes the same Node. None: there is none."""

    @property
    def has_pass(self) -> bool:
        """Whether a pass has completed, so that the report has its results."""
        return self.last_reconcile is not None


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and advice if there is any."""

    message: str
    advice: str = ""
