"""Another capacityd that writes the same Node, for example on a cloned machine with the same credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WRITE_INTERVAL = 60.0
"""Seconds between two writes of an agent while there is another one."""

ANSWER_TIME = 10.0
"""Seconds within which an agent answers the other agent's write, once WRITE_INTERVAL seconds have passed since its own
last write."""


def other_agent_text(quantities: Mapping[str, tuple[int, int]]) -> str:
    """The text of a message that another agent writes the Node. quantities: as in OtherAgent."""
    numbers = [f"{name} ({ours} here, {theirs} there)" for name, (ours, theirs) in quantities.items()]
    return f"another capacityd writes this Node: {', '.join(numbers) or 'its condition says so'}"


@dataclass(frozen=True, slots=True)
class OtherAgent:
    """Another agent, as last seen."""

    wrote_at: float
    """When the other agent last wrote the Node, in seconds of uptime."""
    quantities: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name -> this agent's quantity, and the other's. Empty if only the condition shows that there is another agent."""
    own_write_at: float = 0.0
    """When this agent last wrote the Node, in seconds of uptime."""

    @property
    def gone_at(self) -> float:
        """When the other agent counts as gone, unless it writes again; in seconds of uptime.

        The other agent answers a write of this agent with its own numbers, or with its own message in the condition.
        """
        may_write_again_at = self.wrote_at + WRITE_INTERVAL
        answers_from = max(may_write_again_at, self.own_write_at)
        return answers_from + ANSWER_TIME
