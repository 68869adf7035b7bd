"""What surrounds capacityd: its configuration, the writers of its Node, and troubles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

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
class ConfiguredResource:
    """A configured resource."""

    adopt: bool = False
    label: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration in effect. Durations are in seconds."""

    resources: Mapping[str, ConfiguredResource] = field(default_factory=dict)
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
