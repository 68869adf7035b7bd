"""The Events of a pass, and what earlier Events have reported. Pure.

An Event reports what no earlier Event has reported. `kubectl describe` shows it as one line of at most 1,024 bytes. The
line ends with the number of changes that do not fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from capacityd.model.label import is_label
from capacityd.model.node import Event, NodeState
from capacityd.model.plan import Action, Change, Health, Plan, Reported
from capacityd.model.quantity import plain, whole_quantity
from capacityd.reconcile.facts import Facts

_REPORT_UNKNOWN_AFTER = 60.0
"""Seconds for which a resource must be unknown before an Event reports it: at boot, a driver may only be late."""

_MAX_MESSAGE_BYTES = 1000  # the API server takes 1,024
_MAX_TEXTS = 40
"""Maximum number of texts in a message."""
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"
"""The end of a message about changes of which one lowers a quantity."""


def reported_before(facts: Facts) -> Reported:
    """What Events have already reported about this Node. facts: from Facts.of_node(), so without the machine record of
    an earlier Node of the same name."""
    machine_record = facts.machine_record
    return Reported() if machine_record is None else machine_record.reported


def reported_after(node_state: NodeState, health: Health, last: Reported, facts: Facts) -> Reported:
    """What Events have reported once the Events of a plan with this health exist. last: what Events reported before."""
    # Health compares no unknown, denied or refused resource with the expected quantity. Such a resource stays reported
    # as below: no Event may say that the resource has recovered.
    not_compared = {*health.unknown, *health.denied, *health.refused}
    still_below = last.below_expected & not_compared & facts.config.expectations().keys()
    return Reported(
        refused=frozenset((*health.refused, *health.unverified)),  # Plan.newly_refused compares the changes of both
        denied=frozenset(health.denied),
        below_expected=frozenset(health.below_expected) | still_below,
        configuration=_hash(health.configuration_errors),
        unknown=frozenset(health.unknown) & (last.unknown | _long_unknown(node_state, facts)),
    )


def _hash(errors: Sequence[str]) -> str:
    """A short hash of the configuration's errors; "" if there are none."""
    if not errors:
        return ""
    text = "\n".join(errors)  # may contain lone surrogates, which plain UTF-8 can't encode
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _long_unknown(node_state: NodeState, facts: Facts) -> frozenset[str]:
    """The names that have been unknown long enough for an Event."""
    if facts.save_error or not facts.keeps_record(node_state):
        return frozenset()  # this pass can't record the Event, so the next one would repeat it
    unknown_since = facts.memory.unknown_since
    return frozenset(name for name, since in unknown_since.items() if facts.uptime - since >= _REPORT_UNKNOWN_AFTER)


def events(plan: Plan, *, applied: bool) -> list[Event]:
    """The Events for a plan that has been carried out: for what earlier Events did not report, at most one Event for
    each reason.

    applied: whether the Node was written. If not, the only possible news is that a resource has been unknown for long.
    """
    last = plan.confirmed_record.reported
    reported = plan.write.reported
    newly_unknown = reported.unknown - last.unknown
    unknown = [f"{name}: {why}" for name, why in plan.health.unknown.items() if name in newly_unknown]
    unknown_event = _warning("CapacityUnknown", _joined(unknown), action="Read")
    if not applied:
        return [unknown_event] if unknown else []
    changed = plan.written_changes
    below_expected = [
        f"{name}: {quantity}, expected {expected}"
        for name, (quantity, expected) in plan.health.below_expected.items()
        if name not in last.below_expected
    ]
    denied = {change.name for change in plan.changes if change.action is Action.DENY} - last.denied
    has_new_errors = reported.configuration != last.configuration
    configuration_errors = plan.health.configuration_errors if has_new_errors else ()
    lowered = _LOWERED if any(_lowers(change) for change in changed) else ""
    recovered = _quantities(plan, plan.write.recovered)
    known_again = _quantities(plan, last.unknown - reported.unknown)
    candidates = (
        _normal("CapacityChanged", _joined([change.summary for change in changed], end=lowered), action="Publish"),
        _warning("CapacityRefused", _joined(_reasons(plan, plan.newly_refused)), action="Refuse"),
        _warning("CapacityDenied", _joined(_reasons(plan, denied)), action="Publish"),
        _warning("CapacityBelowExpected", _joined(below_expected), action="Compare"),
        _normal("CapacityAsExpected", _joined(recovered), action="Compare"),
        _warning("ConfigurationRejected", _joined(configuration_errors), action="Configure"),
        unknown_event,
        _normal("CapacityKnown", _joined(known_again), action="Read"),
    )
    return [event for event in candidates if event.message]  # without a message, there is nothing to report


def _normal(reason: str, message: str, *, action: str) -> Event:
    return Event(type="Normal", reason=reason, message=message, action=action)


def _warning(reason: str, message: str, *, action: str) -> Event:
    return Event(type="Warning", reason=reason, message=message, action=action)


def _reasons(plan: Plan, names: Collection[str]) -> list[str]:
    """A text for each of these names that the plan decides about: the name and the plan's reason."""
    return [f"{change.name}: {change.reason}" for change in plan.changes if change.name in names]


def _quantities(plan: Plan, names: Collection[str]) -> list[str]:
    """A text for each of these names that the plan decides about: the name and its quantity after the plan."""
    return [f"{change.name}: {plain(change.new)}" for change in plan.changes if change.name in names]


def _joined(texts: Sequence[str], end: str = "") -> str:
    """Joins as many texts as fit, the number of texts left out, and the end. Returns "" for no texts."""
    if not texts:
        return ""
    for count in range(min(len(texts), _MAX_TEXTS), 0, -1):
        message = f"{'; '.join(texts[:count])}{_left_out(len(texts) - count)}{end}"
        if len(message.encode()) <= _MAX_MESSAGE_BYTES:
            return message
    # Not even the first text fits, so it is cut.
    rest = f"…{_left_out(len(texts) - 1)}{end}"
    room = _MAX_MESSAGE_BYTES - len(rest.encode())
    start = texts[0].encode()[:room].decode(errors="ignore")  # without a character that the cut has split
    return start + rest


def _left_out(count: int) -> str:
    """How many texts a message leaves out, as its continuation; "" for none."""
    return f"; and {count} more, see capacityd status" if count else ""


def _lowers(change: Change) -> bool:
    """Whether the change sets a lower quantity, so that pods may be stopped at the kubelet's next start.

    A removed key stops no pod: the kubelet does not check extended resources that its Node does not have.
    """
    if is_label(change.name) or change.action is not Action.SET:
        return False
    old = whole_quantity(change.old or "")
    new = whole_quantity(change.new or "") or 0
    return old is not None and new < old
