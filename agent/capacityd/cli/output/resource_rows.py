"""The rows about resources and labels in the report of `status`. Pure."""

from __future__ import annotations

from capacityd.cli.output.status_report import ResourceRow, WaitReport
from capacityd.model.key import Key
from capacityd.model.plan import Change, Trouble
from capacityd.model.reading import Quantity, Unknown, outcome_of
from capacityd.worker.pass_state import PassStatus


def resource_rows(last_pass: PassStatus, *, now: float, uptime: float) -> tuple[ResourceRow, ...]:
    """A row for each key that the last pass has read or planned.

    now: in seconds since the epoch. uptime: the machine's, in seconds.
    """
    changes = {change.key: change for change in last_pass.changes}
    troubles = {trouble.key: trouble for trouble in last_pass.troubles if trouble.key}
    held = {
        wait.key: WaitReport.of(wait, now=now, uptime=uptime) for wait in reversed(last_pass.waits) if wait.holds_change
    }  # the earliest wait of a key
    keys = sorted({*map(Key, last_pass.readings), *changes})
    return tuple(_row(key, last_pass, changes.get(key), troubles.get(key), held.get(key)) for key in keys)


def _row(
    key: Key, last_pass: PassStatus, change: Change | None, trouble: Trouble | None, held: WaitReport | None
) -> ResourceRow:
    """The row for a key. change: None: there is no plan for it yet. held: the wait that holds the change back."""
    reading = None if key.is_label else last_pass.readings.get(key.name)
    if isinstance(reading, Quantity):
        number: int | str | None = reading.value
    elif reading is not None:
        number = outcome_of(reading).value
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
        held_until=held.until if held else None,
        cause=reading.cause if isinstance(reading, Unknown) else None,
        trouble=trouble.reason if trouble else None,
        note=_note(key, last_pass, change, trouble, held),
    )


def _note(
    key: Key, last_pass: PassStatus, change: Change | None, trouble: Trouble | None, held: WaitReport | None
) -> str:
    """The reason in the last column."""
    reading = None if key.is_label else last_pass.readings.get(key.name)
    if isinstance(reading, Unknown):  # more important than a wait
        return reading.reason
    if held is not None:
        return held.text
    if trouble is not None:
        return trouble.text
    if change is not None and last_pass.observe and change.action.writes:
        desired = "removed" if change.desired is None else change.desired
        return f"would be {desired}: {change.reason}"  # in observe mode, capacityd writes nothing
    if reading is not None:
        return reading.warning if isinstance(reading, Quantity) else reading.reason
    is_kept = change is not None and change.stored.capacity is not None and not key.is_label
    return change.reason if change is not None and is_kept else ""
