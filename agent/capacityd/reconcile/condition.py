"""The Node condition: what keeps it from being True, in one reason and one message. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from capacityd.model.node import CONDITION, ConditionReason, Health, NodeState

_MAX_MESSAGE = 32_768
"""Characters of the message. metav1.Condition has this limit; the API server sets none for a Node's condition."""
_MAX_REASONS = 300, 150, 60, 0
"""Characters of each resource's reason in the message: the first with which all of it fits."""

_UNVERIFIED = "not published by this machine"


def desired_condition(
    state: NodeState, health: Health, now: float, heartbeat_after: float | None
) -> Mapping[str, object] | None:
    """The desired condition, now (seconds since the epoch); None if the Node has it already.

    heartbeat_after: the age in seconds at which an unchanged condition is written again. None: never.
    """
    for max_reason in _MAX_REASONS:
        messages = _messages(health, max_reason)
        message = "; ".join(messages.values()) or "all configured resources are published"
        if len(message) <= _MAX_MESSAGE:
            break
    reason = next(iter(messages), ConditionReason.PUBLISHED)
    return _changed(state, reason, message, now, heartbeat_after)


def rejected_condition(state: NodeState, why: str, now: float) -> Mapping[str, object] | None:
    """The condition while the API server rejects the whole patch; None if the Node has it already."""
    return _changed(state, ConditionReason.REJECTED, why, now, None)


def _messages(health: Health, max_reason: int) -> dict[ConditionReason, str]:
    """The message of each reason that applies, the most urgent first. max_reason: characters of a resource's reason."""
    found = {
        ConditionReason.CONFIGURATION_REJECTED: _configuration(health.configuration_errors),
        ConditionReason.STATE_NOT_WRITABLE: health.unwritable and f"nothing is lowered or removed: {health.unwritable}",
        ConditionReason.UNKNOWN: _with_reasons("unknown", health.unknown, max_reason),
        ConditionReason.REFUSED: "; ".join(
            filter(
                None,
                (_with_reasons("refused", health.refused, max_reason), _list(_UNVERIFIED, health.unverified)),
            )
        ),
        ConditionReason.DENIED: _with_reasons("denied", health.denied, max_reason),
        ConditionReason.BELOW_EXPECTED: _list(
            "below expected", [f"{name} is {now} of {wanted}" for name, (now, wanted) in health.below_expected.items()]
        ),
        ConditionReason.NOT_ALLOCATABLE: _list(
            "not allocatable",
            [f"{name} is {less} of {published}" for name, (published, less) in health.not_allocatable.items()],
        ),
    }
    return {reason: found[reason] for reason in ConditionReason if found.get(reason)}


def _list(what: str, items: Sequence[str]) -> str:
    return f"{what}: {', '.join(items)}" if items else ""


def _configuration(errors: tuple[str, ...]) -> str:
    if not errors:
        return ""
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"the configuration has errors: {errors[0]}{more} (capacityd config check)"


def _with_reasons(what: str, reasons: Mapping[str, str], max_reason: int) -> str:
    """Resources with the same reason share it."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(_shortened(reason, max_reason), []).append(name)
    return "; ".join(": ".join(filter(None, (what, ", ".join(group), reason))) for reason, group in names.items())


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…" if limit else ""


def _changed(
    state: NodeState, reason: ConditionReason, message: str, now: float, heartbeat_after: float | None
) -> Mapping[str, object] | None:
    status = "True" if reason is ConditionReason.PUBLISHED else "False"
    message = message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"
    before = state.condition
    same = before is not None and (before.status, before.reason, before.message) == (status, reason.value, message)
    if same and not _is_old(before.heartbeat if before else None, now, heartbeat_after):
        return None
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    changed = stamp
    if before and before.status == status:
        changed = str(before.stored.get("lastTransitionTime") or stamp)
    return {
        "type": CONDITION,
        "status": status,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": changed,
        "reason": reason.value,
        "message": message,
    }


def _is_old(heartbeat: float | None, now: float, heartbeat_after: float | None) -> bool:
    """Whether to refresh a heartbeat: also one that is missing, or in the future because a clock was wrong."""
    if heartbeat_after is None:
        return False
    return heartbeat is None or not 0 <= now - heartbeat < heartbeat_after
