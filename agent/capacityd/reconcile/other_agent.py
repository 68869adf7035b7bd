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
    last, known, quantities = facts.memory.node, facts.other_agent, _other_quantities(node_state, facts)
    # What the last pass left on the Node is not written anew. That may be our own write: a full disk can keep the
    # machine record from confirming it.
    if quantities and (last is None or last.annotation != node_state.annotation):
        return OtherAgent(facts.uptime, quantities)
    # Perhaps the other agent has written only the condition, which says that it has noticed this one.
    said_at = _said_at(node_state, facts)
    if said_at is None:
        return known
    if known:
        return replace(known, wrote_at=facts.uptime)
    other = OtherAgent(said_at, quantities)
    return other if facts.uptime < other.gone_at else None


def _said_at(node_state: NodeState, facts: Facts) -> float | None:
    """When another agent wrote a condition that says that there are two, in seconds of uptime; None if none did."""
    last, condition = facts.memory.node, node_state.condition
    if last is not None and condition == last.condition:
        return None  # the last pass has left it, and may have written it
    if condition is None or condition.reason != ConditionReason.OTHER_AGENT.value or condition.heartbeat is None:
        return None
    age = facts.now - condition.heartbeat
    return facts.uptime - age if age >= 0 else None


def _other_quantities(node_state: NodeState, facts: Facts) -> dict[str, tuple[int, int]]:
    """Configured name -> our quantity and another agent's.

    The annotation contains theirs, and the Node's capacity agrees with it, but this machine has published ours.
    """
    machine_record = facts.machine_record
    if machine_record is None:
        return {}
    capacity = node_state.capacity or {}
    quantities = {}
    for name, theirs in annotated_quantities(node_state.annotation).items():
        ours = machine_record.published.get(name)
        follows = whole_quantity(capacity.get(name, "")) == theirs
        if name in facts.readings and ours is not None and follows and not machine_record.confirms(name, theirs):
            quantities[name] = (ours, theirs)
    return quantities
