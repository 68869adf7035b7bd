"""Journal entries of reconcile passes and commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from capacityd.linux import systemd
from capacityd.linux.systemd import EntryKind, Priority
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Change, Trouble
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
        yield from _changes(outcome)
        yield from _troubles(status, last)
        yield from _warnings(outcome)
        has_changed = outcome.is_written and outcome.plan.written_changes
        if last.read_at is None and not has_changed:
            message = f"Node {status.node}: {status.summary}"
            yield JournalEntry(None, Priority.NOTICE, message, {"NODE": status.node})
    yield from _readings(status, last)
    yield from _held(end, status, last)


def _changes(outcome: Outcome) -> Iterator[JournalEntry]:
    """An entry for each number that the pass has written."""
    if outcome.is_written:
        for change in outcome.plan.written_changes:
            fields = _fields(outcome.node.name, change)
            yield JournalEntry(EntryKind.CHANGED, Priority.NOTICE, change.summary, fields)


def _troubles(status: PassStatus, last: PassStatus) -> Iterator[JournalEntry]:
    """The new troubles of the Node. Unknown readings and configuration errors have entries of their own."""
    known = {(trouble.reason, trouble.key) for trouble in last.troubles}
    for trouble in status.troubles:
        is_elsewhere = trouble.reason is ConditionReason.UNKNOWN or _is_of_configuration(trouble)
        if (trouble.reason, trouble.key) in known or is_elsewhere:
            continue
        fields = {"NODE": status.node, "CONDITION_REASON": trouble.reason.value}
        if trouble.key:
            fields["RESOURCE"] = str(trouble.key)
        yield JournalEntry(EntryKind.CONDITION, Priority.WARNING, trouble.summary, fields)


def _is_of_configuration(trouble: Trouble) -> bool:
    """Whether the trouble concerns the whole configuration. The check of the configuration logs such troubles."""
    return trouble.reason is ConditionReason.CONFIGURATION_REJECTED and trouble.key is None


def _warnings(outcome: Outcome) -> Iterator[JournalEntry]:
    for warning in outcome.warnings:
        yield JournalEntry(None, Priority.WARNING, warning, {"NODE": outcome.node.name})


def _readings(status: PassStatus, last: PassStatus) -> Iterator[JournalEntry]:
    """The resources that have become unknown, or known again."""
    for name, reading in status.readings.items():
        was_unknown = isinstance(last.readings.get(name), Unknown)
        if isinstance(reading, Unknown) and not was_unknown:
            fields = {"RESOURCE": name, "CAUSE": reading.cause.value, "REASON": reading.reason}
            yield JournalEntry(EntryKind.CONDITION, Priority.WARNING, f"{name}: unknown: {reading.reason}", fields)
        elif was_unknown and not isinstance(reading, Unknown):
            message = f"{name}: known again: {reading_text(reading)}"
            yield JournalEntry(EntryKind.CONDITION, Priority.NOTICE, message, {"RESOURCE": name})


def _held(end: PassEnd, status: PassStatus, last: PassStatus) -> Iterator[JournalEntry]:
    """The changes that a limit holds back since this pass."""
    held_before = {wait.key for wait in last.waits if wait.holds_change}
    published = {change.key: change.published for change in status.changes}
    for wait in status.waits:
        if wait.key is None or not wait.holds_change or wait.key in held_before:
            continue
        old, new = str(published.get(wait.key)), reading_text(status.readings.get(wait.key.name))
        reason = wait.text(end.inputs.uptime)
        fields = {"RESOURCE": str(wait.key), "OLD": old, "NEW": new, "REASON": reason, "WAIT": wait.reason.value}
        yield JournalEntry(None, Priority.NOTICE, f"{wait.key}: {old} → {new}: {reason}", fields)


def command_entries(outcome: Outcome, command: str, user: str) -> Iterator[JournalEntry]:
    """An entry for each number that a command has written. user: who ran the command."""
    if outcome.is_written:
        for change in outcome.plan.written_changes:
            fields = _fields(outcome.node.name, change) | {"COMMAND": command, "USER": user}
            message = f"{change.summary}: {user} ran capacityd {command}"
            yield JournalEntry(EntryKind.CHANGED, Priority.NOTICE, message, fields)


def send_to_journal(entries: Iterable[JournalEntry]) -> None:
    """Writes a command's entries to the journal, if there is a journal. Prints nothing."""
    for entry in entries:
        systemd.log_to_journal(entry.priority, entry.message, entry.kind, entry.fields)


def send(entries: Iterable[JournalEntry]) -> None:
    """Writes the entries to the journal or, if standard error is not the journal, to standard error."""
    for entry in entries:
        systemd.log_entry(entry.priority, entry.message, entry.kind, entry.fields)


def _fields(node: str, change: Change) -> dict[str, str]:
    new = "none" if change.desired is None else str(change.desired)
    old = change.stored.capacity or "none"
    return {"NODE": node, "RESOURCE": str(change.key), "OLD": old, "NEW": new, "REASON": change.reason}
