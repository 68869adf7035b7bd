"""Builds the Node condition from the troubles."""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.model.node import Condition, ConditionReason, NodeState
from capacityd.model.plan import Trouble

_MAX_MESSAGE = 32_768
"""The most characters that metav1.Condition allows. The API server does not check the conditions of a Node."""
_MAX_TEXT = 300
"""The most characters for the text of a group of troubles that differ only in their keys."""


def condition_of(troubles: Sequence[Trouble], now: float) -> Condition:
    """The condition for these troubles. troubles: most urgent first. now: the time in seconds since the epoch."""
    if not troubles:
        message = "all configured resources are published"
        return Condition("True", ConditionReason.PUBLISHED.value, message, heartbeat=now)
    return Condition("False", troubles[0].reason.value, _message(troubles), heartbeat=now)


def condition_subject(troubles: Sequence[Trouble]) -> tuple[str, ...]:
    """The condition's reason, and the keys in trouble. If these change, the pass creates an Event."""
    if not troubles:
        return (ConditionReason.PUBLISHED.value,)
    keys = [str(trouble.key) for trouble in troubles if trouble.key]
    return (troubles[0].reason.value, *keys)


def is_heartbeat_due(node: NodeState, now: float, heartbeat_after: float | None) -> bool:
    """Whether the condition's heartbeat is missing, too old, or in the future because a clock was wrong.

    now: the time in seconds since the epoch. heartbeat_after: the maximum age in seconds; None: no heartbeat is due.
    """
    if heartbeat_after is None or node.condition is None:
        return False
    if node.condition.heartbeat is None:
        return True
    age = now - node.condition.heartbeat
    return age < 0 or age >= heartbeat_after


def _message(troubles: Sequence[Trouble]) -> str:
    """The texts of all groups of troubles that differ only in their keys, in at most _MAX_MESSAGE characters."""
    groups: dict[tuple[ConditionReason, str], list[Trouble]] = {}
    for trouble in troubles:
        shared_text = _without_key(trouble)
        groups.setdefault((trouble.reason, shared_text), []).append(trouble)
    texts = [_group_text(group, shared_text) for (_reason, shared_text), group in groups.items()]
    return _shortened("; ".join(texts), _MAX_MESSAGE)


def _group_text(group: Sequence[Trouble], shared_text: str) -> str:
    """The text of a group of troubles. shared_text: what is wrong, with "…" in place of the key's name."""
    example = group[0]
    text = example.text if len(group) == 1 else shared_text
    shortened = _shortened(text, _MAX_TEXT)
    if example.key is None:
        return shortened
    keys = ", ".join(str(trouble.key) for trouble in group)
    return f"{example.problem}: {keys}: {shortened}"


def _without_key(trouble: Trouble) -> str:
    """The trouble's text with "…" in place of the key's name, which the API server may have quoted."""
    return trouble.text if trouble.key is None else trouble.text.replace(trouble.key.name, "…")


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
