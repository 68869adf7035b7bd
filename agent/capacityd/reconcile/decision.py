"""A decision about one key, and the facts that it depends on. decide.py makes the decision."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.key import Key
from capacityd.model.node import ConditionReason, Stored
from capacityd.model.plan import Action, Change, Trouble
from capacityd.model.reading import Reading
from capacityd.model.waits import Wait


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known about a key."""

    key: Key
    reading: Reading | None
    """The reading; None if nothing configures the key. A label's reading is the published number of its resource."""
    published: int | None
    """The published number; None if the key is not capacityd's."""
    annotated: int | None
    """The number in the Node's annotation. The published number differs if the memory contains another number."""
    stored: Stored
    adopts: bool = False
    """Whether the configuration allows capacityd to take the key over from another writer."""
    lower_since: float | None = None
    """The uptime in seconds at which the delay of a reduction began; None if the delay begins now."""
    has_device_plugin: bool | None = False
    """Whether a device plugin has registered the resource's name; None if the list of device plugins is unreadable."""
    is_reconfigured: bool = False
    """Whether the Node's numbers were published with another configuration."""

    @property
    def is_zeroed(self) -> bool:
        """Whether capacity is 0, but another number is published. A starting kubelet writes this 0."""
        return self.stored.capacity == "0" and self.published != 0 and not self.key.is_label

    @property
    def was_changed(self) -> bool:
        """Whether another writer has stored a number. The 0 of a starting kubelet does not count."""
        if self.stored.capacity is None or self.is_zeroed:
            return False
        return self.stored.capacity != str(self.published)

    @property
    def belongs_to_others(self) -> bool:
        """Whether the stored number is another writer's: neither the published nor the annotated number."""
        return self.was_changed and self.stored.capacity != str(self.annotated)


@dataclass(frozen=True, slots=True)
class Decision:
    """What should happen to a key."""

    entry: Entry
    reason: str
    """Why, as a text for people."""
    desired: int | None = None
    """The number that the Node should store; None for no number. For a refused key, what capacityd would publish."""
    published: int | None = None
    """The number in the annotation after the decision; None if the annotation does not list the key."""
    leaves_stored: bool = False
    """Whether the stored number is left as it is."""
    trouble: Trouble | None = None
    wait: Wait | None = None
    """Until when `lower_after` delays a reduction; None for no delay."""
    override: Action | None = None
    """DENY or HOLD, if this plan may not make the change; None if it may."""
    is_retried: bool = False
    """Whether a denied change must now be tried again, in a patch of its own."""

    @property
    def action(self) -> Action:
        if self.override is not None:
            return self.override
        if not self.leaves_stored and not self.entry.stored.equals(self.desired):
            return Action.REMOVE if self.desired is None else Action.SET
        if self.wait is not None:
            return Action.HOLD
        if self.trouble is not None and self.trouble.reason is ConditionReason.REFUSED:
            return Action.REFUSE
        return Action.KEEP

    @property
    def change(self) -> Change:
        """The change as a plan shows it."""
        return Change(
            self.entry.key,
            self.action,
            stored=self.entry.stored,
            desired=self.desired,
            published=self.published,
            reason=self.reason,
        )
