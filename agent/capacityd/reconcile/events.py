"""The Events of a plan, as kubectl describe shows them: one line of at most 1,024 bytes each. Pure.

Changes with the same reason are grouped; those that do not fit are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capacityd.model.node import Change, Event, Plan
from capacityd.model.quantity import plain, whole_quantity

_MAX_MESSAGE_BYTES = 1000  # the API server takes 1,024
_MAX_TEXTS = 40
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"


def events(plan: Plan) -> list[Event]:
    """The Events of a plan that has been written: at most one of each reason, for what is new since the last ones."""
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
    denied = [c for c in plan.changes if c.action == "deny" and c.name not in plan.reported_before.denied]
    if denied:
        found.append(Event("Warning", "CapacityDenied", _fitted(denied, _refused, ""), "Publish"))
    return found + _expectations(plan) + _configuration(plan)


def _expectations(plan: Plan) -> list[Event]:
    """When a resource begins to be below what is expected, and when that ends."""
    below, before = plan.health.below_expected, plan.reported_before.below_expected
    begun = [f"{name}: {has}, expected {wanted}" for name, (has, wanted) in below.items() if name not in before]
    ended = [f"{c.name}: {plain(c.new)}" for c in plan.changes if c.name in plan.recovered]
    found = [Event("Warning", "CapacityBelowExpected", _joined(begun), "Compare")] if begun else []
    return [*found, Event("Normal", "CapacityAsExpected", _joined(ended), "Compare")] if ended else found


def _configuration(plan: Plan) -> list[Event]:
    """When a configuration is rejected, also one that differs from the one rejected before."""
    errors = plan.health.configuration_errors
    if not errors or plan.reported.configuration == plan.reported_before.configuration:
        return []
    return [Event("Warning", "ConfigurationRejected", _joined(errors), "Configure")]


def _joined(texts: Sequence[str]) -> str:
    """As many of the texts as fit, and how many there are beside them."""
    for count in range(min(len(texts), _MAX_TEXTS), 0, -1):
        message = "; ".join(texts[:count]) + _rest(texts, count)
        if len(message.encode()) <= _MAX_MESSAGE_BYTES:
            return message
    rest = _rest(texts, 1)
    return texts[0].encode()[: _MAX_MESSAGE_BYTES - len(f"…{rest}".encode())].decode(errors="ignore") + f"…{rest}"


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
        if len(_text(changes, middle, say, after).encode()) <= _MAX_MESSAGE_BYTES:
            fewest = middle
        else:
            most = middle - 1
    text = _text(changes, fewest, say, after)
    if len(text.encode()) <= _MAX_MESSAGE_BYTES:
        return text
    rest = _rest(changes, fewest) + after  # one reason alone is too long
    kept = say(changes[0].reason, changes[:1]).encode()[: _MAX_MESSAGE_BYTES - len(f"…{rest}".encode())]
    return f"{kept.decode(errors='ignore')}…{rest}"


def _text(changes: Sequence[Change], count: int, say: Callable[[str, Sequence[Change]], str], after: str) -> str:
    groups: dict[str, list[Change]] = {}
    for change in changes[:count]:
        groups.setdefault(change.reason, []).append(change)
    return "; ".join(say(reason, group) for reason, group in groups.items()) + _rest(changes, count) + after


def _rest(items: Sequence[object], count: int) -> str:
    return f"; and {len(items) - count} more, see capacityd status" if count < len(items) else ""
