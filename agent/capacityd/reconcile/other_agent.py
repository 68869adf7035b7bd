"""Recognizes another capacityd that writes the same Node. Pure.

Without this, each agent would take the other's quantities for altered values, and restore its own. With it, each writes
at most once a minute, and the condition is False until one of them is gone.
"""

from __future__ import annotations

from dataclasses import replace

from capacityd.model.node import ConditionReason, NodeState, annotated_quantities
from capacityd.model.other_agent import OtherAgent
from capacityd.model.quantity import whole_quantity
from capacityd.reconcile.facts import Facts


def other_agent(node_state: NodeState, facts: Facts) -> OtherAgent | None:
    """Returns another agent that has recently written this Node; None if there is none."""
    last = facts.memory.node  # as the last pass left the Node
    known = facts.other_agent
    quantities = _other_quantities(node_state, facts)
    # An annotation that the last pass left is not written anew. It may even be our own write: a full disk can keep the
    # machine record from confirming it.
    is_new = last is None or last.annotation != node_state.annotation
    if quantities and is_new:
        return OtherAgent(wrote_at=facts.uptime, quantities=quantities)
    # Perhaps the other agent has written only the condition, which says that it has noticed this one.
    condition_written_at = _condition_written_at(node_state, facts)
    if condition_written_at is None:
        return known
    if known:
        return replace(known, wrote_at=facts.uptime)
    other = OtherAgent(wrote_at=condition_written_at, quantities=quantities)
    return other if facts.uptime < other.gone_at else None


def _condition_written_at(node_state: NodeState, facts: Facts) -> float | None:
    """When another agent wrote a condition that says that there are two, in seconds of uptime; None if none did."""
    last = facts.memory.node
    condition = node_state.condition
    if last is not None and condition == last.condition:
        return None  # the last pass has left this condition, and may have written it
    if condition is None or condition.reason != ConditionReason.OTHER_AGENT.value or condition.heartbeat is None:
        return None
    age = facts.now - condition.heartbeat
    is_in_future = age < 0  # a clock is wrong
    return None if is_in_future else facts.uptime - age


def _other_quantities(node_state: NodeState, facts: Facts) -> dict[str, tuple[int, int]]:
    """Configured name -> our quantity and another agent's.

    The annotation contains the other agent's quantity, and the Node's capacity agrees with it, but this machine has
    published ours.
    """
    machine_record = facts.machine_record
    if machine_record is None:
        return {}
    capacity = node_state.capacity or {}
    quantities = {}
    for name, theirs in annotated_quantities(node_state.annotation).items():
        ours = machine_record.published.get(name)
        if ours is None or name not in facts.readings:
            continue
        is_in_capacity = whole_quantity(capacity.get(name, "")) == theirs
        may_be_ours = machine_record.confirms(name, theirs)
        if is_in_capacity and not may_be_ours:
            quantities[name] = (ours, theirs)
    return quantities
