"""A plan to change a Node, and the part of it that this machine records. Nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from capacityd.model.label import resources_first
from capacityd.model.node import NodeState
from capacityd.model.other_agent import OtherAgent
from capacityd.model.quantity import plain
from capacityd.model.waits import Wait

Patch: TypeAlias = tuple[Mapping[str, object], ...]
"""A JSON Patch (RFC 6902)."""


class Action(str, Enum):
    """What a plan does to a name. The values are the same in JSON."""

    SET = "set"
    REMOVE = "remove"
    KEEP = "keep"
    HOLD = "hold"  # the change is made later
    REFUSE = "refuse"  # capacityd does not own the key
    DENY = "deny"  # the API server rejects the write

    @property
    def writes(self) -> bool:
        """Whether the action changes the Node."""
        return self in (Action.SET, Action.REMOVE)


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan does to a resource or a label."""

    name: str
    """The name of the resource, or of the label (model/label.py)."""
    action: Action
    old: str | None
    """The quantity before the plan, as stored; None: absent."""
    new: str | None
    """The desired quantity; as `old` if the action is KEEP or REFUSE. None: absent."""
    reason: str

    @property
    def summary(self) -> str:
        """The change as text, for Events and the journal. If old and new are equal, only allocatable changes."""
        old = plain(self.old)
        new = plain(self.new)
        if old == new:
            return f"{self.name}: {self.reason}"
        return f"{self.name}: {old} → {new} ({self.reason})"


UNSAVED = "nothing is lowered or removed, and new resources may be held back"
"""What a pass leaves undone while this machine can't save its state, for messages."""


@dataclass(frozen=True, slots=True)
class Health:
    """The problems that keep the Node condition from being True. If all fields are empty, it is True."""

    configuration_errors: tuple[str, ...] = ()
    unsaved: str = ""
    """Why this machine can't read or save its state."""
    other_agent: OtherAgent | None = None
    """Another capacityd that has recently written this Node."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Name -> why the resource could not be read."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Name -> why capacityd does not own the key."""
    unverified: tuple[str, ...] = ()
    """Names in the annotation that are neither configured nor in the machine record."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Name -> the API server's reason."""
    not_configured: tuple[str, ...] = ()
    """Published names that the Node keeps although nothing configures them."""
    below_expected: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name -> (quantity, expected quantity)."""
    not_allocatable: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name -> (published quantity, allocatable). Allocatable stays less, or was less again soon after a repair."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The problems that Events have reported and that still exist, by name, so that no Event is repeated."""

    refused: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    below_expected: frozenset[str] = frozenset()
    configuration: str = ""
    """A hash of the configuration's errors."""
    unknown: frozenset[str] = frozenset()
    """Only the names that have been unknown for longer than a minute."""


HOW_TO_WITHDRAW = "`systemctl stop capacityd`, then `capacityd withdraw`"
"""The commands that remove what this machine has published."""


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """The quantities that this machine has published, from its own file. They confirm the Node's annotation."""

    published: Mapping[str, int] = field(default_factory=dict)
    """Name -> quantity of the last write with a response."""
    intended: Mapping[str, int] = field(default_factory=dict)
    """Name -> quantity of a write that was about to be sent. Its response may have been lost."""
    reported: Reported = Reported()
    node_uid: str = ""
    """The uid of the Node with these quantities; "" in a record of a version that did not store it."""

    def of_node(self, uid: str) -> MachineRecord | None:
        """This record if it is about the Node with this uid; None if it says nothing about this Node.

        The Node may have been created again since, or the record may have come with an image of another machine. Then
        another writer's key can have the same name and quantity by chance.
        """
        return self if self.node_uid == uid else None

    @property
    def all_names(self) -> frozenset[str]:
        """Every name that this machine has published, or may have published."""
        return frozenset({*self.published, *self.intended})

    def has(self, name: str) -> bool:
        """Whether this machine has published, or may have published, the name with any quantity."""
        return name in self.published or name in self.intended

    def confirms(self, name: str, quantity: int) -> bool:
        """Whether this machine may have published the name with this quantity."""
        return quantity in (self.published.get(name), self.intended.get(name))


