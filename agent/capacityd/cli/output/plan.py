"""Prints a plan like a diff: a row for each resource with a leading sign, then a summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from capacityd.cli.output.terminal import print_line, print_table
from capacityd.model.plan import Action, Change, Plan
from capacityd.model.quantity import plain

_HEADER = ("OP", "RESOURCE", "CURRENT", "DESIRED", "UNIT", "REASON")
_SIGNS = {Action.REMOVE: "-", Action.KEEP: "=", Action.HOLD: "…", Action.REFUSE: "!", Action.DENY: "!"}


def print_plan(plan: Plan, units: Mapping[str, str], *, applied: bool = False) -> None:
    """Prints the plan. units: resource name -> unit of its quantities. applied: whether the plan has been written."""
    print_line(f"Node {plan.node}")
    print_table([_row(change, units.get(change.name, "")) for change in plan.changes], _HEADER, signs=True)
    for name, (quantity, expected) in plan.health.below_expected.items():
        print_line(f"{name}: {quantity}, expected {expected}", sign="<")
    print_line(_summary(plan, applied=applied))


def print_patch(plan: Plan) -> None:
    """Prints the JSON Patch for kubectl patch, one operation per line."""
    print("[" + ",\n ".join(json.dumps(operation) for operation in plan.write.patch) + "]")


def _row(change: Change, unit: str) -> tuple[str, ...]:
    """The row for a change. Quantities are in plain digits, although the API server returns 1000 as "1k"."""
    sign = _SIGNS.get(change.action) or ("+" if change.old is None else "~")
    old, new = ("" if quantity is None else plain(quantity) for quantity in (change.old, change.new))
    if change.action is Action.REFUSE:
        return sign, change.name, old, new, "", f"refused: {change.reason}"  # the unit of others' values is unknown
    if change.action is Action.DENY:
        return sign, change.name, old, new, unit, f"denied: {change.reason}"
    return sign, change.name, old, new, unit, change.reason


def _summary(plan: Plan, *, applied: bool) -> str:
    unknown = {c.name for c in plan.changes if c.action is Action.KEEP}.intersection(plan.health.unknown)
    count = Counter(c.action for c in plan.changes if c.name not in unknown)
    set_, removed = ("set", "removed") if applied else ("to set", "to remove")
    numbers = {
        set_: count[Action.SET],
        removed: count[Action.REMOVE],
        "held back": count[Action.HOLD],
        "refused": count[Action.REFUSE],
        "denied": count[Action.DENY],
        "unknown": len(unknown),
        "unchanged": count[Action.KEEP],
    }
    summary = ", ".join(f"{number} {result}" for result, number in numbers.items() if number) or "no resources"
    if not plan.write.patch:
        return f"{summary}; nothing to write"
    if count[Action.SET] + count[Action.REMOVE]:
        return f"{summary}; {'written' if applied else 'nothing was written'}"
    parts = {"annotations": "/metadata/annotations", "Node condition": "/status/conditions"}
    metadata = " and ".join(name for name, path in parts.items() if plan.write.changes(path))
    return f"{summary}; {f'written: {metadata}' if applied else f'{metadata} to write; nothing was written'}"
