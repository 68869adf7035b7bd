"""Journal entries of a reconcile pass: a message, fields, and a MESSAGE_ID for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from capacityd.linux import systemd
from capacityd.linux.systemd import MSGID_DEGRADED, MSGID_EVENT_SOURCE_LOST, MSGID_RECOVERED
from capacityd.model.node import Change, Health
from capacityd.model.quantity import plain
from capacityd.model.reading import Reading, Unknown
from capacityd.reconcile.reconcile import ReconcileResult
from capacityd.reconcile.state import outcome_text

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
    "metrics": "b81d6a162f624473a3fddfb896f13d6a",
    "degraded": MSGID_DEGRADED,
    "recovered": MSGID_RECOVERED,
    "event source lost": MSGID_EVENT_SOURCE_LOST,
}
"""Kind of entry -> its MESSAGE_ID. These never change: users filter by them."""

WARNING, NOTICE, ERROR = 4, 5, 3  # syslog(3)


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry."""

    kind: str  # a key of MESSAGE_IDS
    level: int  # a priority of syslog(3)
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)  # names in capitals, as journald requires


def outcome_entries(found: ReconcileResult, previous: Mapping[str, Any]) -> Iterator[Entry]:
    """What a pass did to the Node, what is newly wrong on it, and each Event that could not be created.

    previous: status.json of the pass before. What it contains is not logged again, even if the Node has no condition.
    """
    if found.outcome is None:
        return
    node, plan = found.outcome.state.name, found.outcome.plan
    changes_before = previous.get("plan", {}).get("changes", [])
    refused = {c["name"] for c in changes_before if c["action"] == "refuse"}
    for change in plan.changes:
        if change.action in ("set", "remove") and found.outcome.applied:
            fields = _fields(node, change)
            yield Entry("changed", NOTICE, change.summary, fields)
        elif change.name in plan.newly_refused and change.name not in refused:
            message = f"{change.name}: refused: {change.reason}"
            yield Entry("refused", WARNING, message, _fields(node, change))
        elif change.action == "deny" and change.name not in previous.get("denied", {}):
            yield Entry("denied", WARNING, f"{change.name}: denied: {change.reason}", _fields(node, change))
    yield from _health_entries(node, plan.health, previous)
    for warning in found.outcome.warnings:
        yield Entry("event not created", WARNING, warning, {"NODE": node})


def _health_entries(node: str, health: Health, previous: Mapping[str, Any]) -> Iterator[Entry]:
    for name, (quantity, expected) in health.below_expected.items():
        if previous.get("below_expected", {}).get(name) != [quantity, expected]:
            fields = {"NODE": node, "RESOURCE": name, "NEW": str(quantity), "EXPECTED": str(expected)}
            yield Entry("below expected", WARNING, f"{name}: {quantity}, expected {expected}", fields)
    for name, (published, allocatable) in health.not_allocatable.items():
        if name not in previous.get("not_allocatable", {}):
            message = f"{name}: {allocatable} of {published} are allocatable: another writer changes it"
            yield Entry("not allocatable", WARNING, message, {"NODE": node, "RESOURCE": name})


def reading_entries(
    readings: Mapping[str, Reading], found: ReconcileResult, previous: Mapping[str, Any], first: bool = False
) -> Iterator[Entry]:
    """Resources that are unknown, known again or held back since the pass before.

    previous: status.json of that pass. first: whether this is the first pass of the service. At boot a default route or
    a driver may only be late, so an unknown reading is a notice then, and a warning if the next pass has it, too.
    """
    after_boot = "boot" in previous.get("reasons", [])
    outcomes = {r["name"]: r["outcome"] for r in previous.get("readings", [])}
    for name, reading in readings.items():
        outcome = outcomes.get(name)
        if isinstance(reading, Unknown):
            if outcome != "unknown" or after_boot:
                fields = {"RESOURCE": name, "CAUSE": reading.cause.value, "REASON": reading.reason}
                yield Entry("unknown", NOTICE if first else WARNING, f"{name}: unknown: {reading.reason}", fields)
        elif outcome == "unknown":
            yield Entry("known", NOTICE, f"{name}: known again: {outcome_text(reading)}", {"RESOURCE": name})
    for name in sorted(found.held.keys() - previous.get("held_until", {}).keys()):
        old, new = found.memory.published.get(name), readings.get(name)
        fields = {
            "RESOURCE": name,
            "OLD": "none" if old is None else str(old),
            "NEW": "none" if new is None else outcome_text(new),
            "REASON": f"lower_after: {found.held[name]:.0f} s left",
        }
        message = f"{name}: {fields['OLD']} → {fields['NEW']} is held back: {fields['REASON']}"
        yield Entry("held", NOTICE, message, fields)


def send(entries: Iterable[Entry]) -> None:
    """Writes the entries to the journal, or to standard error if that is not the journal."""
    for entry in entries:
        systemd.log_entry(entry.level, entry.message, MESSAGE_IDS[entry.kind], entry.fields)


def _fields(node: str, change: Change) -> dict[str, str]:
    old, new = plain(change.old), plain(change.new)
    return {"NODE": node, "RESOURCE": change.name, "OLD": old, "NEW": new, "REASON": change.reason}
