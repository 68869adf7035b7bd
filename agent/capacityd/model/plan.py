"""A plan for a Node: what happens to each key, what is wrong, and what is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from capacityd.model.key import Key
from capacityd.model.node import ConditionReason, NodeState, Patch, Stored
from capacityd.model.waits import Wait


class Action(str, Enum):
    """What a plan does to a key. The values are the same in JSON."""

    SET = "set"
    REMOVE = "remove"
    KEEP = "keep"
    HOLD = "hold"  # the change is made later
    REFUSE = "refuse"  # the key belongs to a device plugin or another writer
    DENY = "deny"  # the API server denies the change

    @property
    def writes(self) -> bool:
        """Whether the action changes the Node."""
        return self in (Action.SET, Action.REMOVE)


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan does to a key."""

    key: Key
    action: Action
    stored: Stored
    """What the Node stores before the plan."""
    desired: int | None
    """The number that the Node should store; None for no number. For a refused key, what capacityd would publish."""
    published: int | None
    """The number in the annotation after the plan; None if the annotation does not list the key."""
    reason: str

    @property
    def summary(self) -> str:
        """The change as text, for Events and the journal. If only allocatable changes, the text contains no numbers."""
        old = self.stored.capacity or "none"
        new = "none" if self.desired is None else str(self.desired)
        if old == new:
            return f"{self.key}: {self.reason}"
        return f"{self.key}: {old} → {new} ({self.reason})"

    def as_dict(self) -> dict[str, object]:
        """The change for JSON output."""
        return {
            "name": self.key.name,
            "kind": self.key.kind,
            "action": self.action.value,
            "stored": self.stored.capacity,
            "allocatable": self.stored.allocatable,
            "desired": self.desired,
            "published": self.published,
            "reason": self.reason,
        }


_PROBLEMS = {
    ConditionReason.CONFIGURATION_REJECTED: "not configured",
    ConditionReason.OVERWRITTEN: "overwritten",
    ConditionReason.UNKNOWN: "unknown",
    ConditionReason.REFUSED: "refused",
    ConditionReason.DENIED: "denied",
    ConditionReason.BELOW_EXPECTED: "below expected",
}
"""Reason -> the words for it in texts for people."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A reason why the condition is not True."""

    reason: ConditionReason
    text: str
    """What is wrong, for people."""
    key: Key | None = None
    """The key in trouble; None if the trouble concerns the Node or the configuration as a whole."""

    @property
    def problem(self) -> str:
        """The reason, for people."""
        return _PROBLEMS[self.reason]

    @property
    def summary(self) -> str:
        """The trouble as a line of text."""
        return f"{self.key}: {self.problem}: {self.text}" if self.key else self.text

    def as_dict(self) -> dict[str, str | None]:
        """The trouble for JSON output."""
        return {
            "reason": self.reason.value,
            "name": self.key.name if self.key else None,
            "kind": self.key.kind if self.key else None,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for a Node."""

    node: NodeState
    """The Node before the plan."""
    changes: tuple[Change, ...]
    patch: Patch | None
    """What is written; None if nothing is written."""
    published: Mapping[Key, int]
    """The content of the annotation after the plan, even if the limit of writes delays the plan."""
    troubles: tuple[Trouble, ...] = ()
    """What is wrong with the Node after the plan."""
    waits: tuple[Wait, ...] = ()
    """What the plan delays, and until when."""
    is_limited: bool = False
    """Whether the limit of writes delays the whole plan."""
    retried: tuple[Key, ...] = ()
    """The keys of denied changes that must now be tried again, each in a patch of its own."""

    @property
    def written_changes(self) -> tuple[Change, ...]:
        """The changes that the patch makes."""
        return tuple(change for change in self.changes if change.action.writes)

    def with_written(self, written: Mapping[Key, Change]) -> Plan:
        """Adds the changes that earlier plans of the pass have written.

        If both this plan and an earlier plan write a key, this plan's change stays.
        """
        changes = {change.key: change for change in self.changes}
        for key, change in written.items():
            if key not in changes or not changes[key].action.writes:
                changes[key] = change
        return replace(self, changes=tuple(changes[key] for key in sorted(changes)))

    def as_dict(self) -> dict[str, object]:
        """The plan for JSON output, without the patch."""
        return {
            "node": self.node.name,
            "changes": [change.as_dict() for change in self.changes],
            "troubles": [trouble.as_dict() for trouble in self.troubles],
        }
