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
    annotated: int | None
    """The published quantity, from published_quantities() in rules.py: the annotation's; the machine record's if the
    Node has that quantity, or if the annotation does not list the key and no other writer claims it. None: neither
    lists the key."""
    recorded: int | None
    """The quantity in the machine record; equal to annotated if both agree. None: capacityd does not own the key.
    Without a machine record: as annotated, for configured names."""

    @property
    def is_ours(self) -> bool:
        """Whether capacityd owns the key: both the annotation and the machine record list it (see recorded)."""
        return self.recorded is not None

    @property
    def confirmed(self) -> bool:
        """Whether both records contain the same quantity."""
        return self.recorded is not None and self.recorded == self.annotated

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
        """Whether the quantity is a 0 that a starting kubelet may have written."""
        return self.equals(0) and not self.is_label


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one name."""

    entry: CapacityEntry
    action: Action
    reason: str
    """As in Change."""
    desired: int | None = None
    """The quantity to publish; None: no quantity."""
    annotated: int | None = None
    """The quantity in the annotation after the write; None: the annotation does not list the name."""
    reading: Reading | None = None
    """None: the name is not configured."""
    wait: Wait | None = None
    """The limit that holds the change back; None: no limit does."""
    lowers: bool = False
    """Whether the change would reduce capacity, even if it is held back or denied."""

    @property
    def name(self) -> str:
        """The name."""
        return self.entry.name

    @property
    def change(self) -> Change:
        """The change, for Events and the journal."""
        if self.action in (Action.KEEP, Action.REFUSE):
            after = self.entry.current
        else:
            after = None if self.desired is None else str(self.desired)
        return Change(self.name, self.action, old=self.entry.current, new=after, reason=self.reason)

    @property
    def recorded(self) -> int | None:
        """The quantity in the machine record after the write; None: the record does not list the name. Another
        writer's number never enters the record."""
        if self.annotated is None:  # capacityd gives the key up
            return None
        publishes = self.action is Action.SET or (self.action is Action.KEEP and self.desired is not None)
        return self.annotated if publishes else self.entry.recorded

    @property
    def reduces(self) -> bool:
        """Whether the step reduces capacity below both the current and the annotated quantity. Removing a 0 does not
        count, and a label stops no pod."""
        entry = self.entry
        if not self.action.writes or entry.is_label:
            return False
        if self.desired is None:
            return not entry.equals(0)
        if entry.current is None:
            return False
        is_below_current = entry.number is None or self.desired < entry.number
        is_below_annotated = entry.annotated is None or self.desired < entry.annotated
        return is_below_current and is_below_annotated

    @property
    def allocatable_was_less(self) -> bool:
        """Whether capacityd owns the key, and allocatable was less than the published quantity.

        If capacity differs, and stays as it is, neither the kubelet nor a repair will change allocatable.
        """
        annotated = self.entry.annotated
        if self.entry.is_label or annotated is None or not self.entry.is_ours or self.action is Action.REFUSE:
            return False
        keeps_other_capacity = self.action is Action.KEEP and not self.entry.equals(annotated)
        return not keeps_other_capacity and is_less(self.entry.allocatable, annotated)

    @property
    def unverified(self) -> bool:
        """Whether a key that must go stays, because only the annotation, and not the machine record, lists it."""
        stays_annotated = self.action is Action.REFUSE and self.annotated is not None
        must_go = not isinstance(self.reading, Quantity)
        return stays_annotated and must_go and not self.entry.confirmed


def is_less(current: str | None, quantity: int) -> bool:
    """Whether a quantity on the Node is missing, or less than this quantity."""
    return current is None or (whole_quantity(current) or 0) < quantity
