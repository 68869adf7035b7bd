"""The observations that the judge is told, in the order in which they happen.

`at` is the time in seconds on a clock that nobody sets and that no reboot resets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from capacityd.model.reading import Reading

Document = Mapping[str, Any]
"""A Node as the API server sends it."""


class Writer(Enum):
    """Who changes the Node."""

    CAPACITYD = "capacityd"
    OTHER_CAPACITYD = "the capacityd of another machine"
    OTHER = "another writer"  # a kubelet, a person, a webhook


class Trouble(Enum):
    """A cause that may keep the Node from being right, in a user's words."""

    API = "the Node can't be read or written"  # server, credentials, connection, or the Node is missing
    ALTERED = "a webhook alters what capacityd writes about itself"  # the annotation or the condition
    DEAD_WATCH = "the watch is dead, and nobody has noticed"
    DENIED = "the API server denies what capacityd writes"
    OTHER_CAPACITYD = "another capacityd writes the Node"
    PLUGINS = "the list of device plugins can't be read"
    SOURCES = "an event was missed"  # of the machine
    STOPPED = "the service does not run, or starts"
    UNHEALTHY = "a kubelet keeps allocatable at 0"
    UNREADABLE = "a resource can't be read"
    WATCH = "the Node is not watched"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A configured resource."""

    adopt: bool = False
    label: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration in effect. Durations are in seconds."""

    resources: Mapping[str, Wanted] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    """The resources with an error."""
    complete: bool = True
    """Whether all files could be read."""
    observe: bool = False
    condition: bool = True
    lower_after: float = 0.0
    lower_after_boot: float = 0.0
    resync: float = 3600.0

    @property
    def may_remove(self) -> bool:
        """Whether keys that this configuration does not name may be removed."""
        return self.complete and bool(self.resources or self.broken)


@dataclass(frozen=True, slots=True)
class Booted:
    """The machine boots."""

    at: float


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration comes into effect."""

    at: float
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class MachineHas:
    """The true readings of the machine from now on, whether capacityd knows them or not."""

    at: float
    readings: Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class PassReads:
    """A pass reads the machine, and gets these readings."""

    at: float
    readings: Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class PluginsAre:
    """The names that device plugins have registered. None: the list can't be read."""

    at: float
    names: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Sees:
    """capacityd gets the Node in this state: by a GET, from a watch, or in the answer to a PATCH."""

    at: float
    node: Document | None


@dataclass(frozen=True, slots=True)
class Asks:
    """capacityd sends a PATCH that would turn the Node from `before` into `after`.

    is_part: whether the PATCH repeats a part of a denied one, and leaves the condition to a later PATCH.
    """

    at: float
    before: Document
    after: Document
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class NodeIs:
    """The Node has changed. None: the Node does not exist."""

    at: float
    node: Document | None
    by: Writer


@dataclass(frozen=True, slots=True)
class BacksUp:
    """The cluster's state is saved."""

    at: float


@dataclass(frozen=True, slots=True)
class Restores:
    """The Node becomes what it was at BacksUp. The owners of its keys become those of that time."""

    at: float
    node: Document | None


@dataclass(frozen=True, slots=True)
class Requests:
    """capacityd sends a request of any kind."""

    at: float


@dataclass(frozen=True, slots=True)
class Begins:
    """A trouble begins, or concerns other entries than before. No entries: the trouble concerns everything."""

    at: float
    trouble: Trouble
    entries: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ends:
    """A trouble ends."""

    at: float
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Hears:
    """The service receives an event."""

    at: float


@dataclass(frozen=True, slots=True)
class Forgets:
    """capacityd forgets everything: it starts, a pass was killed, or a PATCH has no answer."""

    at: float


@dataclass(frozen=True, slots=True)
class Remembers:
    """A pass has succeeded. From now on capacityd remembers the keys in the annotation."""

    at: float


@dataclass(frozen=True, slots=True)
class Shows:
    """capacityd shows this text to all users."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Looks:
    """Time has passed, and nothing else has happened."""

    at: float


Observation: TypeAlias = (
    Booted
    | Configured
    | MachineHas
    | PassReads
    | PluginsAre
    | Sees
    | Asks
    | NodeIs
    | BacksUp
    | Restores
    | Requests
    | Begins
    | Ends
    | Hears
    | Forgets
    | Remembers
    | Shows
    | Looks
)
