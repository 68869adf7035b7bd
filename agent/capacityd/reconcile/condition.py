"""The Node condition: one reason and one message, which say why the condition is not True. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from capacityd.model.node import CONDITION, ConditionReason, NodeState
from capacityd.model.plan import UNSAVED, Health

_MAX_MESSAGE = 32_768
"""Maximum length of the message in characters: metav1.Condition's limit. The API server sets no limit for Nodes."""
_MAX_REASON_LENGTHS = (300, 150, 60, 0)
"""Maximum lengths of the text that says why one resource is refused, denied or unknown, in characters. The first length
with which the whole message fits is used. If the message fits with none of them, the message is cut."""

_OTHER_AGENT = "another capacityd, on another machine or in a container, also writes this Node"
"""Contains no quantities: both agents write this message, and each would replace it by one with its own quantities."""


@dataclass(frozen=True, slots=True)
class DesiredCondition:
    """The condition that a patch is to write."""

    reason: ConditionReason
    message: str
    heartbeat: float
    """lastHeartbeatTime, in seconds since the epoch."""
    transition: str = ""
    """lastTransitionTime as the Node stores it; "" to use the heartbeat's time."""

    @property
    def is_true(self) -> bool:
        """Whether nothing is wrong, so that the condition's status is True."""
        return self.reason is ConditionReason.PUBLISHED

    @property
    def status(self) -> str:
        """The status of a Node's condition."""
        return "True" if self.is_true else "False"

    def to_json(self) -> Mapping[str, object]:
        """Returns the condition as an entry of a Node's status.conditions."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.heartbeat))
        return {
            "type": CONDITION,
            "status": self.status,
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": self.transition or stamp,
            "reason": self.reason.value,
            "message": self.message,
        }


def desired_condition(
    node_state: NodeState, health: Health, now: float, heartbeat_after: float | None
) -> DesiredCondition | None:
    """The desired condition at the time now (seconds since the epoch); None if the Node already has this condition.

    heartbeat_after: the age in seconds at which an unchanged condition is written again. None: never.
    """
    reason, message = _reason_and_message(health)
    return changed_condition(node_state, reason, message, now=now, heartbeat_after=heartbeat_after)


def changed_condition(
    node_state: NodeState, reason: ConditionReason, message: str, now: float, heartbeat_after: float | None = None
) -> DesiredCondition | None:
    """The condition with this reason and message; None if the Node already has it. now, heartbeat_after: as for
    desired_condition()."""
    desired = DesiredCondition(reason, _shortened(message, _MAX_MESSAGE), heartbeat=now)
    current = node_state.condition
    if current is None or current.status != desired.status:
        return desired
    is_same = current.reason == desired.reason.value and current.message == desired.message
    if is_same and not _needs_refresh(current.heartbeat, now=now, heartbeat_after=heartbeat_after):
        return None
    return replace(desired, transition=current.transition)  # lastTransitionTime changes only with the status


def _reason_and_message(health: Health) -> tuple[ConditionReason, str]:
    """The most urgent reason, and the messages of all reasons that apply."""
    messages = _messages(health, _MAX_REASON_LENGTHS[0])
    if not messages:
        return ConditionReason.PUBLISHED, "all configured resources are published"
    most_urgent = next(iter(messages))
    texts = ["; ".join(_messages(health, max_reason).values()) for max_reason in _MAX_REASON_LENGTHS]
    fitting = [text for text in texts if len(text) <= _MAX_MESSAGE]
    return most_urgent, fitting[0] if fitting else texts[-1]


def _messages(health: Health, max_reason: int) -> dict[ConditionReason, str]:
    """The message for each reason that applies, most urgent first. max_reason: one of _MAX_REASON_LENGTHS."""
    refused = _with_reasons("refused", health.refused, max_reason)
    unverified = _list("not published by this machine", health.unverified)
    below = [f"{name} is {quantity} of {expected}" for name, (quantity, expected) in health.below_expected.items()]
    not_allocatable = [
        f"{name} is {allocatable} of {published}" for name, (published, allocatable) in health.not_allocatable.items()
    ]
    messages = {  # "": the reason does not apply
        ConditionReason.OTHER_AGENT: _OTHER_AGENT if health.other_agent else "",
        ConditionReason.CONFIGURATION_REJECTED: _configuration(health.configuration_errors),
        ConditionReason.STATE_NOT_WRITABLE: f"{UNSAVED}: {health.unsaved}" if health.unsaved else "",
        ConditionReason.UNKNOWN: _with_reasons("unknown", health.unknown, max_reason),
        ConditionReason.REFUSED: "; ".join(text for text in (refused, unverified) if text),
        ConditionReason.DENIED: _with_reasons("denied", health.denied, max_reason),
        ConditionReason.NOT_CONFIGURED: _list("kept, although no resource is configured", health.not_configured),
        ConditionReason.BELOW_EXPECTED: _list("below expected", below),
        ConditionReason.NOT_ALLOCATABLE: _list("not allocatable", not_allocatable),
    }
    by_urgency = [reason for reason in ConditionReason if reason in messages]
    return {reason: messages[reason] for reason in by_urgency if messages[reason]}


def _list(problem: str, items: Sequence[str]) -> str:
    return f"{problem}: {', '.join(items)}" if items else ""


def _configuration(errors: tuple[str, ...]) -> str:
    if not errors:
        return ""
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"the configuration has errors: {errors[0]}{more} (capacityd config check)"


def _with_reasons(problem: str, reasons: Mapping[str, str], max_reason: int) -> str:
    """Lists the resources with this problem, and why. Resources whose reasons differ only in their own names share one
    text. reasons: name of the resource -> why. max_reason: one of _MAX_REASON_LENGTHS."""
    names_by_reason: dict[str, list[str]] = {}  # reason without the resource's name -> names
    for name, reason in reasons.items():
        names_by_reason.setdefault(_without_name(reason, name), []).append(name)
    texts = []
    for shared_reason, names in names_by_reason.items():
        reason = reasons[names[0]] if len(names) == 1 else shared_reason
        reason = _shortened(reason, max_reason)
        text = f"{problem}: {', '.join(names)}"
        texts.append(f"{text}: {reason}" if reason else text)
    return "; ".join(texts)


def _without_name(reason: str, name: str) -> str:
    """The reason without the resource's name, which the API server may quote as a key, or in a path with ~1 for /."""
    return reason.replace(name, "…").replace(name.replace("/", "~1"), "…")


def _shortened(text: str, limit: int) -> str:
    """The text, cut to limit characters."""
    if len(text) <= limit:
        return text
    if limit == 0:
        return ""
    return f"{text[: limit - 1]}…"


def _needs_refresh(heartbeat: float | None, *, now: float, heartbeat_after: float | None) -> bool:
    """Whether to refresh the heartbeat: it is old or missing, or in the future because a clock was wrong.

    heartbeat, now: in seconds since the epoch; None: it is missing. heartbeat_after: as for desired_condition().
    """
    if heartbeat_after is None:
        return False
    if heartbeat is None:
        return True
    age = now - heartbeat
    return age < 0 or age >= heartbeat_after
