"""Decides what happens to one name on the Node. Pure.

The rules, in order of precedence:
- A device plugin's name is refused, whatever our records contain.
- While it can't be known whether it is one's, what somebody else wrote to a key of ours is left, and reported.
- Ours is what both records name: the annotation, which others may write, and the file on this machine.
- A key is removed only when its value is what both records say, or 0.
- Unknown never lowers or removes; what was lost or zeroed meanwhile is restored if both records say the same.
- Raise at once, lower late: pods that no longer fit are stopped at the kubelet's next restart.
- Allocatable is written with capacity, and equals it: nothing reserves a share of an extended resource
  (MachineInfo in k8s.io/kubernetes, pkg/kubelet/nodestatus/setters.go).
"""

from __future__ import annotations

from capacityd.model.node import Action, MachineRecord, NodeState, read_record
from capacityd.model.quantity import plain, whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.reconcile.plan_input import CapacityEntry, Decision, PlanInput


def decide(entry: CapacityEntry, reading: Reading | None, inputs: PlanInput, configured: bool) -> Decision:
    """Decides about one name. reading: None if it is not configured. configured: whether any resource is."""
    return _restore_allocatable(entry, _decide(entry, reading, inputs, configured), inputs)


def _decide(entry: CapacityEntry, reading: Reading | None, inputs: PlanInput, configured: bool) -> Decision:
    owned = of_plugin(entry, inputs) if isinstance(reading, Quantity) or entry.last_applied is not None else None
    if owned := owned or _doubtful(entry, reading, inputs):
        return owned
    if isinstance(reading, Quantity):
        return _publish(entry, reading, inputs)
    if isinstance(reading, Unknown):
        return _keep_or_restore(entry, reading)
    if isinstance(reading, Absent):
        return unpublish(entry, reading.reason)
    # No longer configured. A damaged or empty configuration is more likely an accident than an intention.
    if not inputs.complete:
        return Decision(
            Action.KEEP, None, "kept: a file of the configuration can't be read, and may name it", entry.last_applied
        )
    if not configured:
        why = 'kept: no resource is configured at all; "capacityd withdraw" removes what was published'
        return Decision(Action.KEEP, None, why, entry.last_applied)
    return unpublish(entry, "no longer configured")


def capacity_entry(
    name: str, state: NodeState, recorded: int | None, inputs: PlanInput, configured: bool
) -> CapacityEntry:
    """The entry of a name. recorded: last_applied. configured: whether the configuration names it."""
    if recorded is None:
        own = None
    elif inputs.machine is None:
        own = recorded if configured else None
    elif inputs.machine.confirms(name, recorded):
        own = recorded
    else:
        own = inputs.machine.published.get(name, inputs.machine.intended.get(name))
    return CapacityEntry(name, (state.capacity or {}).get(name), (state.allocatable or {}).get(name), recorded, own)


def last_applied(state: NodeState, record: MachineRecord | None) -> dict[str, int]:
    """What has been published, by name: the annotation, and what the machine's record and the Node agree on.

    So an annotation that somebody else has altered or removed gives up nothing that is still as it was published.
    """
    annotated = read_record(state.annotation)
    for name in {*record.published, *record.intended} if record else ():
        current = whole_quantity((state.capacity or {}).get(name, ""))
        if current is not None and record is not None and record.confirms(name, current):
            annotated[name] = current
    return annotated


def of_plugin(entry: CapacityEntry, inputs: PlanInput) -> Decision | None:
    """Never touch a resource owned by a device plugin; the kubelet writes it."""
    if inputs.plugins is None or entry.name not in inputs.plugins:
        return None
    return Decision(Action.REFUSE, None, "a device plugin has this name; the key is the kubelet's", None)


def _doubtful(entry: CapacityEntry, reading: Reading | None, inputs: PlanInput) -> Decision | None:
    """Leaves a changed key of ours alone while device plugins are unknown: one may own it now."""
    if inputs.plugins is not None or entry.last_applied is None or not entry.named:
        return None
    if entry.current is None or entry.equals(entry.last_applied):
        return None
    if isinstance(reading, Quantity) and entry.equals(reading.value):
        return None
    if entry.equals(0) and inputs.kubelet_may_zero:
        return None  # a kubelet that restarts zeroes what is no plugin's
    theirs = plain(entry.current)
    why = f"somebody else wrote {theirs}, and the kubelet's list of device plugins can't be read: it may be one's"
    return Decision(Action.REFUSE, None, why, entry.last_applied)


