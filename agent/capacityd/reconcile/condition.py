"""Builds the Node condition from the troubles."""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.model.node import Condition, ConditionReason, NodeState
from capacityd.model.plan import Trouble

_MAX_MESSAGE = 32_768
"""The limit of metav1.Condition in characters. The API server does not limit the conditions of a Node."""
_MAX_TEXT = 300
"""The limit for the text of one trouble in characters. Several keys may share the trouble."""


def condition_of(troubles: Sequence[Trouble], now: float) -> Condition:
    """The condition for these troubles. troubles: most urgent first. now: the time in seconds since the epoch."""
    if not troubles:
        reason, message = ConditionReason.PUBLISHED, "all configured resources are published"
    else:
        reason, message = troubles[0].reason, _message(troubles)
    status = "False" if troubles else "True"
    return Condition(status, reason.value, message, heartbeat=now)


def is_heartbeat_due(node: NodeState, now: float, heartbeat_after: float | None) -> bool:
    """Whether the condition's heartbeat is missing, too old, or in the future because a clock was wrong.

    now: the time in seconds since the epoch. heartbeat_after: the maximum age in seconds; None for no maximum.
    """
    if heartbeat_after is None or node.condition is None:
        return False
    if node.condition.heartbeat is None:
        return True
    age = now - node.condition.heartbeat
    return age < 0 or age >= heartbeat_after


def _message(troubles: Sequence[Trouble]) -> str:
    """A text for each group of troubles that differ only in their keys, in at most _MAX_MESSAGE characters."""
    groups: dict[tuple[ConditionReason, str], list[Trouble]] = {}
    for trouble in troubles:
        groups.setdefault((trouble.reason, _without_key(trouble)), []).append(trouble)
    texts = [_text(shared, group) for (_, shared), group in groups.items()]
    return _shortened("; ".join(texts), _MAX_MESSAGE)


def _text(shared: str, group: Sequence[Trouble]) -> str:
    """The text of a group of troubles. shared: what is wrong, with "…" in place of the keys' names."""
    first = group[0]
    if first.key is None:
        return _shortened(shared, _MAX_TEXT)
    names = ", ".join(str(trouble.key) for trouble in group)
    return f"{first.problem}: {names}: {_shortened(first.text if len(group) == 1 else shared, _MAX_TEXT)}"


def _without_key(trouble: Trouble) -> str:
    """The trouble's text with "…" in place of the key's name, which the API server may have quoted."""
    return trouble.text if trouble.key is None else trouble.text.replace(trouble.key.name, "…")


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
