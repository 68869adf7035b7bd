"""Which events of a source concern a configuration: those that no configured resource can match start no pass.

The check of the configuration makes the filters; the resident process applies them and imports this module, so this
module imports little. A filter may let through more events than concern the configuration, but never fewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind, and a glob of the names of this kind."""

    kind: str = "*"
    """A kind of the detector filesystem or nic; "*": every kind."""
    name: str = "*"


@dataclass(frozen=True, slots=True)
class MountFilter:
    """The mounts that concern a configuration."""

    counted: tuple[Pattern, ...] = ()
    """The kinds and mount points of the file systems that the configuration may count."""
    system_disks: bool = False
    """Whether the configuration depends on the disks below the machine's file systems."""
    system_points: frozenset[str] = frozenset()
    """Mount points of the machine's file systems, such as "/", without the folders below them."""
    system_trees: tuple[str, ...] = ()
    """Folders in which every mount belongs to the machine's file systems."""


@dataclass(frozen=True, slots=True)
class LinkFilter:
    """The network links that concern a configuration. Links with hardware always do."""

    software: tuple[Pattern, ...] = ()
    """The kinds and names of the links without hardware that the configuration may count."""
    system: bool = False
    """Whether the configuration depends on the links below the machine's default routes."""


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """A network, and a glob of the names of interfaces."""

    network: str = "*"
    """Such as 192.0.2.0/24; "*": every network."""
    interface: str = "*"
    link_local: bool = False
    """Whether addresses of scope link and host concern the configuration; each pod has such an address."""


@dataclass(frozen=True, slots=True)
class EventFilters:
    """The events that concern a configuration. By default, all but those of link-local addresses: the patterns match
    every kind and name, so the other fields of a filter do not matter."""

    mounts: MountFilter = MountFilter(counted=(Pattern(),))
    links: LinkFilter = LinkFilter(software=(Pattern(),))
    addresses: tuple[AddressPattern, ...] = (AddressPattern(),)
    udev_software_links: bool = True
    """Whether events of udev about links without hardware concern the configuration."""


ALL_EVENTS = EventFilters()
NO_EVENTS = EventFilters(mounts=MountFilter(), links=LinkFilter(), addresses=(), udev_software_links=False)


def either(a: EventFilters, b: EventFilters) -> EventFilters:
    """The events that concern at least one of two configurations."""
    mounts = MountFilter(
        counted=_union(a.mounts.counted, b.mounts.counted),
        system_disks=a.mounts.system_disks or b.mounts.system_disks,
        system_points=a.mounts.system_points | b.mounts.system_points,
        system_trees=_union(a.mounts.system_trees, b.mounts.system_trees),
    )
    links = LinkFilter(software=_union(a.links.software, b.links.software), system=a.links.system or b.links.system)
    return EventFilters(
        mounts=mounts,
        links=links,
        addresses=_union(a.addresses, b.addresses),
        udev_software_links=a.udev_software_links or b.udev_software_links,
    )


def _union(a: Iterable[_T], b: Iterable[_T]) -> tuple[_T, ...]:
    """The items of both, each once, in this order."""
    return tuple(dict.fromkeys((*a, *b)))
