"""What the condition and Events report of a Node: what is wrong with it, and what has been reported. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from capacityd.model.node import NodeState
from capacityd.model.plan import Action, Health, Reported
from capacityd.model.quantity import plain, whole_quantity
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.reconcile.plan_input import PlanInput
from capacityd.reconcile.step import Step, is_less

_REPORT_UNKNOWN_AFTER = 60.0
"""Seconds for which a resource is unknown before an Event reports it: at boot, a driver may only be late."""


def health_after(steps: Sequence[Step], inputs: PlanInput) -> Health:
    """What is wrong with the Node once these steps are done."""
    # A refusal to remove is over once an Event has reported it: from then on the key is not ours.
    lasting = {
        step.name: step.decision.reason
        for step in steps
        if step.decision.action is Action.REFUSE
        and (isinstance(step.reading, Quantity) or (step.decision.annotated is not None and not step.unverified))
    }
    unknown = {name: r.reason for name, r in sorted(inputs.readings.items()) if isinstance(r, Unknown)}
    return Health(
        configuration_errors=inputs.policy.configuration_errors,
        unwritable=inputs.context.unrecordable,
        unknown=unknown,
        refused=lasting,
        unverified=tuple(step.name for step in steps if step.unverified),
        denied={step.name: step.decision.reason for step in steps if step.decision.action is Action.DENY},
        below_expected={step.name: shortage for step in steps if (shortage := _below_expected(step, inputs))},
        not_allocatable={step.name: less for step in steps if (less := _not_allocatable(step, inputs))},
    )


def _below_expected(step: Step, inputs: PlanInput) -> tuple[int, int] | None:
    """(quantity, expected quantity) if the Node has less than expected. Unknown is not less."""
    expected = inputs.policy.expect.get(step.name)
    if expected is None or not isinstance(step.reading, Quantity | Absent):
        return None
    if isinstance(step.reading, Absent) and not step.reading.applies:
        return None
    if step.decision.action in (Action.REFUSE, Action.DENY):
        return None  # a reason of its own
    if step.decision.action is Action.HOLD:
        quantity = whole_quantity(step.entry.current or "") or 0
    else:
        quantity = step.reading.value if isinstance(step.reading, Quantity) else 0
    return (quantity, expected) if quantity < expected else None


def _not_allocatable(step: Step, inputs: PlanInput) -> tuple[str, str] | None:
    """(published quantity, allocatable) if it is less after this plan, or if what the last plan repaired is less again.

    So the condition is never set to True while pods can't get what is published.
    """
    published, allocatable = step.decision.annotated, step.entry.allocatable
    if published is None or step.decision.action in (Action.REFUSE, Action.DENY):
        return None  # a reason of its own
    if step.decision.action is Action.SET:
        less = step.allocatable_was_less and step.name in inputs.state.less_allocatable
    else:
        less = is_less(allocatable, published)
    return (str(published), plain(allocatable)) if less else None


def reported_before(node_state: NodeState, inputs: PlanInput) -> Reported:
    """What Events have reported. All of it is reported again on a Node that was created anew."""
    machine_record = inputs.context.machine_record
    created_anew = node_state.condition is None and inputs.policy.condition
    return Reported() if machine_record is None or created_anew else machine_record.reported


def reported_after(health: Health, last: Reported, inputs: PlanInput) -> Reported:
    """What Events have reported once those of a plan with this health are created. last: before it."""
    errors = "\n".join(health.configuration_errors)
    # What is unknown meanwhile is still below as far as Events are concerned.
    still_below = last.below_expected & inputs.policy.expect.keys() & {*health.unknown, *health.denied, *health.refused}
    return Reported(
        refused=frozenset((*health.refused, *health.unverified)),
        denied=frozenset(health.denied),
        below_expected=frozenset(health.below_expected) | still_below,
        configuration=hashlib.sha256(errors.encode("utf-8", "surrogatepass")).hexdigest()[:12] if errors else "",
        unknown=frozenset(health.unknown) & (last.unknown | long_unknown(inputs)),
    )


def long_unknown(inputs: PlanInput) -> frozenset[str]:
    """The names that have been unknown for so long that an Event reports it."""
    unknown_since = inputs.state.unknown_since if inputs.policy.reports_unknown else {}
    return frozenset(n for n, since in unknown_since.items() if inputs.context.uptime - since >= _REPORT_UNKNOWN_AFTER)
