"""TOML selectors: the line of a resource that matches one device, or all devices of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from capacityd.config.toml import toml_value
from capacityd.discovery.matcher import MatchResult, match_all, with_doubt
from capacityd.model.device import DeviceDetector
from capacityd.model.errors import HostError
from capacityd.model.matchers import GLOB_CHARACTERS, KeyMatcher, Value
from capacityd.model.units import UNITS
from capacityd.model.value_types import Amount, Flag, HexId, Kind, Text

_CLASS_ONLY = GLOB_CHARACTERS | {"|", ","}
"""Characters that some keys accept in a class only."""


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """A device's values, as its detector reads them."""

    by_key: Mapping[str, Value]
    """Without the keys that the device does not have."""
    unread: Mapping[str, HostError]
    """Key -> why it could not be read."""
    doubt: str = ""
    """Why it is unknown whether it is a device of its own; "" if it is one."""

    def get(self, key: str) -> Value:
        """Returns the value, None if the device has none or it could not be read."""
        return self.by_key.get(key)

    def read(self, key: str) -> Value:
        """Returns the value, None if the device has none. Raises HostError if it could not be read."""
        if key in self.unread:
            raise self.unread[key].with_traceback(None)
        return self.by_key.get(key)


def match_values(tests: Sequence[KeyMatcher], device: DeviceValues) -> MatchResult:
    """Whether a device counts by these tests."""
    return with_doubt(match_all(tests, device.read), device.doubt)


@dataclass(frozen=True, slots=True)
class TomlSelector:
    """The table of a detector that matches certain devices."""

    toml: str
    """The line of a resource, DETECTOR = { … }; "" if no table matches these devices for certain."""
    table: Mapping[str, object] = field(default_factory=dict)
    """The same as the TOML parser returns it."""
    count: int | None = None
    """The number of devices that it matches; None: unknown, because a value could not be read."""
    reason: str = ""
    """Why there is no toml."""


class DeviceIndex:
    """A machine's devices by their values, so that a selector for each of 10,000 devices is found in linear time.

    error: why there may be further devices; "" if there are none.
    """

    def __init__(self, detector: DeviceDetector, devices: Sequence[DeviceValues], error: str = "") -> None:
        self.detector = detector
        self._complete = not error
        self._devices = devices
        self._by_value: dict[tuple[str, str], list[DeviceValues]] = {}
        self._unread: dict[str, list[DeviceValues]] = {}
        for device in devices:
            for key in detector.keys:
                if key in device.unread:
                    self._unread.setdefault(key, []).append(device)
                else:
                    self._by_value.setdefault((key, _folded(device.get(key))), []).append(device)
        self._selectors: dict[tuple[tuple[str, Value], ...], TomlSelector] = {}

    def select(self, wanted: Mapping[str, Value]) -> TomlSelector:
        """Returns the selector for devices with these values; "" means that a device lacks the key."""
        items = tuple(wanted.items())
        if items not in self._selectors:
            keys = self.detector.keys
            table = {key: "" if value == "" else exact_match(keys[key].kind, value) for key, value in items}
            tests = key_matchers(self.detector, table)
            results = [match_values(tests, device).matches for device in self._candidates(items)]
            count = sum(map(bool, results)) if self._complete and None not in results else None
            self._selectors[items] = TomlSelector(toml_line(self.detector.name, table), table, count)
        return self._selectors[items]

    def _candidates(self, wanted: Iterable[tuple[str, Value]]) -> Sequence[DeviceValues]:
        """The devices that may match: those that have, or may have, the value that the fewest have."""
        by_key = [(self._by_value.get((k, _folded(v)), ()), self._unread.get(k, ())) for k, v in wanted]
        having, unread = min(by_key, key=lambda devices: sum(map(len, devices)), default=(self._devices, ()))
        return [*having, *unread]


