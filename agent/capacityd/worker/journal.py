"""Journal entries of a reconcile pass: a message, fields, and a MESSAGE_ID for each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from capacityd.linux import systemd
from capacityd.linux.systemd import EntryKind, Priority
from capacityd.model.node import CONDITION
from capacityd.model.other_agent import other_agent_text
from capacityd.model.plan import Action, Change, Health
from capacityd.model.quantity import plain
from capacityd.model.reading import Absent, Reading, Unknown, reading_text
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait
from capacityd.reconcile.result import ReconcileResult
from capacityd.worker.pass_memory import Logged, PassMemory
from capacityd.worker.pass_state import NO_PASS, PassStatus

_MAX_ENTRIES = 6
"""At most this many entries about one unknown resource in _ENTRIES_PERIOD: its reason may change at each pass."""
_ENTRIES_PERIOD = 360.0  # seconds


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry."""

    kind: EntryKind
    priority: Priority
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)  # names in capital letters, as journald requires


def outcome_entries(result: ReconcileResult, status: PassStatus, previous: PassStatus | None) -> Iterator[Entry]:
    """The changes that a pass made on the Node, new problems, and each Event that could not be created.

    status: the status of this pass. previous: the status of the last pass; None if there was none. Problems that the
    last pass already had are not logged again. "Refused" is what capacityd does with another writer's key, and "denied"
    what the API server does with a write.
    """
    if result.outcome is None:
        return
    node = result.outcome.node_state.name
    last = previous or NO_PASS
    # The machine record lists the refusals that Events have reported; newly_refused is what it lacks. While the record
    # can't be saved, newly_refused repeats a name at each pass, so a name that the last pass refused is not new.
    refused_before = {change.name for change in last.changes if change.action is Action.REFUSE}
    newly_refused = {*result.outcome.plan.newly_refused} - refused_before
    for change in status.changes:
        if change.action.writes and result.outcome.applied:
            fields = _fields(node, change)
            yield Entry(EntryKind.CHANGED, Priority.NOTICE, change.summary, fields)
        elif change.name in newly_refused:
            message = f"{change.name}: refused: {change.reason}"
            yield Entry(EntryKind.REFUSED, Priority.WARNING, message, _fields(node, change))
        elif change.action is Action.DENY and change.name not in last.health.denied:
            message = f"{change.name}: denied: {change.reason}{result.wait_text(change.name)}"
            yield Entry(EntryKind.DENIED, Priority.WARNING, message, _fields(node, change))
    yield from _health_entries(node, status.health, last.health)
    yield from _condition_entries(node, status, last)
    for warning in result.outcome.warnings:
        yield Entry(EntryKind.EVENT_NOT_CREATED, Priority.WARNING, warning, {"NODE": node})


def _health_entries(node: str, health: Health, last: Health) -> Iterator[Entry]:
    if health.other_agent and not last.other_agent:  # another capacityd writes this Node
        message = other_agent_text(health.other_agent.quantities)
        yield Entry(EntryKind.OTHER_WRITER, Priority.WARNING, message, {"NODE": node})
    for name in health.not_configured:
        if name not in last.not_configured:
            message = f"{name}: stays on the Node, because no resource is configured at all"
            yield Entry(EntryKind.NOT_CONFIGURED, Priority.WARNING, message, {"NODE": node, "RESOURCE": name})
    for name, (quantity, expected) in health.below_expected.items():
        if last.below_expected.get(name) != (quantity, expected):
            fields = {"NODE": node, "RESOURCE": name, "NEW": str(quantity), "EXPECTED": str(expected)}
            yield Entry(EntryKind.BELOW_EXPECTED, Priority.WARNING, f"{name}: {quantity}, expected {expected}", fields)
    for name, (published, allocatable) in health.not_allocatable.items():
        if name not in last.not_allocatable:
            message = f"{name}: {allocatable} of {published} are allocatable: another writer changes it"
            yield Entry(EntryKind.NOT_ALLOCATABLE, Priority.WARNING, message, {"NODE": node, "RESOURCE": name})


def _condition_entries(node: str, status: PassStatus, last: PassStatus) -> Iterator[Entry]:
    if status.condition_not_stored and not last.condition_not_stored:
        message = f"Node {node}: the API server does not store the condition {CONDITION}; does a policy change it?"
        yield Entry(EntryKind.CONDITION_NOT_STORED, Priority.WARNING, message, {"NODE": node})
    elif last.condition_not_stored and not status.condition_not_stored:
        message = f"Node {node}: the API server stores the condition {CONDITION} again"
        yield Entry(EntryKind.CONDITION_NOT_STORED, Priority.NOTICE, message, {"NODE": node})


