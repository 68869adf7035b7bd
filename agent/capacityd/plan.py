"""Decides what is to happen to each name on the Node: pure, from values to values.

The rules, in the order in which they count:
- A device plugin's name is refused, whatever our record says.
- Ours is what our record names. The record is on the Node, so it is input like any other: of it only valid extended
  names count, and a key is removed only when its value is what the record says, or 0.
- Unknown never lowers or removes; what was lost or zeroed meanwhile is restored from the record.
- Raise at once, lower late: pods that no longer fit are stopped at the kubelet's next restart.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from capacityd.capacity import Change, NodeState, Plan
from capacityd.model import Absent, Quantity, Reading, Unknown
from capacityd.patch import patch_for, refused_before, unknown_before, wanted_condition
from capacityd.quantity import LARGEST, name_problem, same_quantity, whole_quantity

REST = ""
"""In Terms.not_before: a write of the condition or the record alone."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan is made by, beside the readings and the Node.

    adopt: names that may be taken over. plugins: those of device plugins, None: not to be known, so nothing is adopted.
    pending: names that are unknown for the moment only: the condition says of them what it said before.
    complete: whether the whole configuration could be read. now: seconds since the epoch. condition: whether to keep a
    Node condition. Of the service's, in seconds of uptime, which no change of the clock moves: lower_after: how long a
    lower quantity must hold; lower_since: name -> since when it has; not_before: name -> when it may be written again,
    REST -> when that may be written which is no quantity; undo_not_before: name -> when another writer's change of it
    may be undone again. published: name -> what was there when the service last knew. kubelet_anew: it may have zeroed
    what is there, or registered the Node, since.
    """

    adopt: Collection[str] = ()
    plugins: Collection[str] | None = ()
    pending: Collection[str] = ()
    complete: bool = True
    now: float = 0.0
    condition: bool = True
    uptime: float = 0.0
    lower_after: float = 0.0
    lower_since: Mapping[str, float] = field(default_factory=dict)
    not_before: Mapping[str, float] = field(default_factory=dict)
    undo_not_before: Mapping[str, float] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    kubelet_anew: bool = False


@dataclass(frozen=True, slots=True)
class _Key:
    """A name as the Node has it. recorded: what we published, None: it isn't ours."""

    name: str
    stored: str | None
    recorded: int | None

    def is_(self, number: int) -> bool:
        return self.stored is not None and same_quantity(self.stored, number)

    def untouched(self) -> bool:
        """Whether nobody but us and a zeroing kubelet has written it."""
        return self.recorded is not None and (self.is_(self.recorded) or self.is_(0))


@dataclass(frozen=True, slots=True)
class _Decision:
    """action, value, reason as in Change; record: what our record says afterwards, None: nothing."""

    action: str
    value: int | None
    reason: str
    record: int | None


def read_record(annotation: str | None) -> dict[str, int]:
    """Our record: name -> quantity. Whatever of it can't be ours is left out."""
    try:
        found = json.loads(annotation or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in sorted(found.items()) if _could_be_ours(name, value)}


def make_plan(readings: Mapping[str, Reading], state: NodeState, terms: Terms) -> Plan:
    """What to set, remove, keep, hold back and refuse on this Node, with each reason, and the patch that does it."""
    record = read_record(state.annotation)
    changes: list[Change] = []
    published: dict[str, int] = {}
    since: dict[str, float] = {}
    held: dict[str, float] = {}
    undone: list[str] = []
    for name in sorted({*readings, *record}):
        key = _Key(name, (state.capacity or {}).get(name), record.get(name))
        decision = _decide(key, readings.get(name), terms, bool(readings))
        if decision.action in ("set", "remove"):
            waits: list[tuple[float, str]] = []
            if lowers := _lowers(key, decision):
                lower_since = terms.lower_since.get(name, terms.uptime)
                waits.append((lower_since + terms.lower_after, "in case it comes back"))
            waits.append((terms.not_before.get(name, 0.0), "because it keeps changing"))
            if _undoes(key, terms):
                undone.append(name)
                waits.append((terms.undo_not_before.get(name, 0.0), "because somebody else keeps changing it"))
            until, why = max(waits)
            if until > terms.uptime:
                held[name] = until
                if lowers:
                    since[name] = lower_since
                why = f"{decision.reason}; held back for {until - terms.uptime:.0f} s more, {why}"
                decision = _Decision("hold", decision.value, why, key.recorded)
        changes.append(_change(key, decision))
        if decision.record is not None:
            published[name] = decision.record
    unknown = tuple(name for name, reading in sorted(readings.items()) if isinstance(reading, Unknown))
    refused = tuple(c.name for c in changes if c.action == "refuse")
    newly = tuple(name for name in refused if name not in refused_before(state))
    condition = None
    # A first word on all of it waits until all is read.
    if state.condition or (changes and not terms.pending):
        # A refusal to remove is over once it has been told: from then on the key is not ours.
        lasting = {name for name in refused if isinstance(readings.get(name), Quantity)}
        lasting |= refused_before(state).intersection(terms.pending)
        told = tuple(n for n in unknown if n not in terms.pending or n in unknown_before(state))
        condition = wanted_condition(state, told, sorted(lasting), terms.complete, terms.now)
    patch = patch_for(state, changes, published, condition, drop=not terms.condition)
    writes = any(c.action in ("set", "remove") for c in changes)
    if delayed := bool(patch) and not writes and terms.not_before.get(REST, 0.0) > terms.uptime:
        patch, published, newly = (), record, ()
    return Plan(
        state.name, tuple(changes), patch, published, unknown, refused, newly, since, held, tuple(undone), delayed
    )


