"""What the service tells the journal of a look: entries with fields and, for each kind, a message id.

packaging/systemd/capacityd.catalog explains each kind to who asks (journalctl --catalog). For the children only: the
library takes 4 MiB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from capacityd.capacity import Change
from capacityd.look import Look
from capacityd.memory import digest
from capacityd.model import Reading, Unknown
from capacityd.quantity import plain
from capacityd.state import listed
from capacityd.tell import DEAF, TROUBLE, WELL, is_journal

MESSAGE_IDS = {
    "changed": "eadd777d826542e2a4a621486ac5cb71",
    "refused": "4fde5156bc29436a8c57acafb5bf4dfd",
    "held": "6c8d3cbdb7d44ee8a4fb01b480946878",
    "unknown": "0a5db50627284cf097367504d349291e",
    "known": "08c77ab01cae49c2935a2ea867305176",
    "mistake": "af9faed3990f4995bae4e7b6d029c156",
    "untold": "58dc7ea2a9c74502a2c0ec9a374c10db",
    "metrics": "b81d6a162f624473a3fddfb896f13d6a",
    "trouble": TROUBLE,
    "well": WELL,
    "deaf": DEAF,
}
"""Kind of entry -> its MESSAGE_ID, which stays the same for ever: others look for it. The last three are tell.py's."""

WARNING, NOTICE, ERROR = 4, 5, 3  # syslog(3)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. kind: of MESSAGE_IDS. level: syslog's. fields: in capitals, as journald wants them."""

    kind: str
    level: int
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)


def outcome_entries(found: Look, before: Mapping[str, Any]) -> Iterator[Entry]:
    """What a look did to the Node: each change, each refusal that is new, each Event that could not be written.

    before: as for reading_entries. The Node's condition, which tells what is new too, may be switched off.
    """
    if found.outcome is None:
        return
    node, plan = found.outcome.state.name, found.outcome.plan
    earlier = before.get("plan")
    refused = {c["name"] for c in listed(earlier, "changes", "name", "action") if c["action"] == "refuse"}
    for change in plan.changes:
        if change.action in ("set", "remove") and found.outcome.applied:
            told = _fields(node, change)
            yield Entry("changed", NOTICE, f"{change.name}: {told['OLD']} → {told['NEW']} ({change.reason})", told)
        elif change.name in plan.newly_refused and change.name not in refused:
            message = f"{change.name}: refused: {change.reason}"
            yield Entry("refused", WARNING, message, _fields(node, change))
    for warning in found.outcome.warnings:
        yield Entry("untold", WARNING, warning, {"NODE": node})


def reading_entries(
    readings: Mapping[str, Reading], found: Look, before: Mapping[str, Any], first: bool = False
) -> Iterator[Entry]:
    """What is unknown, known again or held back since the look before. before: what that one left for status.

    first: it is the first look of the service. At boot much is only late (a default route, a driver), and nobody can do
    anything about it: what is unknown then is a warning if the next look does not know it, either.
    """
    reasons = before.get("reasons")
    after_boot = isinstance(reasons, list) and "boot" in reasons
    outcomes = {r["name"]: r["outcome"] for r in listed(before, "readings", "name", "outcome")}
    for name, reading in readings.items():
        was = outcomes.get(name)
        if isinstance(reading, Unknown):
            if was != "unknown" or after_boot:
                fields = {"RESOURCE": name, "REASON": reading.reason}
                yield Entry("unknown", NOTICE if first else WARNING, f"{name}: unknown: {reading.reason}", fields)
        elif was == "unknown":
            yield Entry("known", NOTICE, f"{name}: known again: {digest(reading)}", {"RESOURCE": name})
    held = before.get("held")
    for name in sorted(found.held.keys() - (held if isinstance(held, dict) else {}).keys()):
        old, new = found.memory.published.get(name), readings.get(name)
        fields = {
            "RESOURCE": name,
            "OLD": "none" if old is None else str(old),
            "NEW": "none" if new is None else digest(new),
            "REASON": f"it must last {found.held[name]:.0f} s more",
        }
        message = f"{name}: {fields['OLD']} → {fields['NEW']} is held back: {fields['REASON']}"
        yield Entry("held", NOTICE, message, fields)


def send(entries: Iterable[Entry]) -> None:
    """Tells the journal, or standard error where there is none."""
    for entry in entries:
        if _connected():
            from systemd import journal

            fields = {**entry.fields, "MESSAGE_ID": MESSAGE_IDS[entry.kind], "PRIORITY": str(entry.level)}
            try:
                journal.send(entry.message, SYSLOG_IDENTIFIER="capacityd", **fields)
                continue
            except OSError:
                pass  # a journal that is full or gone
        print(f"capacityd: {entry.message}", file=sys.stderr, flush=True)


def _fields(node: str, change: Change) -> dict[str, str]:
    old, new = plain(change.old), plain(change.new)
    return {"NODE": node, "RESOURCE": change.name, "OLD": old, "NEW": new, "REASON": change.reason}


def _connected() -> bool:
    """Whether standard error is the journal's."""
    try:
        return is_journal(os.fstat(2))
    except OSError:
        return False
