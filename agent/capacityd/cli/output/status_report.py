"""The report of `status`, and the problems that it shows below the report."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.errors import Cause
from capacityd.model.key import Key
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Trouble
from capacityd.model.reasons import Activity, PassReason
from capacityd.model.waits import Wait


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource or a label that is configured or published.

    Times, here and below, are in seconds since the epoch.
    """

    name: str
    kind: str
    """Key.kind: "resource" or "label"."""
    reading: int | str | None
    """The number, "absent", "unknown" or "unconfigured"; None for a label."""
    expect: int | None
    """The value of `expect`; None if it is not configured."""
    published: int | None
    """The number in the Node's annotation. In this and the next two fields, None: the Node lacks it, or is unknown."""
    capacity: str | None
    """The number in capacity, or the label's value."""
    allocatable: str | None
    """The number in allocatable; None for a label."""
    held_until: float | None
    """Until when a change is held back; None if no change is held back."""
    cause: Cause | None
    """The cause of an unknown reading; otherwise None."""
    trouble: ConditionReason | None
    """What is wrong with the resource; None if nothing is wrong."""
    note: str = ""
    """What is wrong, why a change is held back, or the reason or warning of the reading; "" for none of these."""

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(self.name, is_label=self.kind == "label")


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The complete information of `status`. The fields are those of `status --json`."""

    node: str | None
    observe: bool
    reasons: tuple[PassReason, ...]
    """The reasons of the last pass."""
    next_reconcile: float | None
    """When the next pass starts, in seconds since the epoch; None if unknown."""
    error: str
    """The errors of the last check and of the last pass; "" if there are none."""
    event_source_errors: tuple[str, ...]
    """The error of each source of events that is not open."""
    configuration_errors: tuple[str, ...]
    """Each with its file and line."""
    configuration: str | None
    """The hash of the configuration."""
    previous_configuration_active: bool
    """Whether the last reload was rejected, so that the previous configuration is still active."""
    resources: tuple[ResourceRow, ...]
    waits: tuple[Wait, ...]
    """The reasons for later passes, earliest first."""
    last_reconcile: float | None
    """When the last pass completed; None if no pass has completed."""
    last_read: float | None
    """When a pass last read the Node; None if no pass has read it."""
    last_write: float | None
    """When the Node was last written; None if it was never written."""
    stale_reason: str
    """Why this report may be older than the service's state; "" if the report is up to date."""
    slow_activity: Activity | None
    """What the service does slowly; None if nothing is slow."""
    slow_since: float | None
    """When the slow activity began; None if no activity is slow."""
    metrics_error: str
    """Why the metrics file could not be written or removed; "" if it could."""
    metrics_advice: str
    """How to fix the error."""
    running: bool
    """Whether the service runs."""
    pid: int | None
    """The service's process; None if the service does not run, or if the process is not known yet."""
    pass_running: bool = False
    """Whether a check or a pass is running, or about to run. If so, the errors are from an earlier check or pass."""
    troubles: tuple[Trouble, ...] = ()
    """What is wrong with the Node, most urgent first."""
    watched_since: float | None = None
    """Since when the Node is watched; None if it is not watched."""
    not_watched: str = ""
    """Why the Node is not watched; "" if it is watched, or if the watch has not begun yet."""
    changed_files: tuple[str, ...] = ()
    """The changed files, if the configuration differs from the one that the service uses."""
    starts_at_boot: bool | None = None
    """Whether systemd starts the service at boot; None if unknown, or if systemd has not started the service."""

    @property
    def has_pass(self) -> bool:
        """Whether a pass has completed, so that the report has its results."""
        return self.last_reconcile is not None


@dataclass(frozen=True, slots=True)
class StatusProblem:
    """What is wrong, and advice if there is any."""

    message: str
    advice: str = ""
