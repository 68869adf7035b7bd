"""Prints a plan like a diff: a row for each key with a leading sign, then a summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from capacityd.cli.output.terminal import print_line, print_table
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Action, Change, Plan
from capacityd.node.documents.patch import patch_document, require_preconditions

_HEADER = ("OP", "RESOURCE", "STORED", "DESIRED", "UNIT", "REASON")
# Action.SET is missing, because its sign depends on whether the key is new (_sign()).
_SIGNS = {Action.REMOVE: "-", Action.KEEP: "=", Action.HOLD: "…", Action.REFUSE: "!", Action.DENY: "!"}


def print_plan(plan: Plan, units: Mapping[str, str], *, applied: bool = False) -> None:
    """Prints the plan. units: resource name -> unit of its numbers. applied: whether the plan has been written."""
    print_line(f"Node {plan.node.name}")
    print_table([_row(change, units) for change in plan.changes], _HEADER, signs=True)
    for trouble in plan.troubles:
        if trouble.reason is ConditionReason.BELOW_EXPECTED:
            print_line(f"{trouble.key}: {trouble.text}, less than expected", sign="<")
    print_line(f"{_counts(plan, applied=applied)}; {_what_is_written(plan, applied=applied)}")


def print_patch(plan: Plan) -> None:
    """Prints the patch for `kubectl patch --subresource=status`. Raises NodeError if the Node has no uid or version."""
    if plan.patch is None:
        print("{}")
        return
    require_preconditions(plan.patch)
    print(json.dumps(patch_document(plan.patch), indent=2))


def plan_as_dict(plan: Plan) -> dict[str, object]:
    """The plan for JSON output. The patch is None if there is nothing to write."""
    patch = None if plan.patch is None else patch_document(plan.patch)
    return plan.as_dict() | {"patch": patch}


def _row(change: Change, units: Mapping[str, str]) -> tuple[str, ...]:
    """The row for a change, with the columns of _HEADER. units: resource name -> unit of its numbers."""
    stored = "" if change.stored.capacity is None else change.stored.capacity
    desired = "" if change.desired is None else str(change.desired)
    unit = "" if change.key.is_label else units.get(change.key.name, "")
    reason = change.reason
    if change.action is Action.REFUSE:
        reason = f"refused: {reason}"
    elif change.action is Action.DENY:
        reason = f"denied: {reason}"
    return _sign(change), str(change.key), stored, desired, unit, reason


def _sign(change: Change) -> str:
    if change.action is Action.SET:
        return "+" if change.stored.capacity is None else "~"
    return _SIGNS[change.action]


def _counts(plan: Plan, *, applied: bool) -> str:
    """The number of keys for each action, such as "1 to set, 2 unchanged"."""
    unknown_keys = {trouble.key for trouble in plan.troubles if trouble.reason is ConditionReason.UNKNOWN}
    count = Counter(change.action for change in plan.changes)
    kept_keys = {change.key for change in plan.changes if change.action is Action.KEEP}
    numbers = {
        "set" if applied else "to set": count[Action.SET],
        "removed" if applied else "to remove": count[Action.REMOVE],
        "held back": count[Action.HOLD],
        "refused": count[Action.REFUSE],
        "denied": count[Action.DENY],
        "unknown": len(kept_keys & unknown_keys),  # kept, because the reading is unknown
        "unchanged": len(kept_keys - unknown_keys),
    }
    return ", ".join(f"{number} {what}" for what, number in numbers.items() if number) or "no resources"


def _what_is_written(plan: Plan, *, applied: bool) -> str:
    if applied:
        return "written"
    if plan.patch is None:
        return "nothing to write"
    if plan.written_changes:
        return "nothing was written"
    return "only annotations or the condition to write; nothing was written"