def first_pass_entries(
    readings: Mapping[str, Reading], result: ReconcileResult, previous: PassStatus | None
) -> Iterator[Entry]:
    """A summary of the first pass that read the Node, if it has changed no quantity: nothing else would be logged then.

    previous: the status of the last pass.
    """
    outcome = result.outcome
    was_read_before = previous is not None and previous.read_at is not None
    if outcome is None or was_read_before:
        return
    if outcome.applied and outcome.plan.changed_names:
        return
    node = outcome.node_state.name
    count = Counter(change.action for change in outcome.plan.changes)
    parts = {
        "published": len(outcome.plan.write.annotated),
        "absent": sum(isinstance(reading, Absent) for reading in readings.values()),
        "unknown": sum(isinstance(reading, Unknown) for reading in readings.values()),
        "refused": count[Action.REFUSE],
        "denied": count[Action.DENY],
        "held back": count[Action.HOLD],
        "not written (observe = true)": 0 if outcome.applied else count[Action.SET] + count[Action.REMOVE],
    }
    always_shown = ("published", "absent")
    text = ", ".join(f"{number} {what}" for what, number in parts.items() if number or what in always_shown)
    yield Entry(EntryKind.STARTED, Priority.NOTICE, f"Node {node}: {text}", {"NODE": node})


def logged_after(readings: Mapping[str, Reading], previous: PassMemory, uptime: float) -> dict[str, Logged]:
    """Name of each resource with an unknown reading -> its journal entries, including that of reading_entries() now.

    previous: what the last pass has left. At boot, a default route or a driver may only be late, so a resource that is
    still unknown at the next pass is logged again.
    """
    last_was_at_boot = previous.status is not None and PassReason.BOOT in previous.status.reasons
    not_logged = Logged(reason="", times=())
    logged = {}
    for name, reading in readings.items():
        if not isinstance(reading, Unknown):
            continue
        last = previous.logged.get(name, not_logged)
        if last.times and last.times[-1] > uptime:  # from a restored snapshot of the machine
            last = not_logged
        is_logged = bool(last.times) and last.reason == reading.reason
        are_too_many = len(last.times) == _MAX_ENTRIES and uptime - last.times[0] < _ENTRIES_PERIOD
        if are_too_many or (is_logged and not last_was_at_boot):
            logged[name] = last
        else:
            logged[name] = Logged(reading.reason, times=(*last.times, uptime)[-_MAX_ENTRIES:])
    return logged


def reading_entries(
    readings: Mapping[str, Reading],
    result: ReconcileResult,
    previous: PassMemory,
    logged: Mapping[str, Logged],
    *,
    at_boot: bool,
) -> Iterator[Entry]:
    """Entries for resources that, since the last pass, became unknown, unknown for another reason, known, or held back.

    previous: what the last pass has left. logged: the result of logged_after(). at_boot: whether this is the service's
    first pass. Its entry about an unknown resource is a notice. A later entry about the resource is a warning.
    """
    last = previous.status or NO_PASS
    changes = {change.name: change for change in result.plan.changes} if result.plan else {}
    for name, reading in readings.items():
        if isinstance(reading, Unknown):
            if logged[name] != previous.logged.get(name):  # logged_after() has added this entry
                priority = Priority.NOTICE if at_boot else Priority.WARNING
                message = f"{name}: unknown: {reading.reason}{result.wait_text(name)}"
                fields = {"RESOURCE": name, "CAUSE": reading.cause.value, "REASON": reading.reason}
                yield Entry(EntryKind.UNKNOWN, priority, message, fields)
        elif isinstance(last.readings.get(name), Unknown):
            message = f"{name}: known again: {reading_text(reading)}"
            yield Entry(EntryKind.KNOWN, Priority.NOTICE, message, {"RESOURCE": name})
    held_before = {wait.name for wait in last.waits if wait.holds_change}
    for wait in result.waits:
        if wait.holds_change and wait.name not in held_before:
            yield _held_entry(changes[wait.name], wait, result.uptime)


def _held_entry(change: Change, wait: Wait, uptime: float) -> Entry:
    old, new, reason = plain(change.old), plain(change.new), wait.text(uptime)
    fields = {"RESOURCE": change.name, "OLD": old, "NEW": new, "REASON": reason, "WAIT": wait.reason.value}
    return Entry(EntryKind.HELD, Priority.NOTICE, f"{change.name}: {old} → {new}: {reason}", fields)


def send(entries: Iterable[Entry]) -> None:
    """Writes the entries to the journal; if standard error is not the journal, to standard error."""
    for entry in entries:
        systemd.log_entry(entry.priority, entry.message, entry.kind, entry.fields)


def _fields(node: str, change: Change) -> dict[str, str]:
    old, new = plain(change.old), plain(change.new)
    return {"NODE": node, "RESOURCE": change.name, "OLD": old, "NEW": new, "REASON": change.reason}
