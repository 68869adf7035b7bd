"""Prints a plan like a diff: a row for each resource with a leading sign, then a summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from capacityd.cli.output.terminal import print_line, print_table
from capacityd.model.plan import Action, Change, Plan
from capacityd.model.quantity import plain

_HEADER = ("OP", "RESOURCE", "CURRENT", "DESIRED", "UNIT", "REASON")
# As in SIGNS of cli/help.py. Action.SET has two signs: see _sign().
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
    current = "" if change.old is None else plain(change.old)
    desired = "" if change.new is None else plain(change.new)
    reason = change.reason
    if change.action is Action.REFUSE:
        reason = f"refused: {reason}"
        unit = ""  # the unit of another writer's value is unknown
    elif change.action is Action.DENY:
        reason = f"denied: {reason}"
    return _sign(change), change.name, current, desired, unit, reason


def _sign(change: Change) -> str:
    if change.action is Action.SET:
        return "+" if change.old is None else "~"
    return _SIGNS[change.action]


def _summary(plan: Plan, *, applied: bool) -> str:
    """The last line: the number of changes of each kind, and what is written."""
    kept = {change.name for change in plan.changes if change.action is Action.KEEP}
    unknown = kept.intersection(plan.health.unknown)  # counted as unknown instead of unchanged
    count = Counter(change.action for change in plan.changes if change.name not in unknown)
    numbers = {
        "set" if applied else "to set": count[Action.SET],
        "removed" if applied else "to remove": count[Action.REMOVE],
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
    # The patch changes no quantity, so the summary says what the patch does change.
    parts = []
    if plan.write.changes("/metadata/annotations"):
        parts.append("annotations")
    if plan.write.changes("/status/conditions"):
        parts.append("Node condition")
    if applied:
        return f"{summary}; written: {' and '.join(parts)}"
    return f"{summary}; {' and '.join(parts)} to write; nothing was written"