def _publish(entry: CapacityEntry, reading: Quantity, inputs: PlanInput) -> Decision:
    value = reading.value
    if entry.current is None:
        lost = f"lost from the Node, where {entry.last_applied} was published" if entry.named else "found"
        return Decision(Action.SET, value, lost, value)
    if entry.last_applied is None or not entry.named:
        return _take_over(entry, value, inputs)
    if entry.equals(value):
        return Decision(Action.KEEP, value, "as published", value)
    if entry.equals(entry.last_applied):
        return Decision(Action.SET, value, "the reading changed", value)
    if entry.equals(0):
        return Decision(Action.SET, value, "restored: something else set it to 0 (a kubelet restart?)", value)
    return Decision(Action.SET, value, f"put back: somebody else wrote {plain(entry.current)}", value)


def _take_over(entry: CapacityEntry, value: int, inputs: PlanInput) -> Decision:
    """Refuses a key that is not ours, whatever its value: a 0 may belong to a device plugin that comes back."""
    if entry.name not in inputs.adopt:
        same = "the same value, but " if entry.equals(value) else ""
        why = f"{same}not published by capacityd; adopt = true takes it over"
        return Decision(Action.REFUSE, None, why, entry.last_applied)
    if inputs.plugins is None:
        why = "not adopted: the kubelet's list of device plugins can't be read, and this may be one's"
        return Decision(Action.REFUSE, None, why, entry.last_applied)
    return Decision(Action.KEEP if entry.equals(value) else Action.SET, value, "adopted", value)


def _keep_or_restore(entry: CapacityEntry, reading: Unknown) -> Decision:
    if entry.last_applied is None:
        return Decision(Action.KEEP, None, f"unknown: {reading.reason}", None)
    if entry.confirmed and (entry.current is None or (entry.equals(0) and entry.last_applied != 0)):
        return Decision(
            Action.SET, entry.last_applied, f"restored as last published; unknown: {reading.reason}", entry.last_applied
        )
    return Decision(Action.KEEP, None, f"stays as it is; unknown: {reading.reason}", entry.last_applied)


def _restore_allocatable(entry: CapacityEntry, decision: Decision, inputs: PlanInput) -> Decision:
    """The decision; or to write allocatable alone, where capacity stays as it is and is ours, or becomes so.

    While device plugins are unknown, less of it may be one's devices that are not healthy.
    """
    quantity = decision.record
    if decision.action is not Action.KEEP or quantity is None or inputs.plugins is None:
        return decision
    ours = entry.confirmed or decision.value is not None
    if not ours or not entry.equals(quantity) or plain(entry.allocatable) == str(quantity):
        return decision
    was = plain(entry.allocatable)
    return Decision(Action.SET, quantity, f"allocatable put back to {quantity}: somebody else made it {was}", quantity)


def unpublish(entry: CapacityEntry, reason: str) -> Decision:
    """Decides about a name that must go, for this reason."""
    if entry.current is None and entry.confirmed and plain(entry.allocatable) in ("0", str(entry.last_applied)):
        return Decision(Action.REMOVE, None, f"{reason}; allocatable still has it", None)
    if entry.current is None or entry.last_applied is None:
        return Decision(Action.KEEP, None, reason, None)
    if not entry.confirmed:
        why = f"{reason}, but this machine has no record of having published it, so it is left"
        return Decision(Action.REFUSE, None, why, entry.last_applied)
    if not (entry.equals(entry.last_applied) or entry.equals(0)):  # a zeroing kubelet's is as good as ours
        published = entry.last_applied
        why = f"{reason}, but its value is not the {published} that was published: somebody else's, so it is left"
        return Decision(Action.REFUSE, None, why, None)
    return Decision(Action.REMOVE, None, reason, None)


def lowers(entry: CapacityEntry, decision: Decision) -> bool:
    """Whether this reduces capacity, below both the current and the last applied value. Removing a 0 does not."""
    if decision.value is None:
        return not entry.equals(0)
    if entry.current is None:
        return False
    stored = whole_quantity(entry.current)
    return (stored is None or decision.value < stored) and (
        entry.last_applied is None or decision.value < entry.last_applied
    )


def hold_deadlines(entry: CapacityEntry, decision: Decision, inputs: PlanInput) -> list[tuple[float, str]]:
    """(uptime, reason) of each limit that may hold this change back; at least one."""
    waits = [(inputs.not_before.get(entry.name, 0.0), "because it keeps changing")]
    if lowers(entry, decision):
        since = inputs.lower_since.get(entry.name, inputs.uptime)
        waits.append((since + inputs.lower_after, "in case it comes back"))
    return waits
