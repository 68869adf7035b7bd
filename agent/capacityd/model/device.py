"""How a detector declares itself: what it can find, by which keys its devices match, and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from capacityd.model.host import Host, SystemDevices
from capacityd.model.matchers import Value
from capacityd.model.reading import Contribution
from capacityd.model.reasons import KernelEvents
from capacityd.model.setting_types import Setting
from capacityd.model.value_types import Kind


@dataclass(frozen=True, slots=True)
class Device:
    """Something that a detector can count."""

    path: str
    """Where it is on the machine: usually a folder in /sys."""
    name: str
    """What people call it."""
    system: Callable[[], SystemDevices] | None = field(default=None, compare=False, repr=False)
    """The devices that the operating system depends on: read once per pass, and only if a key needs it, because it
    reads every mount or route. None: the detector has no such key."""
    cached_values: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)
    """Values that find has read already; see cached()."""
    doubt: str = field(default="", compare=False)
    """Why it is unknown whether this is a device of its own: if it matches, the match is unknown. "": it is one."""


@dataclass(frozen=True, slots=True)
class Key:
    """A device attribute that the configuration can match. If read raises HostError, the match is unknown."""

    kind: Kind
    read: Callable[[Host, Device], Value]
    about: str


def cached(key: str) -> Callable[[Host, Device], Value]:
    """Reads a key from the device's cached values."""
    return lambda _, device: device.cached_values[key]


@dataclass(frozen=True, slots=True)
class Scope:
    """A required key whose literal values limit which subsystems are enumerated and subscribed to."""

    key: str
    find: Callable[[Host, Collection[str]], Iterable[Device]]
    """Yields the candidates in these subsystems."""


@dataclass(frozen=True, slots=True)
class DeviceDetector:
    """A detector that enumerates devices, of which a configuration picks some by their keys."""

    name: str
    about: str
    find: Callable[[Host], Iterable[Device]]
    """Yields every candidate. Raises HostError, after all that it could find, if there may be others."""
    keys: Mapping[str, Key]
    """By name. A key of type Amount is also a measure."""
    identity: tuple[str, ...]
    """The keys that distinguish a device from all others: used in this order until only that device matches."""
    alike: tuple[str, ...]
    """The keys that all devices of one model share."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Tests, as in TOML, that apply unless a table names their key."""
    subsystems: tuple[str, ...] = ()
    """Those of udev whose events start a pass."""
    events: frozenset[KernelEvents] = frozenset()
    """Further events of the kernel that start a pass."""
    scope: Scope | None = None
    """None: the detector always enumerates everything."""
    modalias: Callable[[Host, Device], str | None] | None = None
    """For `devices`: the key of the device in the hardware database, hwdb(7)."""
    words: tuple[str, ...] = ()
    """For `devices`: the keys whose values name the device."""
    suggest: Mapping[str, object] = field(default_factory=dict)
    """For `devices --toml`: further tests, as in TOML, that a device must pass to be suggested."""
    shown_by_default: bool = True
    """Whether `devices` lists them without the detector's name."""


@dataclass(frozen=True, slots=True)
class ValueDetector:
    """A detector that reads one whole number, as its settings say."""

    name: str
    about: str
    settings: Mapping[str, Setting]
    read: Callable[[Host, Mapping[str, object]], Contribution]
    """Returns the number and its source. If it raises HostError, the resource is unknown."""
    watched: str | None = None
    """The setting that holds the path of a file whose change starts a pass."""
    spawns: bool = False
    """Whether it runs programs."""


Detector: TypeAlias = "DeviceDetector | ValueDetector"
