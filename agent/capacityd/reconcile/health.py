"""What is wrong with the Node after the steps of a plan: the condition reports it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capacityd.model.node import NodeState
from capacityd.model.plan import Action, Health
from capacityd.model.quantity import plain, whole_quantity
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.other_agent import other_agent
from capacityd.reconcile.step import Step, is_less


def health_after(node_state: NodeState, steps: Sequence[Step], facts: Facts) -> Health:
    """What will be wrong with the Node after these steps, and what already is wrong with this machine."""
    refused = {step.name: step.reason for step in steps if step.action is Action.REFUSE and _refusal_counts(step)}
    unknown = {name: reading.reason for name, reading in facts.readings.items() if isinstance(reading, Unknown)}
    below_expected = {step.name: shortage for step in steps if (shortage := _below_expected(step, facts))}
    not_allocatable = {step.name: reduction for step in steps if (reduction := _not_allocatable(step, facts))}
    health = Health(
        configuration_errors=facts.configuration_errors,
        unsaved=facts.unsaved,
        unknown=dict(sorted(unknown.items())),
        refused=refused,
        unverified=tuple(step.name for step in steps if step.unverified),
        denied={step.name: step.reason for step in steps if step.action is Action.DENY},
        not_configured=tuple(step.name for step in steps if _is_not_configured(step, facts)),
        below_expected=below_expected,
        not_allocatable=not_allocatable,
    )
    return replace(health, other_agent=other_agent(node_state, facts, health))


def _refusal_counts(step: Step) -> bool:
    """Whether a refused key is a problem: it should have a quantity, or stays in the annotation.

    A key that stays only because the machine record does not confirm it counts as unverified instead.
    """
    should_be_published = isinstance(step.reading, Quantity)
    stays_annotated = step.annotated is not None and not step.unverified
    return should_be_published or stays_annotated


def _is_not_configured(step: Step, facts: Facts) -> bool:
    """Whether a published key stays on the Node although nothing configures it."""
    is_configured = step.reading is not None
    if is_configured or not facts.config.complete:  # the condition reports an incomplete configuration
        return False
    # Without a reading, Action.SET changes no capacity: it restores the key's allocatable.
    stays_published = step.action in (Action.KEEP, Action.SET) and step.annotated is not None
    is_on_node = step.entry.current is not None
    return stays_published and is_on_node


def _below_expected(step: Step, facts: Facts) -> tuple[int, int] | None:
    """(quantity, expected quantity) if the Node has less than expected. An unknown resource does not count as less."""
    expected = facts.config.expectations().get(step.name)
    if expected is None or not isinstance(step.reading, Quantity | Absent):
        return None
    if isinstance(step.reading, Absent) and not step.reading.applies:
        return None  # `when` excludes this machine
    if step.action in (Action.REFUSE, Action.DENY):
        return None  # the condition reports this with another reason
    if step.action is Action.HOLD:  # the quantity on the Node stays for now
        quantity = whole_quantity(step.entry.current or "") or 0
    else:
        quantity = step.reading.value if isinstance(step.reading, Quantity) else 0
    return (quantity, expected) if quantity < expected else None


def _not_allocatable(step: Step, facts: Facts) -> tuple[str, str] | None:
    """(published quantity, allocatable) if allocatable is less after this plan, or if a recent repair did not last.

    So the condition is never set to True while less is allocatable than what is published.
    """
    published, allocatable = step.annotated, step.entry.allocatable
    if published is None or step.entry.is_label:
        return None
    if step.action in (Action.REFUSE, Action.DENY):
        return None  # the condition reports this with another reason
    recent = facts.memory.less_allocatable.get(step.name)
    if recent and recent.over_at <= facts.uptime:  # the last repair has lasted
        recent = None
    if step.action is Action.SET:  # this plan repairs allocatable
        # If allocatable is less again soon after an earlier repair, this repair may not last either.
        is_problem = recent is not None and recent.was_repaired and step.allocatable_was_less
    else:
        is_problem = is_less(allocatable, published)
    if is_problem:
        return str(published), plain(allocatable)
    if recent and recent.repeated:
        return str(published), recent.quantity
    return None
