"""Journal entries of a reconcile pass: a message, fields, and a MESSAGE_ID for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from capacityd.linux import systemd
from capacityd.linux.systemd import MSGID_DEGRADED, MSGID_EVENT_SOURCE_LOST, MSGID_METRICS, MSGID_RECOVERED
from capacityd.model.plan import Action, Change, Health
from capacityd.model.quantity import plain
from capacityd.model.reading import Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.reconcile.result import ReconcileResult
from capacityd.reconcile.state import is_lower, outcome_text
from capacityd.worker.pass_state import Logged, NodeStatus, Outcome, PassState, PassStatus

MESSAGE_IDS = {
    "changed": "eadd777d826542e2a4a621486ac5cb71",
    "refused": "4fde5156bc29436a8c57acafb5bf4dfd",
    "denied": "b17b1d0b43b347fe8fde03f6512f69bb",
    "below expected": "9240c49064a3422f97bc464028288914",
    "not allocatable": "3757b0b701b94f489f964b61de389122",
    "held": "6c8d3cbdb7d44ee8a4fb01b480946878",
    "unknown": "0a5db50627284cf097367504d349291e",
    "known": "08c77ab01cae49c2935a2ea867305176",
    "configuration error": "af9faed3990f4995bae4e7b6d029c156",
    "configuration warning": "d0a2f6d4a3f94b7c9f2a1c58e7b46d13",
    "event not created": "58dc7ea2a9c74502a2c0ec9a374c10db",
    "metrics": MSGID_METRICS,
    "degraded": MSGID_DEGRADED,
    "recovered": MSGID_RECOVERED,
    "event source lost": MSGID_EVENT_SOURCE_LOST,
}
"""Kind of entry -> its MESSAGE_ID. These never change: users filter by them."""

WARNING, NOTICE, ERROR = 4, 5, 3  # syslog(3)

_MOST_REASONS, _REASONS_PERIOD = 6, 360.0
"""At most so many entries about one unknown resource in so many seconds: its reason may change at each pass."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry."""

    kind: str  # a key of MESSAGE_IDS
    level: int  # a priority of syslog(3)
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)  # names in capitals, as journald requires


def outcome_entries(result: ReconcileResult, previous: PassStatus | None) -> Iterator[Entry]:
    """What a pass changed on the Node, what is newly wrong on it, and each Event that could not be created.

    previous: the status of the last pass. What it contains is not logged again, even if the Node has no condition.
    """
    if result.outcome is None:
        return
    node, plan = result.outcome.node_state.name, result.outcome.plan
    last = previous.node if previous and previous.node else NodeStatus(node, 0.0)
    refused = {change.name for change in last.changes if change.action is Action.REFUSE}
    for change in plan.changes:
        if change.action.writes and result.outcome.applied:
            fields = _fields(node, change)
            yield Entry("changed", NOTICE, change.summary, fields)
        elif change.name in plan.newly_refused and change.name not in refused:
            message = f"{change.name}: refused: {change.reason}"
            yield Entry("refused", WARNING, message, _fields(node, change))
        elif change.action is Action.DENY and change.name not in last.denied:
            yield Entry("denied", WARNING, f"{change.name}: denied: {change.reason}", _fields(node, change))
    yield from _health_entries(node, plan.health, last)
    for warning in result.outcome.warnings:
        yield Entry("event not created", WARNING, warning, {"NODE": node})


def _health_entries(node: str, health: Health, last: NodeStatus) -> Iterator[Entry]:
    for name, (quantity, expected) in health.below_expected.items():
        if last.below_expected.get(name) != (quantity, expected):
            fields = {"NODE": node, "RESOURCE": name, "NEW": str(quantity), "EXPECTED": str(expected)}
            yield Entry("below expected", WARNING, f"{name}: {quantity}, expected {expected}", fields)
    for name, (published, allocatable) in health.not_allocatable.items():
        if name not in last.not_allocatable:
            message = f"{name}: {allocatable} of {published} are allocatable: another writer changes it"
            yield Entry("not allocatable", WARNING, message, {"NODE": node, "RESOURCE": name})


def logged_after(readings: Mapping[str, Reading], previous: PassState, uptime: float) -> dict[str, Logged]:
    """What the journal has of each unknown resource once reading_entries() is sent. previous: what the last pass left.

    At boot a default route or a driver may only be late, so what is still unknown at the next pass is logged again.
    """
    after_boot = previous.status is not None and PassReason.BOOT in previous.status.reasons
    logged = {}
    for name, reading in readings.items():
        if not isinstance(reading, Unknown):
            continue
        last = previous.logged.get(name, Logged("", ()))
        is_logged = bool(last.at) and last.reason == reading.reason and not after_boot
        flooding = len(last.at) == _MOST_REASONS and uptime - last.at[0] < _REASONS_PERIOD
        logged[name] = last if is_logged or flooding else Logged(reading.reason, (*last.at, uptime)[-_MOST_REASONS:])
    return logged


def reading_entries(
    readings: Mapping[str, Reading],
    result: ReconcileResult,
    previous: PassState,
    logged: Mapping[str, Logged],
    *,
    at_boot: bool,
) -> Iterator[Entry]:
    """Resources that are newly unknown, unknown for another reason, known again or held back since the last pass.

    previous: what the last pass left. logged: as logged_after() returns it. at_boot: whether this is the first pass of
    the service: then an unknown resource is a notice, and a warning if it is still unknown at the next pass.
    """
    last_readings = previous.status.readings if previous.status else {}
    last_held = previous.status.held_until if previous.status else {}
    for name, reading in readings.items():
        if isinstance(reading, Unknown):
            if logged[name] != previous.logged.get(name):
                fields = {"RESOURCE": name, "CAUSE": reading.cause.value, "REASON": reading.reason}
                yield Entry("unknown", NOTICE if at_boot else WARNING, f"{name}: unknown: {reading.reason}", fields)
        elif name in last_readings and last_readings[name].outcome is Outcome.UNKNOWN:
            yield Entry("known", NOTICE, f"{name}: known again: {outcome_text(reading)}", {"RESOURCE": name})
    for name in sorted(result.held.keys() - last_held.keys()):
        old, new = result.state.annotated.get(name), readings.get(name)
        fields = {
            "RESOURCE": name,
            "OLD": "none" if old is None else str(old),
            "NEW": "none" if new is None else outcome_text(new),
            "REASON": f"{_limit(name, new, result)}: {result.held[name]:.0f} s left",
        }
        message = f"{name}: {fields['OLD']} → {fields['NEW']} is held back: {fields['REASON']}"
        yield Entry("held", NOTICE, message, fields)


def _limit(name: str, reading: Reading | None, result: ReconcileResult) -> str:
    """What holds a change back."""
    if name in result.state.denied:
        return "denied, retried later"
    return "lower_after" if is_lower(reading, result.state.annotated.get(name)) else "rate limit"


def send(entries: Iterable[Entry]) -> None:
    """Writes the entries to the journal, or to standard error if that is not the journal."""
    for entry in entries:
        systemd.log_entry(entry.level, entry.message, MESSAGE_IDS[entry.kind], entry.fields)


def _fields(node: str, change: Change) -> dict[str, str]:
    old, new = plain(change.old), plain(change.new)
    return {"NODE": node, "RESOURCE": change.name, "OLD": old, "NEW": new, "REASON": change.reason}
