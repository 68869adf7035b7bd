"""The values that flow from the machine to a reading; see kinds.py for what a configuration asks of a device, and
capacity.py for what flows on to the Node.

Nothing here reads, writes or decides. Quantities are whole numbers, as Kubernetes wants them for extended resources;
measures are whole numbers in base units (bytes, bit/s, or plain numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from capacityd.evidence import Evidence as Evidence
from capacityd.kinds import Glob
from capacityd.kinds import Value as Value

if TYPE_CHECKING:
    from capacityd.explanation import Explanation, Rejection
    from capacityd.host import Host, System
    from capacityd.kinds import Kind, Test, Unit
    from capacityd.settings import Setting


@dataclass(frozen=True, slots=True)
class Device:
    """One thing that a detector can count. path: where it is on the machine; name: what people call it.

    system: which devices of the same look the machine itself stands on; worked out once for all of them, and only when
    somebody asks, because it reads every mount or route. None: the detector has no such notion. said: what the finder
    has read of it on the way.
    """

    path: str
    name: str
    system: Callable[[], System] | None = field(default=None, compare=False, repr=False)
    said: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Key:
    """One thing to match devices by. read may raise HostError: then it is unknown whether the device matches."""

    kind: Kind
    read: Callable[[Host, Device], Value]
    about: str


@dataclass(frozen=True, slots=True)
class Scope:
    """A key that every table must have, with whole names: where a detector of anything looks, and whose events of
    udev's it wants to hear. find: the candidates below these names."""

    key: str
    find: Callable[[Host, Collection[str]], Iterable[Device]]


@dataclass(frozen=True, slots=True)
class DeviceDetector:
    """A detector that enumerates devices, of which a configuration picks some by their keys.

    find yields every candidate. keys: name -> what it holds and how it is read; one of kind Amount is a measure too.
    defaults: tests (as in TOML) that hold unless the table names that key. identity: the keys that tell one device from
    others: taken in this order, missing ones left out, until only this device matches; alike: those that all devices
    of its kind share. subsystems: udev's, whose events call for a new look; links, addresses, mounts: whether changes
    of those do too. scope: None: it always looks at all that it knows.

    For people who look at devices: modalias: what the hardware database knows a device by (hwdb(7)); words: the keys in
    which a device names itself; suggest: tests (as in TOML) that a device must pass to be put into a starter
    configuration, beside the defaults; listed: whether its devices are listed without being asked for.
    """

    name: str
    about: str
    find: Callable[[Host], Iterable[Device]]
    keys: Mapping[str, Key]
    identity: tuple[str, ...]
    alike: tuple[str, ...]
    defaults: Mapping[str, object] = field(default_factory=dict)
    subsystems: tuple[str, ...] = ()
    links: bool = False
    addresses: bool = False
    mounts: bool = False
    scope: Scope | None = None
    modalias: Callable[[Host, Device], str | None] | None = None
    words: tuple[str, ...] = ()
    suggest: Mapping[str, object] = field(default_factory=dict)
    listed: bool = True


@dataclass(frozen=True, slots=True)
class ValueDetector:
    """A detector that yields one whole number, as its settings say.

    read returns the number and what it rests on, or raises HostError: then the resource is unknown.
    watched: the setting that holds the path of a file whose change calls for a new look. spawns: it runs programs.
    """

    name: str
    about: str
    settings: Mapping[str, Setting]
    read: Callable[[Host, Mapping[str, object]], Evidence]
    watched: str | None = None
    spawns: bool = False


Detector: TypeAlias = "DeviceDetector | ValueDetector"


@dataclass(frozen=True, slots=True)
class Table:
    """One table below a detector's name. tests: all must hold. settings: for a ValueDetector."""

    tests: tuple[Test, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is kept back: a whole number of the resource's units, and numerator/denominator of the total."""

    units: int = 0
    share: tuple[int, int] = (0, 1)


@dataclass(frozen=True, slots=True)
class Resource:
    """One configured resource. source: the file that it is from."""

    name: str
    detector: str
    tables: tuple[Table, ...]
    excepts: tuple[Table, ...] = ()
    when: tuple[Test, ...] = ()
    measure: str | None = None  # None: count
    unit: Unit | None = None
    reduce: str = "sum"
    slots: int = 1
    reserve: Reserve = Reserve()
    fallback: int | None = None  # in base units of the measure
    adopt: bool = False
    source: str = ""

    def named(self, key: str) -> tuple[str, ...]:
        """The texts that its tables ask for under a key."""
        asked = (test for table in self.tables for test in table.tests if test.key == key)
        return tuple(sorted({p.pattern for test in asked for p in test.patterns if isinstance(p, Glob)}))


@dataclass(frozen=True, slots=True)
class Quantity:
    """The machine has this much."""

    value: int
    evidence: tuple[Evidence, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    warning: str = ""
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """We looked and found none."""

    reason: str
    rejections: tuple[Rejection, ...] = ()
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """We could not look. What was published before stands."""

    reason: str
    rejections: tuple[Rejection, ...] = ()
    explanation: Explanation | None = None


Reading: TypeAlias = Quantity | Absent | Unknown


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says beside the resources. Durations in seconds."""

    kubeconfig: str | None = None
    node_name: str | None = None
    observe: bool = False
    condition: bool = True
    lower_after: float = 10.0
    lower_after_boot: float = 60.0
    recheck: float = 3600.0
    start_jitter: float = 0.0
    textfile: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The merged configuration. broken: resources that can't be read for a mistake -> the mistake; they are unknown.

    complete: every file could be parsed. Else nothing may be removed: the missing part may name it.
    """

    resources: tuple[Resource, ...] = ()
    settings: Settings = Settings()
    broken: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
