"""Computes what the condition and Events report: what is wrong with the Node, and what was already reported. Pure.

`kubectl describe` shows an Event as one line of at most 1,024 bytes. The text counts the changes that do not fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from capacityd.model.node import Event, NodeState
from capacityd.model.plan import Action, Change, Health, Plan, Reported
from capacityd.model.quantity import plain, whole_quantity
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.step import Step, is_less

_REPORT_UNKNOWN_AFTER = 60.0
"""Seconds for which a resource must be unknown before an Event reports it: at boot, a driver may only be late."""

_MAX_MESSAGE_BYTES = 1000  # the API server takes 1,024
_MAX_TEXTS = 40
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"


def health_after(steps: Sequence[Step], facts: Facts) -> Health:
    """What will be wrong with the Node after these steps."""
    # A refused removal counts until an Event has reported it. After the Event, capacityd no longer owns the key.
    lasting = {
        step.name: step.decision.reason
        for step in steps
        if step.decision.action is Action.REFUSE
        and (isinstance(step.reading, Quantity) or (step.decision.annotated is not None and not step.unverified))
    }
    unknown = {name: r.reason for name, r in sorted(facts.readings.items()) if isinstance(r, Unknown)}
    return Health(
        configuration_errors=facts.policy.configuration_errors,
        unwritable=facts.context.unrecordable,
        unknown=unknown,
        refused=lasting,
        unverified=tuple(step.name for step in steps if step.unverified),
        denied={step.name: step.decision.reason for step in steps if step.decision.action is Action.DENY},
        below_expected={step.name: shortage for step in steps if (shortage := _below_expected(step, facts))},
        not_allocatable={step.name: less for step in steps if (less := _not_allocatable(step, facts))},
    )


def _below_expected(step: Step, facts: Facts) -> tuple[int, int] | None:
    """(quantity, expected quantity) if the Node has less than expected. An unknown resource does not count as less."""
    expected = facts.policy.expect.get(step.name)
    if expected is None or not isinstance(step.reading, Quantity | Absent):
        return None
    if isinstance(step.reading, Absent) and not step.reading.applies:
        return None
    if step.decision.action in (Action.REFUSE, Action.DENY):
        return None  # the condition reports this with another reason
    if step.decision.action is Action.HOLD:
        quantity = whole_quantity(step.entry.current or "") or 0
    else:
        quantity = step.reading.value if isinstance(step.reading, Quantity) else 0
    return (quantity, expected) if quantity < expected else None


def _not_allocatable(step: Step, facts: Facts) -> tuple[str, str] | None:
    """(published quantity, allocatable) if allocatable is less after this plan, or less again after the last plan's
    repair.

    So the condition is never set to True while less is allocatable than what is published.
    """
    published, allocatable = step.decision.annotated, step.entry.allocatable
    if published is None or step.decision.action in (Action.REFUSE, Action.DENY):
        return None  # the condition reports this with another reason
    if step.decision.action is Action.SET:
        less = step.allocatable_was_less and step.name in facts.memory.less_allocatable
    else:
        less = is_less(allocatable, published)
    return (str(published), plain(allocatable)) if less else None


def reported_before(node_state: NodeState, facts: Facts) -> Reported:
    """What Events have already reported. A Node that was deleted and created again starts with nothing reported."""
    machine_record = facts.context.machine_record
    created_anew = node_state.condition is None and facts.policy.condition
    return Reported() if machine_record is None or created_anew else machine_record.reported


def reported_after(health: Health, last: Reported, facts: Facts) -> Reported:
    """What Events have reported once the Events of a plan with this health exist. last: what they reported before."""
    errors = "\n".join(health.configuration_errors)
    # For Events, a resource that becomes unknown, denied or refused is still below the expected quantity.
    still_below = last.below_expected & facts.policy.expect.keys() & {*health.unknown, *health.denied, *health.refused}
    return Reported(
        refused=frozenset((*health.refused, *health.unverified)),
        denied=frozenset(health.denied),
        below_expected=frozenset(health.below_expected) | still_below,
        configuration=hashlib.sha256(errors.encode("utf-8", "surrogatepass")).hexdigest()[:12] if errors else "",
        unknown=frozenset(health.unknown) & (last.unknown | long_unknown(facts)),
    )


def long_unknown(facts: Facts) -> frozenset[str]:
    """The names that have been unknown long enough for an Event."""
    recordable = facts.policy.reports_unknown and facts.keeps_record  # otherwise, the Event would be repeated
    unknown_since = facts.memory.unknown_since if recordable else {}
    return frozenset(n for n, since in unknown_since.items() if facts.context.uptime - since >= _REPORT_UNKNOWN_AFTER)


def events(plan: Plan, *, applied: bool) -> list[Event]:
    """The Events for a plan that has been carried out: at most one for each reason, for what the last ones did not
    report.

    applied: whether the Node was written. If not, the only possible news is that a resource has been unknown for long.
    """
    last, reported = plan.reported_before, plan.write.reported
    unknown = [f"{name}: {why}" for name, why in plan.health.unknown.items() if name in reported.unknown - last.unknown]
    long_unknown = Event("Warning", "CapacityUnknown", _joined(unknown), "Read")
    if not applied:
        return [long_unknown] if unknown else []
    changed = [change for change in plan.changes if change.action.writes]
    less = [
        f"{name}: {quantity}, expected {expected}"
        for name, (quantity, expected) in plan.health.below_expected.items()
        if name not in last.below_expected
    ]
    denied = {change.name for change in plan.changes if change.action is Action.DENY} - last.denied
    # This includes errors that differ from the previously rejected ones.
    rejected = plan.health.configuration_errors if reported.configuration != last.configuration else ()
    lowered = _LOWERED if any(map(_lowers, changed)) else ""
    candidates = (
        Event("Normal", "CapacityChanged", _joined([change.summary for change in changed], lowered), "Publish"),
        Event("Warning", "CapacityRefused", _joined(_reasons(plan, plan.newly_refused)), "Refuse"),
        Event("Warning", "CapacityDenied", _joined(_reasons(plan, denied)), "Publish"),
        Event("Warning", "CapacityBelowExpected", _joined(less), "Compare"),
        Event("Normal", "CapacityAsExpected", _joined(_quantities(plan, plan.write.recovered)), "Compare"),
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
    """Joins as many texts as fit, the number of texts left out, and the text after them. Returns "" for no texts."""
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
    """Whether the change can stop pods at a kubelet's restart: a lower key can, a removed key can't."""
    old = whole_quantity(change.old or "")
    return change.action is Action.SET and old is not None and (whole_quantity(change.new or "") or 0) < old