def unique_selector(index: DeviceIndex, device: DeviceValues) -> TomlSelector:
    """The selector for this device only, by as few keys of the detector's identity as possible."""
    detector = index.detector
    base, reason = _non_default_values(detector, device)
    if reason:
        return TomlSelector("", reason=reason)
    least = 1
    while detector.identity[:least] == detector.alike[:least] and least < len(detector.alike):
        least += 1  # a vendor alone says too little, even if this is its only device now
    wanted: dict[str, Value] = {}
    for key in detector.identity:
        if len(wanted) >= least and index.select(wanted | base).count == 1:
            break
        if exact_match(detector.keys[key].kind, device.get(key)) is not None:
            wanted[key] = device.get(key)
    selector = index.select(wanted | base)
    if selector.count in (1, None):
        return selector
    return TomlSelector("", reason=f"{selector.count} devices have the same {' and '.join(detector.identity)}")


def kind_selector(index: DeviceIndex, device: DeviceValues) -> TomlSelector:
    """The selector for all devices of the same kind. Names a missing key only if that excludes other devices."""
    detector = index.detector
    base, reason = _non_default_values(detector, device)
    unread = [f"{key}: {device.unread[key]}" for key in detector.alike if key in device.unread]
    if reason or unread:
        return TomlSelector("", reason=reason or unread[0])
    kinds = {key: detector.keys[key].kind for key in detector.alike}
    wanted = {key: device.get(key) for key in kinds if exact_match(kinds[key], device.get(key)) is not None} | base
    missing = {key: "" for key in kinds if key not in device.by_key and isinstance(kinds[key], Text | HexId)}
    short, exact = index.select(wanted), index.select(wanted | missing)
    short_is_enough = bool(wanted) and short.count is not None and short.count == exact.count
    return short if short_is_enough else exact


def key_matchers(detector: DeviceDetector, table: Mapping[str, object]) -> tuple[KeyMatcher, ...]:
    """The tests of a table, with the detector's defaults, as the configuration compiles them."""
    wanted = {**detector.defaults, **table}
    return tuple(KeyMatcher(key, detector.keys[key].kind.parse(raw), str(raw)) for key, raw in wanted.items())


def toml_line(detector: str, table: Mapping[str, object]) -> str:
    """Returns DETECTOR = { … }."""
    return f"{detector} = {toml_value(table)}"


def exact_match(kind: Kind, value: Value) -> str | bool | None:
    """Returns the TOML that matches this value and no other, None if there is none."""
    if isinstance(kind, Flag):
        return value if isinstance(value, bool) else None
    if isinstance(kind, Amount) and isinstance(value, int):
        return f"{value}{next(iter(UNITS[kind.dimension]), '')}"
    if not isinstance(value, str) or not value:
        return None
    for special in (GLOB_CHARACTERS, _CLASS_ONLY):
        text = "".join(f"[{char}]" if char in special else char for char in value)
        with suppress(ValueError):
            return text if any(pattern.matches(value) for pattern in kind.parse(text)) else None
    return None


def _non_default_values(detector: DeviceDetector, device: DeviceValues) -> tuple[dict[str, Value], str]:
    """Returns the device's values that a default would exclude, or why no table matches it for certain."""
    if device.doubt:
        return {}, device.doubt
    values: dict[str, Value] = {}
    for default in key_matchers(detector, {}):
        key, value = default.key, device.get(default.key)
        if key in device.unread:
            return {}, f"{key}: {device.unread[key]}"
        if default.matches(value):
            continue
        kind = detector.keys[key].kind
        if value is None and isinstance(kind, Text | HexId):
            values[key] = ""
        elif exact_match(kind, value) is not None:
            values[key] = value
        else:
            return {}, f"it has no {key}, and the default is {key} = {toml_value(detector.defaults[key])}"
    return values, ""


def _folded(value: Value) -> str:
    """The same text for all values that one exact match may match."""
    return str(value or "").lower()
