"""The configuration, parsed and merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capacityd.model.key import Key
from capacityd.schema.matchers import KeyMatcher
from capacityd.schema.setting_types import (
    BOOLEAN,
    NODE_NAME,
    Reserve,
    Setting,
    SettingType,
    SettingValue,
    duration,
    file_path,
)
from capacityd.schema.units import FACTORS

_NO_RESERVE = Reserve()
REDUCTIONS: Mapping[str, Callable[[Sequence[int]], int]] = {"sum": sum, "min": min, "max": max}
"""Value of the setting reduce -> the function that combines the devices' shares. A share is measure times slots."""


@dataclass(frozen=True, slots=True)
class Table:
    """A TOML table below the detector's name or `except` in a resource."""

    tests: tuple[KeyMatcher, ...] = ()
    """For a DeviceDetector: the tests of a device's keys, all of which must match."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """For a ValueDetector: the value of each of its settings."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A configured resource. RESOURCE_KEYS in config/keys.py describes its keys in TOML."""

    name: str
    detector: str
    tables: tuple[Table, ...]
    """A device counts if it matches one of these tables."""
    excepts: tuple[Table, ...] = ()
    """A device does not count if it matches one of these tables."""
    when: tuple[KeyMatcher, ...] = ()
    """Tests of the machine, all of which must match. Otherwise the resource is absent."""
    measure: str | None = None  # None: the devices are counted
    unit: str | None = None  # None: the quantity is a plain number
    reduce: str = "sum"  # a key of REDUCTIONS
    slots: int = 1  # pods that can share one device
    reserve: Reserve = _NO_RESERVE
    fallback: int | None = None
    """The measure, in base units, of a device that does not report it. None: the device makes the resource unknown."""
    adopt: bool = False  # whether to take over the Node's key from another writer
    label: bool = False  # whether to publish the quantity also as a label
    expect: int | None = None
    """The expected quantity. If the machine has less, or the resource is absent, the Node's condition CapacityPublished
    is False. None: no quantity is expected."""
    source: str = ""
    """The path of the file that configures the resource."""

    def reduced(self, shares: Sequence[int]) -> int:
        """Combines the devices' shares with the function that `reduce` names."""
        return REDUCTIONS[self.reduce](shares)

    def quantity_of(self, shares: Sequence[int]) -> int:
        """The quantity in the resource's unit: the combined shares minus the reserve, rounded down. It may be negative.

        shares: the devices' shares, in base units.
        """
        total = self.reduced(shares)
        published_percent = 100 - self.reserve.percent
        units = total * published_percent // (100 * self.base_units)  # one division, so that only the result is rounded
        return units - self.reserve.units

    @property
    def base_units(self) -> int:
        """The number of base units in the resource's unit: 10**6 for "MHz", 1 for a plain number."""
        return FACTORS[self.unit] if self.unit else 1

    def has_test(self, key: str) -> bool:
        """Whether a table of the resource or of its `except` tests this key."""
        return bool(_tests_of_key(key, (*self.tables, *self.excepts)))

    @property
    def when_paths(self) -> tuple[str, ...]:
        """The paths whose existence `when` tests."""
        paths: list[str] = []
        for test in self.when:
            if test.key == "path":
                paths += test.patterns
        return tuple(paths)

    def texts_for(self, key: str) -> tuple[str, ...]:
        """The texts and globs for this key in the resource's tables, sorted.

        Leaves out the tables of `except`, because they only exclude devices.
        """
        texts: set[str] = set()
        for test in _tests_of_key(key, self.tables):
            texts.update(test.patterns)
        return tuple(sorted(texts))


def _tests_of_key(key: str, tables: Sequence[Table]) -> list[KeyMatcher]:
    return [test for table in tables for test in table.tests if test.key == key]


def _setting(table: str, type_: SettingType, about: str, default: object = None) -> Any:
    """Declares a field of Settings as a key of a TOML table. default: a TOML value, or None for no default.

    config/keys.py reads the table's name and the Setting from the field's metadata.
    """
    value = None if default is None else type_.parse(default)
    return field(default=value, metadata={table: Setting(type_, about=about, default=default)})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings outside of resources. The parser, the manual page and the reference use these declarations.

    Durations are in seconds.
    """

    kubeconfig: str | None = _setting("kubernetes", file_path(), "instead of the kubelet's own")
    node_name: str | None = _setting(
        "kubernetes", NODE_NAME, "the Node's name, if it can't be derived from the credentials or the host name"
    )
    observe: bool = _setting(
        "kubernetes", BOOLEAN, "true: read and report; only `withdraw` writes to the Node", default=False
    )
    condition: bool = _setting(
        "kubernetes", BOOLEAN, "whether to keep the condition CapacityPublished on the Node", default=True
    )
    lower_after: float = _setting(
        "service",
        duration(least="0s", most="1d"),
        "how long a lower quantity must hold before it is written",
        default="10s",
    )
    lower_after_boot: float = _setting(
        "service",
        duration(least="0s", most="3min"),  # the setting applies only in the first three minutes after boot
        "lower_after is at least this long in the first three minutes after boot",
        default="1min",
    )
    resync: float = _setting(
        "service",
        duration(least="1s", most="1d"),
        "the longest time without a pass; at random, a pass runs up to a fifth earlier",
        default="1h",
    )
    start_jitter: float = _setting(
        "service",
        duration(least="0s", most="1h"),
        "the service waits up to this time, at random, before its first request",
        default="0s",
    )
    textfile: str | None = _setting(
        "service", file_path(ending=".prom"), "a metrics file for node_exporter's textfile collector"
    )


@dataclass(frozen=True, slots=True)
class Config:
    """The merged configuration."""

    resources: tuple[Resource, ...] = ()
    settings: Settings = Settings()
    broken: Mapping[str, str] = field(default_factory=dict)
    """Name of each resource with an error -> the error. The reading of such a resource is unknown."""
    complete: bool = True
    """Whether all resources are known. If false, nothing is removed from the Node, because a key of the Node may belong
    to an unknown resource."""
    digest: str = ""
    """A short hash of the effective configuration. Machines with the same files have the same hash."""

    def expectations(self) -> dict[str, int]:
        """Name -> expected quantity, for resources with `expect`."""
        return {resource.name: resource.expect for resource in self.resources if resource.expect is not None}

    def adopts(self, name: str) -> bool:
        """Whether capacityd may take over this resource, and its label, from another writer."""
        return any(resource.adopt for resource in self.resources if resource.name == name)

    def labels(self) -> frozenset[Key]:
        """The labels to publish."""
        return frozenset(Key(resource.name).label for resource in self.resources if resource.label)
