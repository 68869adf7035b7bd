"""Makes the plan for a Node: what is to happen to each name (see decision.py), and the patch that does it. Pure.

The record is on the Node, so it is input like any other: of it only valid extended names count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capacityd.capacity import Change, NodeState, Plan
from capacityd.decision import REST, Decision, NodeKey, Terms, decide, forget, lowers, of_plugin, undoes, waits_for
from capacityd.model import Quantity, Reading, Unknown
from capacityd.patch import patch_for, refused_before, stored_record, unknown_before, wanted_condition
from capacityd.quantity import LARGEST, name_problem


def read_record(annotation: str | None) -> dict[str, int]:
    """Our record: name -> quantity. Whatever of it can't be ours is left out."""
    return {
        name: value
        for name, value in sorted(stored_record(annotation).items())
        if type(value) is int and 0 <= value <= LARGEST and not name_problem(name)
    }


def make_plan(readings: Mapping[str, Reading], state: NodeState, terms: Terms) -> Plan:
    """What to set, remove, keep, hold back and refuse on this Node, with each reason, and the patch that does it."""
    record = read_record(state.annotation)
    changes: list[Change] = []
    published: dict[str, int] = {}
    since: dict[str, float] = {}
    held: dict[str, float] = {}
    undone: list[str] = []
    for name in sorted({*readings, *record}):
        key = NodeKey(name, (state.capacity or {}).get(name), record.get(name))
        decision = decide(key, readings.get(name), terms, bool(readings))
        if decision.action in ("set", "remove"):
            undone += [name] if undoes(key, terms) else []
            until, why = max(waits_for(key, decision, terms))
            if until > terms.uptime:
                held[name] = until
                if lowers(key, decision):
                    since[name] = terms.lower_since.get(name, terms.uptime)
                why = f"{decision.reason}; held back for {until - terms.uptime:.0f} s more, {why}"
                decision = Decision("hold", decision.value, why, key.recorded)
        changes.append(_change(key, decision))
        if decision.record is not None:
            published[name] = decision.record
    refused = tuple(c.name for c in changes if c.action == "refuse")
    newly = tuple(name for name in refused if name not in refused_before(state))
    condition = _condition(readings, state, terms, changes)
    patch = patch_for(state, changes, published, condition, drop=not terms.condition)
    writes = any(c.action in ("set", "remove") for c in changes)
    if delayed := bool(patch) and not writes and terms.not_before.get(REST, 0.0) > terms.uptime:
        patch, published, newly = (), record, ()
    return Plan(
        node=state.name,
        changes=tuple(changes),
        patch=patch,
        published=published,
        unknown=_unknown(readings),
        refused=refused,
        newly_refused=newly,
        lower_since=since,
        held=held,
        undone=tuple(undone),
        delayed=delayed,
    )


def _unknown(readings: Mapping[str, Reading]) -> tuple[str, ...]:
    return tuple(name for name, reading in sorted(readings.items()) if isinstance(reading, Unknown))


def _condition(
    readings: Mapping[str, Reading], state: NodeState, terms: Terms, changes: Sequence[Change]
) -> Mapping[str, object] | None:
    """The Node condition as it shall be; None: it stays. A first word on all of it waits until all is read."""
    if not state.condition and (not changes or terms.pending):
        return None
    # A refusal to remove is over once it has been told: from then on the key is not ours.
    refused = {c.name for c in changes if c.action == "refuse"}
    lasting = {name for name in refused if isinstance(readings.get(name), Quantity)}
    lasting |= refused_before(state).intersection(terms.pending)
    told = tuple(n for n in _unknown(readings) if n not in terms.pending or n in unknown_before(state))
    return wanted_condition(state, told, sorted(lasting), terms.complete, terms.now)


def make_withdrawal(state: NodeState, terms: Terms) -> Plan:
    """Removes all that is recorded as ours, the record and the condition; what somebody else has written stays."""
    changes = []
    for name, recorded in read_record(state.annotation).items():
        key = NodeKey(name, (state.capacity or {}).get(name), recorded)
        changes.append(_change(key, of_plugin(key, terms) or forget(key, "withdrawn")))
    refused = tuple(c.name for c in changes if c.action == "refuse")
    return Plan(state.name, tuple(changes), patch_for(state, changes, {}, None, drop=True), {}, (), refused, refused)


def _change(key: NodeKey, decision: Decision) -> Change:
    stays = decision.action in ("keep", "refuse")
    new = key.stored if stays else None if decision.value is None else str(decision.value)
    return Change(key.name, decision.action, key.stored, new, decision.reason)
