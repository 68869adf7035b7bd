"""TOML selectors. A selector is a resource's line that matches one device, or all devices of a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from capacityd.cli.inventory.found import FoundDevice
from capacityd.discovery.matcher import MatchResult, match_all, unknown_if_uncertain
from capacityd.schema.device import DeviceDetector
from capacityd.schema.matchers import GLOB_CHARACTERS, KeyMatcher, Value
from capacityd.schema.toml_values import toml_value
from capacityd.schema.units import UNITS
from capacityd.schema.value_types import Amount, Flag, HexId, Kind, Text

TomlValue: TypeAlias = str | bool | None
"""A value in a table. None: there is no such value."""

_ONLY_IN_BRACKETS = GLOB_CHARACTERS | {"|", ",", "\\", "^", "$", "+", "{", "<", ">"}
"""Characters that some keys accept as plain text only in brackets, such as a[,]b. Outside of brackets, such a key
rejects them, because the user may have meant a list of names (SEVERAL_NAMES in schema/mistakes.py), a comparison or a
regular expression."""


def match_tests(tests: Sequence[KeyMatcher], device: FoundDevice) -> MatchResult:
    """Whether all these tests match a device. The result's `matches` is None if a value could not be read, or if it
    is uncertain whether the device counts."""
    return unknown_if_uncertain(match_all(tests, device.read), device.uncertain_because)


@dataclass(frozen=True, slots=True)
class TomlSelector:
    """A detector's table that matches one device, or all devices of a kind."""

    toml: str
    """A line for the configuration, DETECTOR = { … }; "" if no table is known to match."""
    table: Mapping[str, object] = field(default_factory=dict)
    """The table as the TOML parser returns it."""
    count: int | None = None
    """Number of matching devices; None if a value could not be read, or if devices may be missing."""
    reason: str = ""
    """Why toml is empty."""


class DeviceIndex:
    """Finds the devices that a table matches. An index by value keeps the time linear, even for 10,000 devices.

    complete: whether devices contains all devices of the machine.
    """

    def __init__(self, detector: DeviceDetector, devices: Sequence[FoundDevice], *, complete: bool) -> None:
        self.detector = detector
        self.default_tests = key_matchers(detector, {})  # {}: the detector's defaults and no other tests
        self._complete = complete
        self._devices = devices
        # Result of _index_key() -> the devices that match.
        self._matching: dict[tuple[str, str], list[FoundDevice]] = {}
        self._unread: dict[str, list[FoundDevice]] = {}  # key -> devices whose value could not be read
        # Items of a table -> the result of select().
        self._selectors: dict[tuple[tuple[str, TomlValue], ...], TomlSelector] = {}
        for device in devices:
            for key in {*detector.identifying_keys, *detector.model_keys, *detector.defaults}:
                if key in device.unread:
                    self._unread.setdefault(key, []).append(device)
                    continue
                toml = toml_of(detector, device, key)
                if toml is not None:
                    self._matching.setdefault(_index_key(key, toml), []).append(device)

    def select(self, table: Mapping[str, TomlValue]) -> TomlSelector:
        """The selector with this table, which contains only keys of the model, identifying keys, and default keys."""
        items = tuple(table.items())
        if items not in self._selectors:
            tests = key_matchers(self.detector, table)
            results = [match_tests(tests, device).matches for device in self._candidates(table)]
            is_exact = self._complete and None not in results  # None: it is unknown whether a device matches
            count = results.count(True) if is_exact else None
            self._selectors[items] = TomlSelector(toml_line(self.detector.name, table), table=table, count=count)
        return self._selectors[items]

    def _candidates(self, table: Mapping[str, TomlValue]) -> Sequence[FoundDevice]:
        """The devices that match, or may match, the rarest value in the table."""
        candidates = self._devices
        for key, toml in table.items():
            matching = self._matching.get(_index_key(key, toml), [])
            unread = self._unread.get(key, [])
            if len(matching) + len(unread) < len(candidates):
                candidates = [*matching, *unread] if unread else matching
        return candidates


def _index_key(key: str, toml: TomlValue) -> tuple[str, str]:
    """A key and its TOML value, in lower case because the key may ignore case."""
    return key, str(toml).lower()


