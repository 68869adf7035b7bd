"""A decision about one key, and what it depends on. Nothing here decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

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
    """Of a label: what is published as its resource. None: nothing configures the key."""
    published: int | None
    """None: the key is not capacityd's."""
    annotated: int | None
    """The number in the Node's annotation. It may differ from the published one, which may come from the memory."""
    stored: Stored
    adopts: bool = False
    """Whether the configuration takes the key over from another writer."""

    @property
    def is_zeroed(self) -> bool:
        """Whether capacity is 0 and was published as another number: a starting kubelet writes this 0."""
        return self.stored.capacity == "0" and self.published != 0 and not self.key.is_label

    @property
    def was_changed(self) -> bool:
        """Whether another writer has stored a number of its own. An empty place and a kubelet's 0 are none."""
        if self.stored.capacity is None or self.is_zeroed:
            return False
        return self.stored.capacity != str(self.published)

    @property
    def is_anothers(self) -> bool:
        """Whether the stored number is neither the published nor the annotated one, so that it is another writer's."""
        return self.was_changed and self.stored.capacity != str(self.annotated)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the decisions about all keys of a plan have in common."""

    uptime: float = 0.0
    """In seconds."""
    lower_after: float = 0.0
    """Seconds for which a reduction must be due before it is written."""
    lower_since: Mapping[Key, float] = field(default_factory=dict)
    """Key -> the uptime since when a reduction has been due."""
    device_plugins: Collection[str] | None = ()
    """The names that device plugins have registered; None: their list is unreadable."""
    removes_unconfigured: bool = True
    """Whether the configuration is complete, and configures something."""
    why_unconfigured: str = "no longer configured"
    """Why a key is removed that nothing configures."""
    is_new_configuration: bool = False
    """Whether the Node's numbers were published with another configuration."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What should happen to a key."""

    entry: Entry
    reason: str
    """Why, for people."""
    desired: int | None = None
    """What the Node should store now; None: nothing. If the key is refused: what capacityd would publish."""
    published: int | None = None
    """The number in the annotation afterwards; None: the annotation does not list the key."""
    leaves: bool = False
    """Whether the Node keeps whatever it stores."""
    trouble: Trouble | None = None
    lower_since: float | None = None
    """Since when a reduction has been due; None: none is."""
    wait: Wait | None = None
    """Until when `lower_after` holds the reduction back; None: it does not."""
    instead: Action | None = None
    """What is done instead of the change: it is denied, or not made now; None: the change is made."""
    is_due: bool = False
    """Whether the change was denied, and is to be tried again alone."""

    @property
    def action(self) -> Action:
        """What the decision does to the Node."""
        if self.instead is not None:
            return self.instead
        if not self.leaves and not self.entry.stored.equals(self.desired):
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
