"""Decides what happens to one key, from its reading, its published number and its stored number.

The rules, in order of precedence:
- A name that a device plugin has registered is never capacityd's, because the kubelet writes its number.
- A new key is published if the Node stores nothing under it, or if the configuration adopts it.
- While the list of device plugins is unreadable, no key is adopted, and no key that another writer changed is restored.
- An unknown reading keeps the published number. If another writer changed the stored number, the published number is
  restored.
- A key that nothing configures, or whose reading is absent, is removed if it stores the published number or the 0 of a
  starting kubelet. If it stores any other number, the key is another writer's, and capacityd gives it up.
- A key that the configuration does not name is removed only if the configuration is complete and not empty.
- capacityd writes no number to a key that nothing configures, even if the annotation lists the key.
- A higher number is written at once. A lower number is delayed, because the kubelet's next restart stops pods that no
  longer fit.
- A label follows the published number of its resource, so a label has no delay of its own.
- Allocatable gets the same number as capacity, because the kubelet reserves no share of an extended resource
  (MachineInfo in k8s.io/kubernetes, pkg/kubelet/nodestatus/setters.go).
"""

from __future__ import annotations

from dataclasses import replace

from capacityd.model.device_plugins import CHECKPOINT_UNREADABLE
from capacityd.model.errors import Cause
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Trouble
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.decision import Decision, Entry
from capacityd.reconcile.inputs import Inputs


def decide(entry: Entry, inputs: Inputs) -> Decision:
    """Decides what happens to a key."""
    if entry.has_device_plugin:
        return _leave_to_plugin(entry)
    if entry.published is None:
        return _claim(entry)
    is_list_unreadable = entry.has_device_plugin is None
    if is_list_unreadable and _may_belong_to_plugin(entry):
        return _refuse_changed_key(entry)
    if isinstance(entry.reading, Unknown):
        return _keep_published(entry, entry.reading)
    if isinstance(entry.reading, Quantity):
        return _publish(entry, entry.reading.value, inputs)
    if entry.reading is None and not inputs.removes_unconfigured:
        return _keep_unconfigured(entry)
    return _remove(entry, inputs)


def _leave_to_plugin(entry: Entry) -> Decision:
    reason = "a device plugin has this name, so the kubelet writes the key; publish under another name"
    if isinstance(entry.reading, Quantity):
        return _refuse(entry, reason, desired=entry.reading.value)
    trouble = _unknown_trouble(entry, entry.reading) if isinstance(entry.reading, Unknown) else None
    return Decision(entry, reason, leaves_stored=True, trouble=trouble)


def _claim(entry: Entry) -> Decision:
    """Decides about a key that is not published. The key is new, or the annotation and the memory were both lost."""
    if isinstance(entry.reading, Unknown):
        reason = f"unknown: {entry.reading.reason}"
        return Decision(entry, reason, leaves_stored=True, trouble=_unknown_trouble(entry, entry.reading))
    if not isinstance(entry.reading, Quantity):
        reason = entry.reading.reason if entry.reading else "not configured"
        return Decision(entry, reason, leaves_stored=True)
    number = entry.reading.value
    if entry.stored.capacity is None:
        return Decision(entry, "newly published", desired=number, published=number)
    if not entry.adopts:
        same_number = "the same number, but " if entry.stored.equals(number) else ""
        reason = f"{same_number}not published by capacityd; adopt = true takes it over"
        return _refuse(entry, reason, desired=number)
    if entry.has_device_plugin is None:  # the list of device plugins is unreadable
        reason = f"not adopted, because the key may belong to a device plugin: {CHECKPOINT_UNREADABLE}"
        return _refuse(entry, reason, desired=number)
    return Decision(entry, "adopted", desired=number, published=number)


def _may_belong_to_plugin(entry: Entry) -> bool:
    """Whether another writer, perhaps a device plugin, has changed the stored number."""
    if entry.was_changed or entry.is_zeroed:
        return True
    if entry.stored.capacity is None:
        return False
    return entry.stored.allocatable not in (None, str(entry.published))


def _refuse_changed_key(entry: Entry) -> Decision:
    """Decides about a changed key while the list of device plugins is unreadable."""
    stored = f"{entry.stored.capacity} (allocatable {entry.stored.allocatable})"
    reason = f"another writer, perhaps a device plugin, set it to {stored}: {CHECKPOINT_UNREADABLE}"
    refusal = _refuse(entry, reason, desired=entry.published)
    return replace(refusal, published=entry.published)  # the key stays capacityd's until a plugin is known to have it


