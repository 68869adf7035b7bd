"""A step of a plan: the quantities of one name, and what happens to the name. Nothing here decides."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.label import is_label
from capacityd.model.node import stored_number
from capacityd.model.plan import Action, Change
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Quantity, Reading
from capacityd.model.waits import Wait


@dataclass(frozen=True, slots=True)
class CapacityEntry:
    """The quantities of one resource or label: on the Node, in the Node's annotation, and in the machine record."""

    name: str
    current: str | None
    """The quantity in the Node's capacity, or the label's value; None if the key is absent."""
    allocatable: str | None
    """The quantity in the Node's allocatable, or again the label's value; None if the key is absent."""
    published: int | None
    """The published quantity, from published_quantities() in rules.py; None: capacityd has not published the key. While
    the annotation is lost or altered, the quantity may come from the machine record."""
    recorded: int | None
    """The quantity in the machine record; None: capacityd does not own the key. Without a machine record: as published,
    for configured names."""

    @property
    def is_owned(self) -> bool:
        """Whether capacityd owns the key: it is published, and the machine record lists it (see recorded)."""
        return self.recorded is not None

    @property
    def is_confirmed(self) -> bool:
        """Whether capacityd owns the key, and the machine record contains the published quantity."""
        return self.is_owned and self.recorded == self.published

    @property
    def is_label(self) -> bool:
        """Whether the name is that of a label."""
        return is_label(self.name)

    @property
    def number(self) -> int | None:
        """The quantity on the Node; None if it is absent, or not a whole number."""
        return stored_number(self.name, self.current)

    def equals(self, quantity: int) -> bool:
        """Whether the quantity on the Node equals this one."""
        return self.number == quantity

    @property
    def is_zeroed(self) -> bool:
        """Whether a resource's quantity on the Node is 0: a starting kubelet may have written this 0. False for a
        label, because no kubelet sets labels to 0."""
        return self.equals(0) and not self.is_label


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one name."""

    entry: CapacityEntry
    action: Action
    reason: str
    """Why, for people."""
    desired: int | None = None
    """The quantity to publish; None: no quantity."""
    annotated: int | None = None
    """The quantity in the annotation after the write; None: the annotation does not list the name."""
    reading: Reading | None = None
    """None: the name is not configured."""
    wait: Wait | None = None
    """The limit that holds the change back; None: no limit does."""

    @property
    def name(self) -> str:
        """The name."""
        return self.entry.name

    @property
    def change(self) -> Change:
        """The change, for Events and the journal."""
        new = None if self.desired is None else str(self.desired)
        if self.action in (Action.KEEP, Action.REFUSE):
            new = self.entry.current
        return Change(self.name, self.action, old=self.entry.current, new=new, reason=self.reason)

    @property
    def recorded(self) -> int | None:
        """The quantity in the machine record after the write; None: the record does not list the name. Another
        writer's number never enters the record."""
        if self.annotated is None:  # capacityd gives the key up
            return None
        is_as_desired = self.action is Action.KEEP and self.desired is not None
        if self.action is Action.SET or is_as_desired:
            return self.annotated
        return self.entry.recorded

    @property
    def lowers(self) -> bool:
        """Whether the change, even if it is held back or denied, removes the key, or sets capacity below both the
        current and the published quantity. Removing a 0 does not count."""
        entry = self.entry
        if self.action in (Action.KEEP, Action.REFUSE) or entry.is_label:  # a label stops no pod
            return False
        if self.desired is None:
            return not entry.equals(0)
        if entry.current is None:
            return False
        # A quantity that is not a whole number (number is None) may be larger than any desired one.
        is_below_current = entry.number is None or self.desired < entry.number
        is_below_published = entry.published is None or self.desired < entry.published
        return is_below_current and is_below_published

    @property
    def allocatable_was_less(self) -> bool:
        """Whether capacityd owns the key, and allocatable was less than the published quantity before this step.

        False if capacity is not as published, and stays so: then this step does not repair allocatable either.
        """
        entry = self.entry
        if entry.is_label or entry.published is None or not entry.is_owned or self.action is Action.REFUSE:
            return False
        if self.action is Action.KEEP and not entry.equals(entry.published):
            return False
        return is_less(entry.allocatable, entry.published)

    @property
    def unverified(self) -> bool:
        """Whether a key that must go stays, because the annotation lists it but the machine record does not confirm
        it."""
        if self.action is not Action.REFUSE or self.annotated is None:
            return False
        must_go = not isinstance(self.reading, Quantity)
        return must_go and not self.entry.is_confirmed


def is_less(current: str | None, quantity: int) -> bool:
    """Whether a quantity on the Node is missing, or less than this quantity."""
    return current is None or (whole_quantity(current) or 0) < quantity
