"""The report of `status`."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.errors import Cause
from capacityd.model.key import Key
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Trouble
from capacityd.model.reasons import PassReason
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
class StatusProblem:
    """What is wrong, and advice if there is any."""

    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The complete information of `status`. The fields are those of `status --json`."""

    running: bool
    """Whether the service runs."""
    pid: int | None
    """The service's process; None if the service does not run, or if the process is not known yet."""
    starts_at_boot: bool | None
    """Whether systemd starts the service at boot; None if unknown, or if systemd has not started the service."""
    problems: tuple[StatusProblem, ...]
    """What is wrong, most urgent first."""
    node: str | None
    observe: bool
    configuration: str | None
    """The hash of the configuration."""
    reasons: tuple[PassReason, ...]
    """The reasons of the last pass."""
    pass_running: bool
    """Whether a check or a pass is running, or about to run. If so, the problems are from an earlier check or pass."""
    last_reconcile: float | None
    """When the last pass completed; None if no pass has completed."""
    next_reconcile: float | None
    """When the next pass starts, in seconds since the epoch; None if unknown."""
    last_read: float | None
    """When a pass last read the Node; None if no pass has read it."""
    last_write: float | None
    """When the Node was last written; None if it was never written."""
    watched_since: float | None
    """Since when the Node is watched; None if it is not watched."""
    resources: tuple[ResourceRow, ...]
    troubles: tuple[Trouble, ...]
    """What is wrong with the Node, most urgent first."""
    waits: tuple[Wait, ...]
    """The reasons for later passes, earliest first."""

    @property
    def has_pass(self) -> bool:
        """Whether a pass has completed, so that the report has its results."""
        return self.last_reconcile is not None