def unique_selector(index: DeviceIndex, device: FoundDevice) -> TomlSelector:
    """The selector for only this device, with as few of the detector's identifying keys as possible.

    The selector always contains the identifying keys that are also keys of the model, and at least one key.
    """
    detector = index.detector
    if reason := _why_unmatchable(index, device):
        return TomlSelector("", reason=reason)
    non_default = _non_default_table(index, device)
    table: dict[str, TomlValue] = {}
    for key in detector.identifying_keys:
        is_optional = bool(table) and key not in detector.model_keys
        if is_optional and index.select(table | non_default).count == 1:
            break
        toml = toml_of(detector, device, key)
        if toml not in (None, ""):  # a missing value does not identify the device
            table[key] = toml
    selector = index.select(table | non_default)
    if selector.count is None or selector.count == 1:  # None: it is unknown whether others match
        return selector
    keys = " and ".join(detector.identifying_keys)
    return TomlSelector("", reason=f"{selector.count} devices have the same {keys}")


def kind_selector(index: DeviceIndex, device: FoundDevice) -> TomlSelector:
    """The selector for all devices of the same kind. It contains KEY = "" for each missing text of the model."""
    if reason := _why_unmatchable(index, device):
        return TomlSelector("", reason=reason)
    table: dict[str, TomlValue] = {}
    for key in index.detector.model_keys:
        if key in device.unread:
            return TomlSelector("", reason=f"{key}: {device.unread[key]}")
        toml = toml_of(index.detector, device, key)
        if toml is not None:
            table[key] = toml
    return index.select(table | _non_default_table(index, device))


def key_matchers(detector: DeviceDetector, table: Mapping[str, object]) -> tuple[KeyMatcher, ...]:
    """The tests of a table, and of the detector's defaults for keys that the table lacks. table: key -> TOML value."""
    matchers = []
    for key, toml in {**detector.defaults, **table}.items():
        parsed = detector.keys[key].kind.parse(toml)
        matchers.append(KeyMatcher(key, matchers=parsed, text=str(toml)))
    return tuple(matchers)


def toml_line(detector: str, table: Mapping[str, object]) -> str:
    """The line DETECTOR = { … }."""
    return f"{detector} = {toml_value(table)}"


def toml_of(detector: DeviceDetector, device: FoundDevice, key: str) -> TomlValue:
    """The TOML value that matches the device's value of a key: "" for a missing text; None if no TOML value does."""
    kind = detector.keys[key].kind
    value = device.get(key)
    if value is None and isinstance(kind, Text | HexId):
        return ""
    return exact_toml_value(kind, value)


def exact_toml_value(kind: Kind, value: Value) -> TomlValue:
    """The TOML value that matches exactly this value of a device; None if no TOML value does."""
    if isinstance(kind, Flag):
        return value if isinstance(value, bool) else None
    if isinstance(kind, Amount) and isinstance(value, int):
        base_unit = next(iter(UNITS[kind.dimension]), "")  # the first unit; plain numbers have no unit
        return f"{value}{base_unit}"
    if not isinstance(value, str) or not value:
        return None
    # As few brackets as possible: "|" and others get brackets only if the key rejects them without brackets.
    for characters in (GLOB_CHARACTERS, _ONLY_IN_BRACKETS):
        text = "".join(f"[{char}]" if char in characters else char for char in value)
        try:
            matchers = kind.parse(text)
        except ValueError:  # the key does not accept the text
            continue
        return text if any(matcher.matches(value) for matcher in matchers) else None
    return None


def _why_unmatchable(index: DeviceIndex, device: FoundDevice) -> str:
    """Why no table is known to match the device; "" if a table matches it."""
    if device.uncertain_because:
        return device.uncertain_because
    for default in index.default_tests:
        key = default.key
        if key in device.unread:
            return f"{key}: {device.unread[key]}"
        is_excluded = not default.matches(device.get(key))
        if is_excluded and toml_of(index.detector, device, key) is None:
            return f"it has no {key}, and the default is {key} = {toml_value(index.detector.defaults[key])}"
    return ""


def _non_default_table(index: DeviceIndex, device: FoundDevice) -> dict[str, TomlValue]:
    """What a table must contain because the detector's defaults would exclude the device: key -> TOML value."""
    table: dict[str, TomlValue] = {}
    for default in index.default_tests:
        if not default.matches(device.get(default.key)):
            table[default.key] = toml_of(index.detector, device, default.key)
    return table
