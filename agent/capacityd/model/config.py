"""The configuration, parsed and merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.model.matchers import GlobMatcher, KeyMatcher
from capacityd.model.units import Unit


@dataclass(frozen=True, slots=True)
class Table:
    """One table below a detector's name."""

    tests: tuple[KeyMatcher, ...] = ()
    """For a DeviceDetector; all must match."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """For a ValueDetector."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is kept back of a resource."""

    units: int = 0
    """In the resource's unit."""
    share: tuple[int, int] = (0, 1)
    """Numerator and denominator of a share of the total."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A configured resource."""

    name: str
    detector: str
    tables: tuple[Table, ...]
    excepts: tuple[Table, ...] = ()
    when: tuple[KeyMatcher, ...] = ()
    measure: str | None = None  # None: count
    unit: Unit | None = None
    reduce: str = "sum"
    slots: int = 1
    reserve: Reserve = Reserve()
    fallback: int | None = None  # in base units of the measure
    adopt: bool = False
    expect: int | None = None
    """In units of the quantity. Less than this, or an absent resource, makes the Node condition False."""
    source: str = ""
    """The file that it is from."""

    def literals(self, key: str) -> tuple[str, ...]:
        """The text patterns of a key in its tables."""
        asked = (test for table in self.tables for test in table.tests if test.key == key)
        return tuple(sorted({m.pattern for test in asked for m in test.matchers if isinstance(m, GlobMatcher)}))


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything in the configuration but the resources. Durations are in seconds."""

    kubeconfig: str | None = None
    node_name: str | None = None
    observe: bool = False
    condition: bool = True
    lower_after: float = 10.0
    lower_after_boot: float = 60.0
    resync: float = 3600.0
    start_jitter: float = 0.0
    textfile: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The merged configuration."""

    resources: tuple[Resource, ...] = ()
    settings: Settings = Settings()
    broken: Mapping[str, str] = field(default_factory=dict)
    """Resources with an error -> the error. Their readings are unknown."""
    complete: bool = True
    """Whether every file could be parsed. If not, nothing is removed: a file may configure it."""
    digest: str = ""
    """A short hash of the effective configuration, the same on every machine that has the same files."""
