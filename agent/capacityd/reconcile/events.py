"""The Events of a plan, as kubectl describe shows them: one line of at most 1,024 bytes each. Pure.

Changes that do not fit are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.model.node import Action, Change, Event, Plan
from capacityd.model.quantity import plain, whole_quantity

_MAX_MESSAGE_BYTES = 1000  # the API server takes 1,024
_MAX_TEXTS = 40
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"


def events(plan: Plan) -> list[Event]:
    """The Events of a plan that has been written: at most one of each reason, for what is new since the last ones.

    Without a patch, only that something has been unknown for long can be new.
    """
    before = plan.reported_before
    unknown = [
        f"{n}: {reason}" for n, reason in plan.health.unknown.items() if n in plan.reported.unknown - before.unknown
    ]
    if not plan.patch:
        return [Event("Warning", "CapacityUnknown", _joined(unknown), "Read")] if unknown else []
    known = [f"{c.name}: {plain(c.new)}" for c in plan.changes if c.name in before.unknown - plan.reported.unknown]
    changed = [c for c in plan.changes if c.action.writes]
    moves = [change.summary for change in changed]
    refused = [f"{c.name}: {c.reason}" for c in plan.changes if c.name in plan.newly_refused]
    denied = [f"{c.name}: {c.reason}" for c in plan.changes if c.action is Action.DENY and c.name not in before.denied]
    below = [
        f"{name}: {quantity}, expected {expected}"
        for name, (quantity, expected) in plan.health.below_expected.items()
        if name not in before.below_expected
    ]
    as_expected = [f"{c.name}: {plain(c.new)}" for c in plan.changes if c.name in plan.recovered]
    # Also errors that differ from those rejected before.
    rejected = plan.health.configuration_errors if plan.reported.configuration != before.configuration else ()
    found: tuple[tuple[str, str, Sequence[str], str], ...] = (
        ("Normal", "CapacityChanged", moves, "Publish"),
        ("Warning", "CapacityRefused", refused, "Refuse"),
        ("Warning", "CapacityDenied", denied, "Publish"),
        ("Warning", "CapacityBelowExpected", below, "Compare"),
        ("Normal", "CapacityAsExpected", as_expected, "Compare"),
        ("Warning", "ConfigurationRejected", rejected, "Configure"),
        ("Warning", "CapacityUnknown", unknown, "Read"),
        ("Normal", "CapacityKnown", known, "Read"),
    )
    after = {"CapacityChanged": _LOWERED} if any(map(_lowers, changed)) else {}
    return [
        Event(kind, reason, _joined(texts, after.get(reason, "")), act) for kind, reason, texts, act in found if texts
    ]


def _joined(texts: Sequence[str], after: str = "") -> str:
    """As many of the texts as fit, how many there are beside them, and what follows them."""
    for count in range(min(len(texts), _MAX_TEXTS), 0, -1):
        rest = (f"; and {len(texts) - count} more, see capacityd status" if count < len(texts) else "") + after
        message = "; ".join(texts[:count]) + rest
        if len(message.encode()) <= _MAX_MESSAGE_BYTES:
            return message
    rest = f"…{rest}"
    return texts[0].encode()[: _MAX_MESSAGE_BYTES - len(rest.encode())].decode(errors="ignore") + rest


def _lowers(change: Change) -> bool:
    """A restarted kubelet stops pods because of a lower key, but not because of one that is gone."""
    old = whole_quantity(change.old or "")
    return change.action is Action.SET and old is not None and (whole_quantity(change.new or "") or 0) < old
