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
    long_unknown = Event("Warning", "CapacityUnknown", _joined(unknown), "Read")
    if not plan.patch:
        return [long_unknown] if unknown else []
    changed = [change for change in plan.changes if change.action.writes]
    less = [
        f"{name}: {quantity}, expected {expected}"
        for name, (quantity, expected) in plan.health.below_expected.items()
        if name not in last.below_expected
    ]
    denied = {change.name for change in plan.changes if change.action is Action.DENY} - last.denied
    # Also errors that differ from those rejected before.
    rejected = plan.health.configuration_errors if reported.configuration != last.configuration else ()
    lowered = _LOWERED if any(map(_lowers, changed)) else ""
    candidates = (
        Event("Normal", "CapacityChanged", _joined([change.summary for change in changed], lowered), "Publish"),
        Event("Warning", "CapacityRefused", _joined(_reasons(plan, plan.newly_refused)), "Refuse"),
        Event("Warning", "CapacityDenied", _joined(_reasons(plan, denied)), "Publish"),
        Event("Warning", "CapacityBelowExpected", _joined(less), "Compare"),
        Event("Normal", "CapacityAsExpected", _joined(_quantities(plan, plan.recovered)), "Compare"),
        Event("Warning", "ConfigurationRejected", _joined(rejected), "Configure"),
        long_unknown,
        Event("Normal", "CapacityKnown", _joined(_quantities(plan, last.unknown - reported.unknown)), "Read"),
    )
    return [event for event in candidates if event.message]


def _reasons(plan: Plan, names: Collection[str]) -> list[str]:
    return [f"{change.name}: {change.reason}" for change in plan.changes if change.name in names]


def _quantities(plan: Plan, names: Collection[str]) -> list[str]:
    return [f"{change.name}: {plain(change.new)}" for change in plan.changes if change.name in names]


def _joined(texts: Sequence[str], after: str = "") -> str:
    """As many of the texts as fit, how many there are beside them, and what follows them. Nothing for no texts."""
    if not texts:
        return ""
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