def _keep_published(entry: Entry, reading: Unknown) -> Decision:
    """Keeps or restores the published number while the reading is unknown."""
    is_as_published = entry.stored.equals(entry.published)
    what_happens = "stays as it is" if is_as_published else _why_restored(entry)
    return Decision(
        entry,
        f"{what_happens}; unknown: {reading.reason}",
        desired=entry.published,
        published=entry.published,
        trouble=_unknown_trouble(entry, reading),
    )


def _publish(entry: Entry, number: int, inputs: Inputs) -> Decision:
    decision = Decision(entry, _why_set(entry, number), desired=number, published=number)
    published = entry.published
    # Only a number below both the published and the stored number is a reduction.
    if published is None or number >= min(published, entry.stored.largest):
        return decision
    return _delay_reduction(decision, inputs)


def _keep_unconfigured(entry: Entry) -> Decision:
    """Keeps a key that an incomplete or empty configuration does not name. Leaves the stored number as it is."""
    reason = "kept, because nothing configures it, and the configuration is incomplete or empty"
    trouble = Trouble(ConditionReason.CONFIGURATION_REJECTED, reason, entry.key)
    return Decision(entry, reason, published=entry.published, leaves_stored=True, trouble=trouble)


def _remove(entry: Entry, inputs: Inputs) -> Decision:
    """Removes a key that nothing configures, or whose reading is absent."""
    if isinstance(entry.reading, Absent):
        reason = entry.reading.reason
    else:
        reason = "withdrawn" if inputs.is_withdrawal else "not configured"
    if entry.belongs_to_others:
        return Decision(entry, f"{reason}, but another writer changed it, so the key stays", leaves_stored=True)
    removal = Decision(entry, reason)
    is_allocatable_changed = entry.stored.allocatable not in (None, "0", str(entry.published))
    if entry.stored.capacity is None and not is_allocatable_changed:
        return removal  # capacity is empty already, so the removal needs no delay
    return _delay_reduction(removal, inputs)


def _delay_reduction(decision: Decision, inputs: Inputs) -> Decision:
    """Delays a reduction for `lower_after`. Until then, the published number is kept or restored."""
    entry = decision.entry
    if entry.key.is_label:  # a lower label stops no pod
        return decision
    since = inputs.uptime if entry.lower_since is None else entry.lower_since
    until = since + inputs.lower_after
    if until <= inputs.uptime:
        return decision
    wait = Wait(until, WaitReason.LOWER_AFTER, entry.key)
    reason = f"{decision.reason}; {wait.text(inputs.uptime)}"
    if entry.reading is None:  # nothing configures the key, so the stored number stays
        published = entry.stored.number if entry.was_changed else entry.published
        return Decision(entry, reason, published=published, leaves_stored=True, wait=wait)
    if not entry.stored.equals(entry.published):
        reason = f"{_why_restored(entry)}; {reason}"
    return Decision(entry, reason, desired=entry.published, published=entry.published, wait=wait)


def _why_set(entry: Entry, number: int) -> str:
    """Why a published key gets this number. A pass knows what differs, but not what caused the difference."""
    if entry.stored.equals(number):
        return "as published"
    is_new_number = number != entry.published
    is_capacity_as_published = entry.stored.capacity == str(entry.published)
    if not is_new_number or not is_capacity_as_published:
        return _why_restored(entry)
    return "the configuration differs" if entry.is_reconfigured else "the reading differs"


def _why_restored(entry: Entry) -> str:
    """Why the published number is written again."""
    hint = " (a kubelet restart?)" if entry.is_zeroed else ""
    return f"restored: the Node had {entry.stored.text} instead of {entry.published}{hint}"


def _refuse(entry: Entry, reason: str, desired: int | None) -> Decision:
    """Refuses a key, and removes it from the annotation. desired: the number that capacityd would publish."""
    trouble = Trouble(ConditionReason.REFUSED, reason, entry.key)
    return Decision(entry, reason, desired=desired, leaves_stored=True, trouble=trouble)


def _unknown_trouble(entry: Entry, reading: Unknown) -> Trouble | None:
    """The trouble of an unknown reading; None for a label, because its resource has the same trouble."""
    if entry.key.is_label:
        return None
    # The condition's message already quotes the configuration's errors.
    has_configuration_error = reading.cause is Cause.CONFIGURATION
    text = "its configuration has an error" if has_configuration_error else reading.reason
    return Trouble(ConditionReason.UNKNOWN, text, entry.key)