@dataclass(frozen=True, slots=True)
class Write:
    """A plan's writes: one JSON Patch to the Node, and the machine record."""

    patch: Patch
    """Empty: the Node is not written."""
    annotated: Mapping[str, int]
    """The quantities in the annotation after the write."""
    condition: tuple[str, str] | None = None
    """Reason and status of the Node condition after the write; None if no condition is kept."""
    condition_follows: bool = False
    """Whether the condition becomes True with a patch of its own, once the API server has stored this one."""
    recorded: Mapping[str, int] | None = None
    """Name -> published quantity that the machine record contains after the write. None: the record is not changed."""
    reported: Reported = Reported()
    """What Events have reported once this plan's Events are created."""
    recovered: tuple[str, ...] = ()
    """Names that an Event has reported as below the expected quantity, and that no longer are."""

    def changes(self, path: str) -> bool:
        """Whether the patch changes something at or below this path of the Node."""
        changed = [str(operation["path"]) for operation in self.patch if operation["op"] != "test"]
        return any(changed_path.startswith(path) for changed_path in changed)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for a Node: the decision about each name, what is written now, and what waits."""

    node: str
    changes: tuple[Change, ...]
    write: Write
    confirmed_record: MachineRecord = MachineRecord()
    """The machine record before this plan, without intentions, and with only the names that are published on this Node.
    If there is no machine record, the annotation's quantities count for configured names."""
    waits: tuple[Wait, ...] = ()
    """The changes that limits hold back."""
    lower_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> the uptime since when a reduction of its quantity has been due."""
    less_allocatable: Mapping[str, str] = field(default_factory=dict)
    """Name -> its allocatable before this plan, if less than the published quantity. Empty in observe mode."""
    awaits_device_plugins: bool = False
    """Whether keys are refused or less allocatable, perhaps only because the device plugins are unknown."""
    is_contradicted: bool = False
    """Whether another writer's condition on the Node says something else than this machine finds."""
    health: Health = Health()
    has_condition: bool = False
    """Whether a Node condition is kept."""

    @property
    def written_changes(self) -> tuple[Change, ...]:
        """The changes that the patch makes."""
        return tuple(change for change in self.changes if change.action.writes)

    @property
    def changed_names(self) -> tuple[str, ...]:
        """Names whose quantity the plan changes."""
        return tuple(change.name for change in self.written_changes)

    @property
    def refused(self) -> tuple[str, ...]:
        """Names whose keys capacityd does not own."""
        return tuple(change.name for change in self.changes if change.action is Action.REFUSE)

    @property
    def newly_refused(self) -> tuple[str, ...]:
        """Refused names that no Event has reported yet."""
        return tuple(name for name in self.refused if name not in self.confirmed_record.reported.refused)

    def with_earlier(self, changes: Sequence[Change]) -> Plan:
        """The plan, with the changes that the same pass wrote before this plan. A change that this plan writes wins."""
        merged = {change.name: change for change in (*self.changes, *changes)}
        merged |= {change.name: change for change in self.written_changes}
        return replace(self, changes=tuple(merged[name] for name in sorted(merged, key=resources_first)))

    def as_dict(self) -> dict[str, object]:
        """The plan for JSON output: node, changes, patch. Quantities are in plain digits."""
        changes = [asdict(change) for change in self.changes]
        for change in changes:
            for key in ("old", "new"):
                if change[key] is not None:
                    change[key] = plain(change[key])
        return {"node": self.node, "changes": changes, "patch": list(self.write.patch)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of carrying out a plan."""

    plan: Plan
    """The last plan, with all changes that were written."""
    node_state: NodeState
    """The Node after the writes."""
    applied: bool
    """Whether something was written."""
    warnings: tuple[str, ...] = ()
    """Errors from creating Events."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Name -> why the API server has denied its change in this attempt."""
    attempted: tuple[str, ...] = ()
    """The names with a change in the first patch of this attempt, whatever became of them."""

    @property
    def condition_not_stored(self) -> bool:
        """Whether the API server accepted the condition but did not store it; a policy or webhook may change it."""
        written = self.plan.write.condition
        stored = self.node_state.condition
        if self.applied and written is not None:
            return stored is None or (stored.reason, stored.status) != written
        # A limit holds the condition back: an earlier pass has written it. A plan without names writes no condition.
        needs_condition = self.plan.has_condition and bool(self.plan.changes)
        return needs_condition and stored is None
