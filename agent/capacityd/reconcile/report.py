"""Computes what the Node condition and Events report. Pure.

The condition has one reason and one message, which say why it is not True. An Event reports what no earlier Event has
reported. `kubectl describe` shows it as one line of at most 1,024 bytes. The text counts the changes that do not fit.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from capacityd.model.node import CONDITION, ConditionReason, Event, NodeState
from capacityd.model.plan import UNWRITABLE, Action, Change, Health, Plan, Reported
from capacityd.model.quantity import plain, whole_quantity
from capacityd.reconcile.facts import Facts

_MAX_CONDITION = 32_768
"""Maximum length of the message in characters: metav1.Condition's limit. The API server sets no limit for Nodes."""
_MAX_REASONS = 300, 150, 60, 0
"""Maximum lengths of each resource's reason, in characters. The first one with which the whole message fits is used."""

_REPORT_UNKNOWN_AFTER = 60.0
"""Seconds for which a resource must be unknown before an Event reports it: at boot, a driver may only be late."""

_MAX_MESSAGE_BYTES = 1000  # the API server takes 1,024
_MAX_TEXTS = 40
_OTHER_AGENT = "another capacityd, on another machine or in a container, publishes other numbers on this Node"
"""Names no numbers: both agents write this message, and the numbers depend on the agent."""
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"


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
        """Whether all configured resources are published."""
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
    for max_reason in _MAX_REASONS:
        messages = _messages(health, max_reason)
        message = "; ".join(messages.values()) or "all configured resources are published"
        if len(message) <= _MAX_CONDITION:
            break
    reason = next(iter(messages), ConditionReason.PUBLISHED)
    return changed_condition(node_state, reason, message, now, heartbeat_after)


def changed_condition(
    node_state: NodeState, reason: ConditionReason, message: str, now: float, heartbeat_after: float | None = None
) -> DesiredCondition | None:
    """The condition with this reason and message; as for desired_condition()."""
    desired = DesiredCondition(reason, _shortened(message, _MAX_CONDITION), heartbeat=now)
    current = node_state.condition
    if current is None or current.status != desired.status:
        return desired
    same = (current.reason, current.message) == (desired.reason.value, desired.message)
    if same and not _is_old(current.heartbeat, now, heartbeat_after):
        return None
    return replace(desired, transition=current.transition)


def _messages(health: Health, max_reason: int) -> dict[ConditionReason, str]:
    """The message for each reason that applies, most urgent first. max_reason: limit for each reason, in characters."""
    refused = (
        _with_reasons("refused", health.refused, max_reason),
        _list("not published by this machine", health.unverified),
    )
    messages = {
        ConditionReason.CONFIGURATION_REJECTED: _configuration(health.configuration_errors),
        ConditionReason.STATE_NOT_WRITABLE: health.unwritable and f"{UNWRITABLE}: {health.unwritable}",
        ConditionReason.OTHER_AGENT: _OTHER_AGENT if health.other_agent else "",
        ConditionReason.UNKNOWN: _with_reasons("unknown", health.unknown, max_reason),
        ConditionReason.REFUSED: "; ".join(filter(None, refused)),
        ConditionReason.DENIED: _with_reasons("denied", health.denied, max_reason),
        ConditionReason.NOT_CONFIGURED: _list("kept, although no resource is configured", health.not_configured),
        ConditionReason.BELOW_EXPECTED: _list(
            "below expected", [f"{name} is {n} of {expected}" for name, (n, expected) in health.below_expected.items()]
        ),
        ConditionReason.NOT_ALLOCATABLE: _list(
            "not allocatable",
            [f"{name} is {less} of {published}" for name, (published, less) in health.not_allocatable.items()],
        ),
    }
    return {reason: messages[reason] for reason in ConditionReason if messages.get(reason)}


def _list(prefix: str, items: Sequence[str]) -> str:
    return f"{prefix}: {', '.join(items)}" if items else ""


def _configuration(errors: tuple[str, ...]) -> str:
    if not errors:
        return ""
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"the configuration has errors: {errors[0]}{more} (capacityd config check)"


def _with_reasons(prefix: str, reasons: Mapping[str, str], max_reason: int) -> str:
    """Lists the resources. Resources with the same reason, apart from their own name in the reason, share one entry."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(_without_name(reason, name), []).append(name)
    texts = []
    for shared, names in groups.items():
        reason = _shortened(reasons[names[0]] if len(names) == 1 else shared, max_reason)
        texts.append(": ".join(filter(None, (prefix, ", ".join(names), reason))))
    return "; ".join(texts)


def _without_name(reason: str, name: str) -> str:
    """The reason without the resource's name, which the API server may quote as a key or in a path."""
    return reason.replace(name, "…").replace(name.replace("/", "~1"), "…")


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…" if limit else ""