def make_withdrawal(state: NodeState, terms: Terms) -> Plan:
    """Removes all that is recorded as ours, the record and the condition; what somebody else has written stays."""
    changes = []
    for name, recorded in read_record(state.annotation).items():
        key = _Key(name, (state.capacity or {}).get(name), recorded)
        changes.append(_change(key, _plugins(key, terms) or _forget(key, "withdrawn")))
    refused = tuple(c.name for c in changes if c.action == "refuse")
    return Plan(state.name, tuple(changes), patch_for(state, changes, {}, None, drop=True), {}, (), refused, refused)


def _decide(key: _Key, reading: Reading | None, terms: Terms, configured: bool) -> _Decision:
    owned = (
        _plugins(key, terms) if reading is None or isinstance(reading, Quantity) or key.recorded is not None else None
    )
    if owned:
        return owned
    if isinstance(reading, Quantity):
        return _publish(key, reading, terms)
    if isinstance(reading, Unknown):
        return _stand(key, reading)
    if isinstance(reading, Absent):
        return _forget(key, reading.reason)
    # No longer configured. A configuration that is damaged or empty is rather a mistake than a wish.
    if not terms.complete:
        return _Decision("keep", None, "kept: a file of the configuration can't be read, and may name it", key.recorded)
    if not configured:
        why = 'kept: no resource is configured at all; "capacityd withdraw" removes what was published'
        return _Decision("keep", None, why, key.recorded)
    return _forget(key, "no longer configured")


def _plugins(key: _Key, terms: Terms) -> _Decision | None:
    """A device plugin's name is never touched: the kubelet writes that key itself, from what the plugin tells it."""
    if terms.plugins is None or key.name not in terms.plugins:
        return None
    return _Decision("refuse", None, "a device plugin has this name; the key is the kubelet's", None)


def _publish(key: _Key, reading: Quantity, terms: Terms) -> _Decision:
    value = reading.value
    if key.stored is None:
        lost = f"lost from the Node, where {key.recorded} was published" if key.recorded is not None else "found"
        return _Decision("set", value, lost, value)
    if key.recorded is None:
        return _take_over(key, value, terms)
    if key.is_(value):
        return _Decision("keep", value, "as published", value)
    if key.is_(key.recorded):
        return _Decision("set", value, "the hardware changed", value)
    if key.is_(0):
        return _Decision("set", value, "restored: the Node's 0 is none of ours (a kubelet restart?)", value)
    return _Decision("set", value, f"put back: somebody else wrote {key.stored}", value)


def _take_over(key: _Key, value: int, terms: Terms) -> _Decision:
    """A key that is there and not ours is refused, whatever its value: a 0 may be a device plugin's that comes back."""
    if key.name not in terms.adopt:
        same = "the same value, but " if key.is_(value) else ""
        why = f"{same}not published by capacityd; adopt = true takes it over"
        return _Decision("refuse", None, why, None)
    if terms.plugins is None:
        why = "not adopted: the kubelet's list of device plugins can't be read, and this may be one's"
        return _Decision("refuse", None, why, None)
    return _Decision("keep" if key.is_(value) else "set", value, "adopted", value)


def _stand(key: _Key, reading: Unknown) -> _Decision:
    if key.recorded is None:
        return _Decision("keep", None, f"unknown: {reading.reason}", None)
    if key.stored is None or (key.is_(0) and key.recorded != 0):
        return _Decision("set", key.recorded, f"restored as last published; unknown: {reading.reason}", key.recorded)
    return _Decision("keep", None, f"stays as it is; unknown: {reading.reason}", key.recorded)


def _forget(key: _Key, reason: str) -> _Decision:
    if key.stored is None or key.recorded is None:
        return _Decision("keep", None, reason, None)
    if not key.untouched():
        why = f"{reason}, but its value is not the {key.recorded} that was published: somebody else's, so it is left"
        return _Decision("refuse", None, why, None)
    return _Decision("remove", None, reason, None)


def _lowers(key: _Key, decision: _Decision) -> bool:
    """Whether the Node would say less than it does and than we did. Taking away a 0 lowers nothing."""
    if decision.action == "remove":
        return not key.is_(0)
    if decision.action != "set" or decision.value is None or key.stored is None:
        return False
    stored = whole_quantity(key.stored)
    return (stored is None or decision.value < stored) and (key.recorded is None or decision.value < key.recorded)


def _undoes(key: _Key, terms: Terms) -> bool:
    """Whether to write it is to undo what another writer did. A kubelet that began anew is none."""
    if key.recorded is not None:
        return not key.is_(key.recorded) and not (terms.kubelet_anew and key.is_(0))
    before = terms.published.get(key.name)
    return before is not None and not key.is_(before) and not terms.kubelet_anew


def _change(key: _Key, decision: _Decision) -> Change:
    stays = decision.action in ("keep", "refuse")
    new = key.stored if stays else None if decision.value is None else str(decision.value)
    return Change(key.name, decision.action, key.stored, new, decision.reason)


def _could_be_ours(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, int) or isinstance(value, bool):
        return False
    return 0 <= value <= LARGEST and not name_problem(name)
