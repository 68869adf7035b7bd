"""The report of `status`, and its rows about resources and labels. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from capacityd.model.errors import Cause
from capacityd.model.key import Key
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Change, Trouble
from capacityd.model.reading import Quantity, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait
from capacityd.worker.pass_state import PassStatus


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource or a label that is configured or published.

    Times, here and below, are in seconds since the epoch.
    """

    name: str
    kind: str
    """Key.kind, which is "resource" or "label"."""
    reading: int | str | None
    """The number, "absent", "unknown" or "unconfigured"; None for a label."""
    expect: int | None
    """The value of `expect`; None if it is not configured."""
    published: int | None
    """The number in the Node's annotation. Here and in the next two fields, None means that the Node has no such value,
    or that the Node is unknown."""
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
    """What is wrong, and what to do."""

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
    """The hash of the active configuration."""
    reasons: tuple[PassReason, ...]
    """The reasons of the last pass."""
    pass_running: bool
    """Whether a check or a pass is running, or about to run. If so, the problems are from an earlier check or pass."""
    last_reconcile: float | None
    """When the last pass completed; None if no pass has completed."""
    next_reconcile: float | None
    """When the next pass starts; None if unknown."""
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


def resource_rows(last_pass: PassStatus, *, now: float, uptime: float) -> tuple[ResourceRow, ...]:
    """A row for each key that the last pass has read or planned.

    now: in seconds since the epoch. uptime: the machine's, in seconds.
    """
    changes = {change.key: change for change in last_pass.changes}
    troubles = {trouble.key: trouble for trouble in last_pass.troubles if trouble.key}
    held = {wait.key: wait for wait in reversed(last_pass.waits) if wait.holds_change}  # the earliest wait of a key
    rows = []
    for key in sorted({*map(Key, last_pass.readings), *changes}):
        row = _row(key, last_pass, changes.get(key), troubles.get(key))
        if wait := held.get(key):
            row = replace(row, held_until=wait.until_epoch(now=now, uptime=uptime))
            if row.cause is None:  # why a reading is unknown is more important than a wait
                row = replace(row, note=wait.text(uptime))
        rows.append(row)
    return tuple(rows)


def _row(key: Key, last_pass: PassStatus, change: Change | None, trouble: Trouble | None) -> ResourceRow:
    """The row for a key, without its wait. change: the key's change in the plan, or None without a plan."""
    reading = None if key.is_label else last_pass.readings.get(key.name)
    if isinstance(reading, Quantity):
        number: int | str | None = reading.value
    elif reading is not None:
        number = reading.outcome
    else:
        number = None if key.is_label else "unconfigured"
    return ResourceRow(
        key.name,
        key.kind,
        reading=number,
        expect=None if key.is_label else last_pass.expect.get(key.name),
        published=change.published if change else None,
        capacity=change.stored.capacity if change else None,
        allocatable=change.stored.allocatable if change and not key.is_label else None,
        held_until=None,
        cause=reading.cause if isinstance(reading, Unknown) else None,
        trouble=trouble.reason if trouble else None,
        note=_note(key, last_pass, change, trouble),
    )


def _note(key: Key, last_pass: PassStatus, change: Change | None, trouble: Trouble | None) -> str:
    """The text of ResourceRow.note."""
    reading = None if key.is_label else last_pass.readings.get(key.name)
    if isinstance(reading, Unknown):
        return reading.reason
    if trouble is not None:
        return trouble.text
    if change is not None and last_pass.observe and change.action.writes:
        desired = "removed" if change.desired is None else change.desired
        return f"would be {desired}: {change.reason}"  # in observe mode, capacityd writes nothing
    if reading is not None:
        return reading.warning if isinstance(reading, Quantity) else reading.reason
    is_kept = change is not None and change.stored.capacity is not None and not key.is_label
    return change.reason if change is not None and is_kept else ""
