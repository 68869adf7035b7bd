"""Recognizes another capacityd that writes the same Node. Pure.

Agents that did not recognize each other would take the other's quantities for altered values, and restore their own. An
agent that recognizes another one writes at most once a minute, and the condition is False until one of them is gone.
"""

from __future__ import annotations

from dataclasses import replace

from capacityd.model.node import ConditionReason, NodeState, annotated_quantities
from capacityd.model.other_agent import OtherAgent
from capacityd.model.plan import Health
from capacityd.model.quantity import whole_quantity
from capacityd.reconcile.condition import desired_condition
from capacityd.reconcile.facts import Facts


def other_agent(node_state: NodeState, facts: Facts, health: Health) -> OtherAgent | None:
    """Returns another agent that has recently written this Node; None if there is none.

    health: what this agent finds wrong, without another agent.
    """
    if facts.written is not None:  # this pass has already planned: the differences may come from its own patches
        return facts.written.health.other_agent
    last_node = facts.memory.node  # as the last pass left it
    last_seen = facts.other_agent
    quantities = _other_quantities(node_state, facts)
    # Only an annotation that has changed since the last pass shows a new write. An unchanged one may even be this
    # agent's write, without an entry in the machine record because the disk was full.
    is_new = last_node is None or last_node.annotation != node_state.annotation
    if quantities and is_new:
        return OtherAgent(wrote_at=facts.uptime, quantities=quantities)
    # Perhaps the other agent has written only the condition.
    condition_written_at = _condition_written_at(node_state, facts, health)
    if condition_written_at is None:
        return last_seen
    if last_seen:  # it has written again: just now, because the clock by which it dates its condition may be wrong
        return replace(last_seen, wrote_at=facts.uptime)
    other = OtherAgent(wrote_at=condition_written_at, quantities=quantities)
    return other if facts.uptime < other.gone_at else None


def _condition_written_at(node_state: NodeState, facts: Facts, health: Health) -> float | None:
    """When another agent wrote a condition that says that there are two agents, or that contradicts this agent, in
    seconds of uptime; None if no agent did. health: as for other_agent()."""
    last_node = facts.memory.node
    condition = node_state.condition
    if last_node is not None and condition == last_node.condition:
        return None  # the last pass has left this condition, and may have written it
    if condition is None or condition.heartbeat is None:
        return None
    says_two_agents = condition.reason == ConditionReason.OTHER_AGENT.value
    contradicts_again = facts.was_contradicted and is_contradicted(node_state, facts, health)
    is_of_other_agent = says_two_agents or contradicts_again
    if not is_of_other_agent:
        return None
    if last_node is not None:
        return facts.uptime  # the condition has been written since the last pass
    age = facts.now - condition.heartbeat
    is_in_future = age < 0  # a clock is wrong
    return None if is_in_future else facts.uptime - age


def is_contradicted(node_state: NodeState, facts: Facts, health: Health) -> bool:
    """Whether a condition that the last pass has not left says something else than this agent would say now.

    Only capacityd writes one of its own reasons with a newer heartbeat: a restored cluster has an older heartbeat. A
    single contradiction proves no other agent, because a command on this machine may have written the condition.
    health: as for other_agent().
    """
    if facts.written is not None:  # as in other_agent()
        return facts.written.is_contradicted
    condition, last_node = node_state.condition, facts.memory.node
    if facts.memory.has_failed:  # the last pass may have written this condition
        return False
    if last_node is None or last_node.condition is None:
        return False
    if condition is None or condition == last_node.condition:
        return False
    last_heartbeat = last_node.condition.heartbeat
    if condition.heartbeat is None or last_heartbeat is None or condition.heartbeat < last_heartbeat:
        return False
    # A heartbeat has whole seconds. Once this agent was contradicted, the next answer may come within the same second.
    if condition.heartbeat == last_heartbeat and not facts.was_contradicted:
        return False
    has_our_reason = condition.reason in {reason.value for reason in ConditionReason}
    is_as_desired = desired_condition(node_state, health, now=facts.now, heartbeat_after=None) is None
    return has_our_reason and not is_as_desired


def _other_quantities(node_state: NodeState, facts: Facts) -> dict[str, tuple[int, int]]:
    """Configured resource -> the quantity that this agent has published, and the one that another agent has.

    The annotation and the Node's capacity contain the other agent's quantity.
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
        is_recorded = machine_record.confirms(name, theirs)  # then this machine wrote it
        if is_in_capacity and not is_recorded:
            quantities[name] = (ours, theirs)
    return quantities
