"""The values on the Node's side: what it says, what is to happen to it, and what is told of that.

Nothing here reads, writes or decides. Apart from model.py, because a probe has no use for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ANNOTATION = "capacityd/published"
"""The annotation on the Node that records what we published: JSON, name -> quantity."""

CONDITION = "CapacityPublished"
"""The type of our Node condition."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A Node condition as the Node has it. index: its place in the Node's list."""

    status: str
    reason: str
    message: str
    index: int
    stored: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NodeState:
    """What the Node said when it was read.

    capacity, allocatable: name -> quantity, to the letter; capacity None: it has no such map. annotation: ours, to
    the letter, None if it has none. conditions: how many it has, None: it has no list. condition: the first of ours;
    surplus: further ones, which two of us that write at once can leave, because an append can't be guarded.
    """

    name: str
    uid: str
    capacity: Mapping[str, str] | None
    allocatable: Mapping[str, str]
    has_annotations: bool
    annotation: str | None
    conditions: int | None
    condition: Condition | None
    machine_id: str = ""
    surplus: tuple[Condition, ...] = ()
    heartbeat: float | None = None  # lastHeartbeatTime of the Ready condition, seconds since the epoch


@dataclass(frozen=True, slots=True)
class Change:
    """What is to happen to one name. action: set, remove, keep, hold or refuse; old, new: quantities, None: absent."""

    name: str
    action: str
    old: str | None
    new: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is to happen to a Node, and the one JSON Patch that does it (empty: nothing is written).

    published: the record after it. newly_refused: those that the Node's condition did not name yet.
    lower_since: name, while it is held back for that -> since when (seconds of uptime) its reading is lower.
    held: name -> until when (uptime) its change is held back. undone: names whose change, held back or not, undoes
    another writer's. delayed: the condition or the record is not as it shall be, and may not be written yet.
    """

    node: str
    changes: tuple[Change, ...]
    patch: tuple[Mapping[str, object], ...]
    published: Mapping[str, int]
    unknown: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    newly_refused: tuple[str, ...] = ()
    lower_since: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    undone: tuple[str, ...] = ()
    delayed: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """What is told of a Node to those who look at it. type: Normal or Warning. action: what was done for it."""

    type: str
    reason: str
    message: str
    action: str = ""
