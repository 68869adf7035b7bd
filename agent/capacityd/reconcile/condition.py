"""The Node condition: one reason and one message, from what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.model.node import Condition, ConditionReason, NodeState
from capacityd.model.plan import Trouble

_MAX_MESSAGE = 32_768
"""Maximum length of the message in characters: metav1.Condition's limit. The API server sets no limit for Nodes."""
_MAX_TEXTS = (300, 150, 60, 0)
"""Maximum lengths of the text that says what is wrong with a key, in characters. The first length with which the whole
message fits is used. If the message fits with none of them, the message is cut."""


def condition_of(troubles: Sequence[Trouble], now: float) -> Condition:
    """The condition for these troubles, most urgent first. now: for the heartbeat, in seconds since the epoch."""
    if not troubles:
        reason, message = ConditionReason.PUBLISHED, "all configured resources are published"
    else:
        reason, message = troubles[0].reason, _message(troubles)
    status = "False" if troubles else "True"
    return Condition(status, reason.value, message, heartbeat=now)


def is_heartbeat_due(node: NodeState, now: float, heartbeat_after: float | None) -> bool:
    """Whether the condition's heartbeat is missing, older than heartbeat_after seconds, or in the future because a
    clock was wrong. heartbeat_after: None: it is not refreshed. now: in seconds since the epoch."""
    if heartbeat_after is None or node.condition is None:
        return False
    if node.condition.heartbeat is None:
        return True
    age = now - node.condition.heartbeat
    return age < 0 or age >= heartbeat_after


def _message(troubles: Sequence[Trouble]) -> str:
    """The texts of all troubles, as long as they fit."""
    messages = ["; ".join(_texts(troubles, max_text)) for max_text in _MAX_TEXTS]
    fitting = [message for message in messages if len(message) <= _MAX_MESSAGE]
    return fitting[0] if fitting else _shortened(messages[-1], _MAX_MESSAGE)


def _texts(troubles: Sequence[Trouble], max_text: int) -> list[str]:
    """A text for each group of troubles that differ only in their keys. max_text: one of _MAX_TEXTS."""
    groups: dict[tuple[ConditionReason, str], list[Trouble]] = {}
    for trouble in troubles:
        groups.setdefault((trouble.reason, _without_key(trouble)), []).append(trouble)
    return [_text(shared, group, max_text) for (_, shared), group in groups.items()]


def _text(shared: str, group: Sequence[Trouble], max_text: int) -> str:
    """The text of a group of troubles. shared: what is wrong, without the keys' names."""
    first = group[0]
    if first.key is None:
        return _shortened(shared, _MAX_TEXTS[0])
    names = ", ".join(str(trouble.key) for trouble in group)
    why = _shortened(first.text if len(group) == 1 else shared, max_text)
    return f"{first.problem}: {names}: {why}" if why else f"{first.problem}: {names}"


def _without_key(trouble: Trouble) -> str:
    """The text without the key's name, which the API server may quote."""
    return trouble.text if trouble.key is None else trouble.text.replace(trouble.key.name, "…")


def _shortened(text: str, limit: int) -> str:
    """The text, cut to limit characters."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 1]}…" if limit else ""
