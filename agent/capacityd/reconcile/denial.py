"""Records what the API server, an admission policy or a webhook denies, and when capacityd tries again."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.node import Condition, NodeState, Stored
from capacityd.model.pace import pause_seconds
from capacityd.model.plan import Change
from capacityd.model.reasons import RetryCause

THE_ANNOTATION = "annotation"
"""The name for a denied annotation in Memory.denied. No key has this name."""
THE_CONDITION = "condition"
"""The name for a denied condition in Memory.denied. No key has this name."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A number, an annotation or a condition that the API server rejects, or stores differently."""

    sent: str
    """What was denied, as text: a number, an annotation or a condition. Other content may be accepted."""
    explanation: str
    """Why it was denied, as a text for people."""
    since: float
    """The uptime of the first denial, in seconds."""
    retry_at: float
    """The uptime of the next attempt, in seconds."""

    def still_denied(self, sent: str, uptime: float) -> bool:
        """Whether the denied content was the same, and the next attempt is not due yet."""
        return self.sent == sent and self.is_paused(uptime)

    def is_paused(self, uptime: float) -> bool:
        """Whether the next attempt is not due yet."""
        return uptime < self.retry_at


def denial_after(last: Denial | None, sent: str, explanation: str, uptime: float) -> Denial:
    """The record of a new denial.

    last: the previous denial, if any. sent: what was denied, as text. explanation: why it was denied, for people.
    """
    since = uptime
    if last is not None and last.sent == sent:
        since = last.since
    retry_after = pause_seconds(RetryCause.OTHER, problem_age=uptime - since)
    return Denial(sent, explanation, since, retry_at=uptime + retry_after)


def sent_text(change: Change) -> str:
    """The number that a patch sends for a change, as text."""
    return "none" if change.desired is None else str(change.desired)


def condition_text(condition: Condition) -> str:
    """The condition without its times, as text."""
    return f"{condition.status} {condition.reason} {condition.message}"


def condition_texts(node: NodeState) -> list[str]:
    """The text of each condition of capacityd's type."""
    return [condition_text(condition) for condition in node.conditions]


def why_altered(sent: str, stored: Stored) -> str:
    """Why a number that was stored differently counts as denied. stored: what the Node stores now."""
    return f"the API server accepted {sent} but stored {stored.text}; does an admission webhook or policy change it?"
