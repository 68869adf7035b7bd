"""Journal entries of reconcile passes and commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from capacityd.linux import systemd
from capacityd.linux.systemd import EntryKind, Priority
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Trouble
from capacityd.model.reading import Unknown, reading_text
from capacityd.reconcile.reconcile import Outcome, PassEnd
from capacityd.worker.pass_state import PassStatus


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One journal entry."""

    kind: EntryKind | None
    """The kind, which gives the entry its MESSAGE_ID; None for an entry without a MESSAGE_ID."""
    priority: Priority
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)  # journald requires names in capital letters


def pass_entries(end: PassEnd, status: PassStatus, last: PassStatus) -> Iterator[JournalEntry]:
    """The entries about what a pass has changed and found. Findings of the last pass are not logged again.

    status, last: the status of this pass and of the last pass.
    """
    outcome = end.outcome
    if outcome is not None:
        yield from _written_changes(outcome)
        yield from _new_troubles(status, last)
        for warning in outcome.warnings:
            yield JournalEntry(None, Priority.WARNING, warning, {"NODE": status.node})
        is_first_read = last.read_at is None
        has_changed = outcome.is_written and outcome.plan.written_changes
        if is_first_read and not has_changed:
            message = f"Node {status.node}: {status.summary}"
            yield JournalEntry(None, Priority.NOTICE, message, {"NODE": status.node})
    yield from _changed_readings(status, last)
    yield from _new_holds(end, status, last)


def command_entries(outcome: Outcome, command: str, user: str) -> Iterator[JournalEntry]:
    """An entry for each number that a command has written. user: who ran the command."""
    for entry in _written_changes(outcome):
        message = f"{entry.message}: {user} ran capacityd {command}"
        yield replace(entry, message=message, fields={**entry.fields, "COMMAND": command, "USER": user})


def _written_changes(outcome: Outcome) -> Iterator[JournalEntry]:
    """An entry for each number that has been written."""
    if not outcome.is_written:
        return
    for change in outcome.plan.written_changes:
        fields = {
            "NODE": outcome.node.name,
            "RESOURCE": str(change.key),
            "OLD": change.stored.capacity or "none",
            "NEW": "none" if change.desired is None else str(change.desired),
            "REASON": change.reason,
        }
        yield JournalEntry(EntryKind.CHANGED, Priority.NOTICE, change.summary, fields)


def _new_troubles(status: PassStatus, last: PassStatus) -> Iterator[JournalEntry]:
    """An entry for each trouble of the Node that the last pass has not found."""
    last_troubles = {(trouble.reason, trouble.key) for trouble in last.troubles}
    for trouble in status.troubles:
        is_new = (trouble.reason, trouble.key) not in last_troubles
        if not is_new or _has_other_entry(trouble):
            continue
        fields = {"NODE": status.node, "CONDITION_REASON": trouble.reason.value}
        if trouble.key:
            fields["RESOURCE"] = str(trouble.key)
        yield JournalEntry(EntryKind.CONDITION, Priority.WARNING, trouble.summary, fields)


def _has_other_entry(trouble: Trouble) -> bool:
    """Whether another entry logs this trouble: the one about an unknown reading, or one of the configuration check."""
    if trouble.reason is ConditionReason.CONFIGURATION_REJECTED:
        return trouble.key is None  # a trouble with a key is found in the pass, not by the check
    return trouble.reason is ConditionReason.UNKNOWN


def _changed_readings(status: PassStatus, last: PassStatus) -> Iterator[JournalEntry]:
    """An entry for each resource that has become unknown, or known again."""
    for name, reading in status.readings.items():
        was_unknown = isinstance(last.readings.get(name), Unknown)
        is_unknown = isinstance(reading, Unknown)
        if is_unknown == was_unknown:
            continue
        fields = {"RESOURCE": name}
        if isinstance(reading, Unknown):
            fields |= {"CAUSE": reading.cause.value, "REASON": reading.reason}
            yield JournalEntry(EntryKind.CONDITION, Priority.WARNING, f"{name}: unknown: {reading.reason}", fields)
        else:
            message = f"{name}: known again: {reading_text(reading)}"
            yield JournalEntry(EntryKind.CONDITION, Priority.NOTICE, message, fields)


def _new_holds(end: PassEnd, status: PassStatus, last: PassStatus) -> Iterator[JournalEntry]:
    """An entry for each change that a limit holds back since this pass."""
    held_before = {wait.key for wait in last.waits if wait.holds_change}
    published_by_key = {change.key: change.published for change in status.changes}
    for wait in status.waits:
        is_new_hold = wait.holds_change and wait.key not in held_before
        if wait.key is None or not is_new_hold:
            continue
        old = str(published_by_key.get(wait.key))
        new = reading_text(status.readings.get(wait.key.name))
        reason = wait.text(end.inputs.uptime)
        fields = {"RESOURCE": str(wait.key), "OLD": old, "NEW": new, "REASON": reason, "WAIT": wait.reason.value}
        message = f"{wait.key}: {old} → {new}: {reason}"
        yield JournalEntry(None, Priority.NOTICE, message, fields)


def log_to_journal(entries: Iterable[JournalEntry]) -> None:
    """Writes a command's entries to the journal, if there is a journal. Prints nothing."""
    for entry in entries:
        systemd.log_to_journal(entry.priority, entry.message, entry.kind, entry.fields)


def log_entries(entries: Iterable[JournalEntry]) -> None:
    """Writes the entries to the journal or, if standard error is not the journal, to standard error."""
    for entry in entries:
        systemd.log_entry(entry.priority, entry.message, entry.kind, entry.fields)