def _is_old(heartbeat: float | None, now: float, heartbeat_after: float | None) -> bool:
    """Whether to refresh the heartbeat. True if it is missing, or in the future because a clock was wrong."""
    if heartbeat_after is None:
        return False
    return heartbeat is None or not 0 <= now - heartbeat < heartbeat_after


def reported_before(facts: Facts) -> Reported:
    """What Events have already reported. A Node that was deleted and created again starts with nothing reported."""
    machine_record = facts.context.machine_record
    return Reported() if machine_record is None else machine_record.reported


def reported_after(health: Health, last: Reported, facts: Facts) -> Reported:
    """What Events have reported once the Events of a plan with this health exist. last: what they reported before."""
    errors = "\n".join(health.configuration_errors)
    # For Events, a resource that becomes unknown, denied or refused is still below the expected quantity.
    still_below = last.below_expected & facts.policy.expect.keys() & {*health.unknown, *health.denied, *health.refused}
    return Reported(
        refused=frozenset((*health.refused, *health.unverified)),
        denied=frozenset(health.denied),
        below_expected=frozenset(health.below_expected) | still_below,
        configuration=hashlib.sha256(errors.encode("utf-8", "surrogatepass")).hexdigest()[:12] if errors else "",
        unknown=frozenset(health.unknown) & (last.unknown | long_unknown(facts)),
    )


def long_unknown(facts: Facts) -> frozenset[str]:
    """The names that have been unknown long enough for an Event."""
    # If this pass can't record the Event, the Event would be repeated.
    recordable = facts.keeps_record and not facts.context.unwritable
    unknown_since = facts.memory.unknown_since if recordable else {}
    return frozenset(n for n, since in unknown_since.items() if facts.context.uptime - since >= _REPORT_UNKNOWN_AFTER)


def events(plan: Plan, *, applied: bool) -> list[Event]:
    """The Events for a plan that has been carried out: at most one for each reason, for what the last ones did not
    report.

    applied: whether the Node was written. If not, the only possible news is that a resource has been unknown for long.
    """
    last, reported = plan.reported_before, plan.write.reported
    unknown = [f"{name}: {why}" for name, why in plan.health.unknown.items() if name in reported.unknown - last.unknown]
    long_unknown = Event("Warning", "CapacityUnknown", _joined(unknown), "Read")
    if not applied:
        return [long_unknown] if unknown else []
    changed = [change for change in plan.changes if change.action.writes]
    less = [
        f"{name}: {quantity}, expected {expected}"
        for name, (quantity, expected) in plan.health.below_expected.items()
        if name not in last.below_expected
    ]
    denied = {change.name for change in plan.changes if change.action is Action.DENY} - last.denied
    # This includes errors that differ from the previously rejected ones.
    rejected = plan.health.configuration_errors if reported.configuration != last.configuration else ()
    lowered = _LOWERED if any(map(_lowers, changed)) else ""
    candidates = (
        Event("Normal", "CapacityChanged", _joined([change.summary for change in changed], lowered), "Publish"),
        Event("Warning", "CapacityRefused", _joined(_reasons(plan, plan.newly_refused)), "Refuse"),
        Event("Warning", "CapacityDenied", _joined(_reasons(plan, denied)), "Publish"),
        Event("Warning", "CapacityBelowExpected", _joined(less), "Compare"),
        Event("Normal", "CapacityAsExpected", _joined(_quantities(plan, plan.write.recovered)), "Compare"),
        Event("Warning", "ConfigurationRejected", _joined(rejected), "Configure"),
        long_unknown,
        Event("Normal", "CapacityKnown", _joined(_quantities(plan, last.unknown - reported.unknown)), "Read"),
    )
    return [event for event in candidates if event.message]


def _reasons(plan: Plan, names: Collection[str]) -> list[str]:
    return [f"{change.name}: {change.reason}" for change in plan.changes if change.name in names]


def _quantities(plan: Plan, names: Collection[str]) -> list[str]:
    return [f"{change.name}: {plain(change.new)}" for change in plan.changes if change.name in names]


def _joined(texts: Sequence[str], after: str = "") -> str:
    """Joins as many texts as fit, the number of texts left out, and the text after them. Returns "" for no texts."""
    if not texts:
        return ""
    for count in range(min(len(texts), _MAX_TEXTS), 0, -1):
        rest = (f"; and {len(texts) - count} more, see capacityd status" if count < len(texts) else "") + after
        message = "; ".join(texts[:count]) + rest
        if len(message.encode()) <= _MAX_MESSAGE_BYTES:
            return message
    rest = f"…{rest}"
    return texts[0].encode()[: _MAX_MESSAGE_BYTES - len(rest.encode())].decode(errors="ignore") + rest


def _lowers(change: Change) -> bool:
    """Whether the change can stop pods at a kubelet's restart: a lower key can, a removed key can't."""
    old = whole_quantity(change.old or "")
    return change.action is Action.SET and old is not None and (whole_quantity(change.new or "") or 0) < old
