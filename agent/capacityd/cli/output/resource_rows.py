"""The rows about resources and labels in the report of `status`. Pure."""

from __future__ import annotations

from dataclasses import replace

from capacityd.cli.output.status_report import ResourceRow
from capacityd.model.key import Key
from capacityd.model.plan import Change, Trouble
from capacityd.model.reading import Quantity, Unknown
from capacityd.worker.pass_state import PassStatus


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
    """The text in the last column."""
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
