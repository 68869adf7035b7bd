"""How a plan reads: like a diff, a line for each resource, its sign in front, and at the end what it comes to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from capacityd.capacity import Change, Plan
from capacityd.cli.terminal import Screen

if TYPE_CHECKING:
    from capacityd.cli.terminal import Cell

_SIGNS = {"remove": ("-", "gone"), "keep": ("=", "dim"), "hold": ("…", "warn"), "refuse": ("!", "bad")}


def show_plan(made: Plan, applied: bool, units: Mapping[str, str]) -> None:
    """Prints it. applied: whether it has been written. units: name -> what stands behind its quantities."""
    screen = Screen()
    screen.line((f"Node {made.node}", "strong"))
    screen.table([_row(change, made, units.get(change.name, "")) for change in made.changes], indent=2)
    screen.line(_summary(made, applied))


def show_patch(made: Plan) -> None:
    """Prints the JSON Patch, an operation to a line, as kubectl patch takes it."""
    print("[" + ",\n ".join(json.dumps(operation) for operation in made.patch) + "]")


def _row(change: Change, made: Plan, unit: str) -> tuple[Cell, ...]:
    sign, role = _SIGNS.get(change.action) or (("+", "new") if change.old is None else ("~", "changed"))
    old, new = change.old, change.new
    unit = "" if change.action == "refuse" else unit  # what others mean by theirs is not known
    there = old if new is None else new
    value = "none" if there is None else there + unit
    if old is not None and old != new and change.action != "remove":
        value = f"{old} → {'none' if new is None else new + unit}"
    reason = f"refused: {change.reason}" if change.action == "refuse" else change.reason
    doubtful = change.action in ("refuse", "hold") or change.name in made.unknown
    said = (reason, role if change.action in ("refuse", "hold") else "warn") if doubtful else (reason, "dim")
    if change.action == "keep":
        return (sign, "dim"), change.name, value, said
    return (sign, role), (change.name, role), (value, role), said


def _summary(made: Plan, applied: bool) -> str:
    unknown = {c.name for c in made.changes if c.action == "keep"}.intersection(made.unknown)
    count = Counter(c.action for c in made.changes if c.name not in unknown)
    set_, removed = ("set", "removed") if applied else ("to set", "to remove")
    parts = {
        set_: count["set"],
        removed: count["remove"],
        "held back": count["hold"],
        "refused": count["refuse"],
        "unknown": len(unknown),
        "as it is" if count["keep"] == 1 else "as they are": count["keep"],
    }
    said = ", ".join(f"{number} {what}" for what, number in parts.items() if number) or "nothing is configured"
    if not made.patch:
        return f"{said}; nothing to write"
    if applied:
        return f"{said}; written" if count["set"] + count["remove"] else f"{said}; written: {_beside(made)}"
    if count["set"] + count["remove"]:
        return f"{said}; nothing was written"
    return f"{said}; {_beside(made)} to write; nothing was written"


def _beside(made: Plan) -> str:
    """What a patch is for that sets and removes nothing."""
    paths = [str(operation["path"]) for operation in made.patch if operation["op"] != "test"]
    told = ["the record"] if any(path.startswith("/metadata/") for path in paths) else []
    told += ["the Node's condition"] if any(path.startswith("/status/conditions") for path in paths) else []
    return " and ".join(told)
