"""The Events of a plan, as kubectl describe shows them: one line of at most 1,024 bytes each. Pure.

Changes that do not fit are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from capacityd.model.node import Event
from capacityd.model.plan import Action, Change, Plan
from capacityd.model.quantity import plain, whole_quantity

_MAX_MESSAGE_BYTES = 1000  # the API server takes 1,024
_MAX_TEXTS = 40
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"


def events(plan: Plan) -> list[Event]:
    """The Events of a plan that has been written: at most one of each reason, for what is new since the last ones.

    Without a patch, only that something has been unknown for long can be new.
    """
    last, reported = plan.reported_before, plan.reported
    unknown = [f"{name}: {why}" for name, why in plan.health.unknown.items() if name in reported.unknown - last.unknown]
    if not plan.patch:
        return [Event("Warning", "CapacityUnknown", _joined(unknown), "Read")] if unknown else []
    changed = [change for change in plan.changes if change.action.writes]
    below = [
        f"{name}: {quantity}, expected {expected}"
        for name, (quantity, expected) in plan.health.below_expected.items()
        if name not in last.below_expected
    ]
    denied = {change.name for change in plan.changes if change.action is Action.DENY} - last.denied
    # Also errors that differ from those rejected before.
    rejected = plan.health.configuration_errors if reported.configuration != last.configuration else ()
    lowered = _LOWERED if any(map(_lowers, changed)) else ""
    candidates: tuple[tuple[str, str, Sequence[str], str], ...] = (
        ("Normal", "CapacityChanged", [change.summary for change in changed], "Publish"),
        ("Warning", "CapacityRefused", _reasons(plan, plan.newly_refused), "Refuse"),
        ("Warning", "CapacityDenied", _reasons(plan, denied), "Publish"),
        ("Warning", "CapacityBelowExpected", below, "Compare"),
        ("Normal", "CapacityAsExpected", _quantities(plan, plan.recovered), "Compare"),
        ("Warning", "ConfigurationRejected", rejected, "Configure"),
        ("Warning", "CapacityUnknown", unknown, "Read"),
        ("Normal", "CapacityKnown", _quantities(plan, last.unknown - reported.unknown), "Read"),
    )
    return [
        Event(kind, reason, _joined(texts, lowered if reason == "CapacityChanged" else ""), act)
        for kind, reason, texts, act in candidates
        if texts
    ]


def _reasons(plan: Plan, names: Collection[str]) -> list[str]:
    return [f"{change.name}: {change.reason}" for change in plan.changes if change.name in names]


def _quantities(plan: Plan, names: Collection[str]) -> list[str]:
    return [f"{change.name}: {plain(change.new)}" for change in plan.changes if change.name in names]


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
