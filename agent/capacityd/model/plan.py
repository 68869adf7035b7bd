"""A plan to change a Node, and what of it this machine remembers. Nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from capacityd.model.quantity import plain
from capacityd.model.waits import Wait

Patch: TypeAlias = tuple[Mapping[str, object], ...]
"""A JSON Patch (RFC 6902)."""


class Action(str, Enum):
    """What a plan does to a name. The values are those in JSON."""

    SET = "set"
    REMOVE = "remove"
    KEEP = "keep"
    HOLD = "hold"  # it is changed later
    REFUSE = "refuse"  # the key is not ours
    DENY = "deny"  # the API server rejects the write

    @property
    def writes(self) -> bool:
        """Whether it changes the Node."""
        return self in (Action.SET, Action.REMOVE)


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan does to a name."""

    name: str
    action: Action
    old: str | None
    """The quantity before; None: absent."""
    new: str | None
    reason: str

    @property
    def summary(self) -> str:
        """What a change does, as Events and the journal have it. The same quantity: only allocatable changes."""
        old, new = plain(self.old), plain(self.new)
        return f"{self.name}: {self.reason}" if old == new else f"{self.name}: {old} → {new} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Health:
    """What keeps the Node condition from being True. All empty: it is True."""

    configuration_errors: tuple[str, ...] = ()
    unwritable: str = ""
    """Why this machine can't save what must last."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Name -> why it could not be read."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Name -> why the key is not ours."""
    unverified: tuple[str, ...] = ()
    """Names in the annotation that are not configured and that this machine's record lacks."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Name -> the reason of the API server."""
    below_expected: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name -> quantity, expected quantity."""
    not_allocatable: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name -> published quantity, allocatable. It is less and stays so, or a repair of it did not last."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What Events have reported and what still holds, so that no Event is repeated."""

    refused: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    below_expected: frozenset[str] = frozenset()
    configuration: str = ""
    """A hash of the errors of the configuration."""
    unknown: frozenset[str] = frozenset()
    """Only those that have been unknown for longer than a minute."""


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """What this machine has published, from its own file: the second witness beside the Node's annotation."""

    published: Mapping[str, int] = field(default_factory=dict)
    """Name -> quantity of the last write that was answered."""
    intended: Mapping[str, int] = field(default_factory=dict)
    """The same of a write that was about to be sent, whose response may be lost."""
    reported: Reported = Reported()
    node_uid: str = ""
    """The uid of the Node that it was published to."""

    def names(self, name: str) -> bool:
        """Whether this machine has published it, whatever its quantity."""
        return name in self.published or name in self.intended

    def confirms(self, name: str, quantity: int) -> bool:
        """Whether this machine may have published it with this quantity."""
        return quantity in (self.published.get(name), self.intended.get(name))


@dataclass(frozen=True, slots=True)
class Write:
    """What a plan writes: to the Node in one JSON Patch, and to the machine's record."""

    patch: Patch
    """Empty: the Node stays as it is."""
    annotated: Mapping[str, int]
    """The quantities in the annotation afterwards."""
    writes_annotations: bool = False
    """Whether the patch changes an annotation."""
    writes_condition: bool = False
    """Whether the patch changes our Node condition."""
    condition: tuple[str, str] | None = None
    """Reason and status of the Node condition that the patch sets; None if it sets none."""
    recorded: Mapping[str, int] | None = None
    """The quantities in the machine's record afterwards. None: the record stays as it is."""
    reported: Reported = Reported()
    """What Events have reported once those of this plan are created."""
    recovered: tuple[str, ...] = ()
    """Names that an Event has reported as below what is expected, and that no longer are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to a Node: what is decided about each name, what is written now, and what waits."""

    node: str
    changes: tuple[Change, ...]
    write: Write
    recorded_before: Mapping[str, int] = field(default_factory=dict)
    """The quantities in the machine's record, of the names that the annotation has, too."""
    reported_before: Reported = Reported()
    """What Events have reported before this plan."""
    waits: tuple[Wait, ...] = ()
    """The changes that limits hold back."""
    lower_since: Mapping[str, float] = field(default_factory=dict)
    """Name whose quantity is to be lower -> uptime since when it is."""
    less_allocatable: frozenset[str] = frozenset()
    """Names whose allocatable was less than what was published when the Node was read. None in observe mode, which can
    do nothing about it."""
    health: Health = Health()
    has_condition: bool = False
    """Whether a Node condition is kept."""
    node_uid: str = ""

    @property
    def changed_names(self) -> tuple[str, ...]:
        """Names whose quantity it changes."""
        return tuple(change.name for change in self.changes if change.action.writes)

    @property
    def refused(self) -> tuple[str, ...]:
        """Names whose key is not ours."""
        return tuple(change.name for change in self.changes if change.action is Action.REFUSE)

    @property
    def newly_refused(self) -> tuple[str, ...]:
        """Those that no Event has reported yet."""
        return tuple(name for name in self.refused if name not in self.reported_before.refused)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of resources that could not be read."""
        return tuple(self.health.unknown)

    def with_earlier(self, changes: Sequence[Change]) -> Plan:
        """The same plan, with the changes that were written before it was made."""
        merged = {change.name: change for change in (*self.changes, *changes)}
        merged |= {change.name: change for change in self.changes if change.action.writes}
        return replace(self, changes=tuple(merged[name] for name in sorted(merged)))

    def as_dict(self) -> dict[str, object]:
        """As JSON: node, changes, patch."""
        changes = [asdict(c) for c in self.changes]
        for change in changes:
            change |= {key: plain(change[key]) for key in ("old", "new") if change[key] is not None}
        return {"node": self.node, "changes": changes, "patch": list(self.write.patch)}
