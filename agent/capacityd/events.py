"""What the Node's Events say of a plan, as a person reads it in kubectl describe: one line of at most 1,024 bytes.

Pure. Changes for the same reason stand together, and what does not fit is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capacityd.capacity import Change, Event, Plan
from capacityd.quantity import plain, whole_quantity

_MOST = 1000  # bytes of a message; the API server takes 1,024
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"


def events(plan: Plan) -> list[Event]:
    """What is to be told: each write that changed a quantity, and each new refusal."""
    if not plan.patch:
        return []
    found = []
    changed = [c for c in plan.changes if c.action in ("set", "remove")]
    if changed:
        after = _LOWERED if any(map(_lowers, changed)) else ""
        found.append(Event("Normal", "CapacityChanged", _fitted(changed, _moved, after), "Publish"))
    refused = [c for c in plan.changes if c.name in plan.newly_refused]
    if refused:
        found.append(Event("Warning", "CapacityRefused", _fitted(refused, _refused, ""), "Refuse"))
    return found


def _moved(reason: str, changes: Sequence[Change]) -> str:
    if len(changes) == 1:
        (change,) = changes
        return f"{change.name}: {plain(change.old)} → {plain(change.new)} ({reason})"
    moves = ", ".join(f"{c.name} {plain(c.old)} → {plain(c.new)}" for c in changes)
    return f"{len(changes)} resources ({reason}): {moves}"


def _refused(reason: str, changes: Sequence[Change]) -> str:
    return f"{', '.join(c.name for c in changes)}: {reason}"


def _lowers(change: Change) -> bool:
    """A key that is gone is not asked for by the kubelet any more; one that is lower is."""
    old = whole_quantity(change.old or "")
    return change.action == "set" and old is not None and (whole_quantity(change.new or "") or 0) < old


def _fitted(changes: Sequence[Change], say: Callable[[str, Sequence[Change]], str], after: str) -> str:
    """All of them if there is room, else as many as fit and how many there are beside them."""
    fewest, most = 1, len(changes)
    while fewest < most:  # the largest number that fits: a longer text never gets shorter by one more
        middle = (fewest + most + 1) // 2
        if len(_text(changes, middle, say, after).encode()) <= _MOST:
            fewest = middle
        else:
            most = middle - 1
    text = _text(changes, fewest, say, after)
    if len(text.encode()) <= _MOST:
        return text
    rest = _rest(changes, fewest) + after  # one reason alone is too long
    kept = say(changes[0].reason, changes[:1]).encode()[: _MOST - len(f"…{rest}".encode())]
    return f"{kept.decode(errors='ignore')}…{rest}"


def _text(changes: Sequence[Change], count: int, say: Callable[[str, Sequence[Change]], str], after: str) -> str:
    groups: dict[str, list[Change]] = {}
    for change in changes[:count]:
        groups.setdefault(change.reason, []).append(change)
    return "; ".join(say(reason, group) for reason, group in groups.items()) + _rest(changes, count) + after


def _rest(changes: Sequence[Change], count: int) -> str:
    return f"; and {len(changes) - count} more, see capacityd status" if count < len(changes) else ""
