"""Recognizes another capacityd that writes the same Node. Pure.

Without this, each agent would take the other's quantities for altered values, and restore its own. With it, each writes
at most once a minute, and the condition is False until one of them is gone.
"""

from __future__ import annotations

from capacityd.model.node import ConditionReason, NodeState, annotated_quantities
from capacityd.model.other_agent import OtherAgent
from capacityd.model.quantity import whole_quantity
from capacityd.reconcile.facts import Facts


def other_agent(node_state: NodeState, facts: Facts) -> OtherAgent | None:
    """Returns another agent that has recently written this Node; None if there is none."""
    if quantities := _other_quantities(node_state, facts):
        last = facts.memory.node
        # What the last pass left on the Node is not written anew. That may be our own write: a full disk can keep the
        # machine record from confirming it.
        is_old = last is not None and last.annotation == node_state.annotation
        return facts.other_agent if is_old else OtherAgent(facts.uptime, quantities)
    if facts.other_agent:
        return facts.other_agent
    # Perhaps only the other agent has noticed this one, and has said so in the condition.
    condition = node_state.condition
    before = facts.memory.node
    if before is not None and condition == before.condition:
        return None  # the last pass has left it, and may have written it
    if condition is None or condition.reason != ConditionReason.OTHER_AGENT.value or condition.heartbeat is None:
        return None
    age = facts.now - condition.heartbeat
    other = OtherAgent(facts.uptime - age)
    return other if age >= 0 and facts.uptime < other.gone_at else None


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
