"""TOML selectors: a resource's line that matches one device, or all devices of a kind."""

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

_ONLY_IN_BRACKETS = GLOB_CHARACTERS | {"|", ","}
"""Characters that some keys accept only in a class of a glob, such as a[,]b: see SEVERAL_NAMES in model/mistakes.py."""


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """A device's values, as read by its detector."""

    by_key: Mapping[str, Value]
    """Key -> value, without the keys that the device lacks."""
    unread: Mapping[str, HostError]
    """Key -> why its value could not be read."""
    uncertain_because: str = ""
    """As in FoundDevice: why this may be no device of its own; "" if it is one."""

    def get(self, key: str) -> Value:
        """The value; None if the device has none, or if it could not be read."""
        return self.by_key.get(key)

    def read(self, key: str) -> Value:
        """The value; None if the device has none. Raises HostError if the value could not be read."""
        if key in self.unread:
            raise self.unread[key].with_traceback(None)  # raised many times: each time would extend its traceback
        return self.by_key.get(key)


def match_values(tests: Sequence[KeyMatcher], device: DeviceValues) -> MatchResult:
    """Whether these tests match a device."""
    return with_doubt(match_all(tests, device.read), device.uncertain_because)


@dataclass(frozen=True, slots=True)
class TomlSelector:
    """A detector's table that matches certain devices."""

    toml: str
    """The resource's line, DETECTOR = { … }; "" if no table is certain to match these devices."""
    table: Mapping[str, object] = field(default_factory=dict)
    """The table as the TOML parser returns it."""
    count: int | None = None
    """Number of matching devices; None: unknown, because a value could not be read or devices may be missing."""
    reason: str = ""
    """Why toml is empty."""


class DeviceIndex:
    """Indexes a machine's devices by their values, so that selectors for 10,000 devices are found in linear time.

    incomplete_because: why there may be more devices than these; "" if there are none.
    """

    def __init__(self, detector: DeviceDetector, devices: Sequence[DeviceValues], incomplete_because: str = "") -> None:
        self.detector = detector
        self._complete = not incomplete_because
        self._devices = devices
        self._by_value: dict[tuple[str, str], list[DeviceValues]] = {}  # key and folded value -> devices with it
        self._unread: dict[str, list[DeviceValues]] = {}  # key -> devices whose value could not be read
        for device in devices:
            for key in detector.keys:
                if key in device.unread:
                    self._unread.setdefault(key, []).append(device)
                else:
                    self._by_value.setdefault((key, _folded(device.get(key))), []).append(device)
        # The results of select(): wanted keys and values -> selector.
        self._selectors: dict[tuple[tuple[str, Value], ...], TomlSelector] = {}

    def select(self, wanted: Mapping[str, Value]) -> TomlSelector:
        """The selector for devices with these values. The value "" means that a device lacks the key."""
        items = tuple(wanted.items())
        if items not in self._selectors:
            keys = self.detector.keys
            table = {key: "" if value == "" else exact_match(keys[key].kind, value) for key, value in items}
            tests = key_matchers(self.detector, table)
            results = [match_values(tests, device).matches for device in self._candidates(items)]
            # A result is None if a value that decides it could not be read.
            count = results.count(True) if self._complete and None not in results else None
            toml = toml_line(self.detector.name, table)
            self._selectors[items] = TomlSelector(toml, table=table, count=count)
        return self._selectors[items]

    def _candidates(self, wanted: Iterable[tuple[str, Value]]) -> Sequence[DeviceValues]:
        """The devices that may match: those with, or possibly with, the rarest of these values."""
        candidates_by_key = [
            (self._by_value.get((key, _folded(value)), ()), self._unread.get(key, ())) for key, value in wanted
        ]
        if not candidates_by_key:
            return self._devices
        having, unread = min(candidates_by_key, key=lambda lists: len(lists[0]) + len(lists[1]))
        return [*having, *unread]


def unique_selector(index: DeviceIndex, device: DeviceValues) -> TomlSelector:
    """The selector for only this device, with as few of the detector's identity keys as possible."""
    detector = index.detector
    base, reason = _non_default_values(detector, device)
    if reason:
        return TomlSelector("", reason=reason)
    # If identity begins with the keys of the model (vendor, device), the selector contains at least all of these: a
    # vendor alone is too vague, even if this is the vendor's only device now.
    least = 1  # number of identity keys to use at least
    while detector.identity[:least] == detector.same_model[:least] and least < len(detector.same_model):
        least += 1
    wanted: dict[str, Value] = {}
    for key in detector.identity:
        if len(wanted) >= least and index.select(wanted | base).count == 1:
            break
        if exact_match(detector.keys[key].kind, device.get(key)) is not None:
            wanted[key] = device.get(key)
    selector = index.select(wanted | base)
    if selector.count is None or selector.count == 1:
        return selector
    return TomlSelector("", reason=f"{selector.count} devices have the same {' and '.join(detector.identity)}")


def kind_selector(index: DeviceIndex, device: DeviceValues) -> TomlSelector:
    """The selector for all devices of the same kind. Includes a missing key only if this excludes other devices."""
    detector = index.detector
    base, reason = _non_default_values(detector, device)
    unread = [f"{key}: {device.unread[key]}" for key in detector.same_model if key in device.unread]
    if reason or unread:
        return TomlSelector("", reason=reason or unread[0])
    kinds = {key: detector.keys[key].kind for key in detector.same_model}
    present = {key: device.get(key) for key in kinds if exact_match(kinds[key], device.get(key)) is not None}
    missing = {key: "" for key in kinds if key not in device.by_key and isinstance(kinds[key], Text | HexId)}
    short = index.select(present | base)
    exact = index.select(present | base | missing)
    has_keys = bool(present or base)
    short_is_enough = has_keys and short.count is not None and short.count == exact.count
    return short if short_is_enough else exact


def key_matchers(detector: DeviceDetector, table: Mapping[str, object]) -> tuple[KeyMatcher, ...]:
    """The tests of a table and of the detector's defaults, as config/ compiles them. table: in TOML's form."""
    with_defaults = {**detector.defaults, **table}
    return tuple(
        KeyMatcher(key, matchers=detector.keys[key].kind.parse(raw), text=str(raw))
        for key, raw in with_defaults.items()
    )


def toml_line(detector: str, table: Mapping[str, object]) -> str:
    """The line DETECTOR = { … }."""
    return f"{detector} = {toml_value(table)}"


def exact_match(kind: Kind, value: Value) -> str | bool | None:
    """The TOML that matches exactly this value; None if there is none."""
    if isinstance(kind, Flag):
        return value if isinstance(value, bool) else None
    if isinstance(kind, Amount) and isinstance(value, int):
        base_unit = next(iter(UNITS[kind.dimension]), "")  # UNITS lists it first; plain numbers have none
        return f"{value}{base_unit}"
    if not isinstance(value, str) or not value:
        return None
    # With as few brackets as possible: more of them only if the key does not accept the text with fewer.
    for special in (GLOB_CHARACTERS, _ONLY_IN_BRACKETS):
        text = "".join(f"[{char}]" if char in special else char for char in value)
        with suppress(ValueError):
            matchers = kind.parse(text)
            return text if any(matcher.matches(value) for matcher in matchers) else None
    return None


def _non_default_values(detector: DeviceDetector, device: DeviceValues) -> tuple[dict[str, Value], str]:
    """The values that a table must name because the detector's defaults would exclude the device.

    Also returns why it is uncertain that any table matches the device; then there are no values. Otherwise "".
    """
    if device.uncertain_because:
        return {}, device.uncertain_because
    values: dict[str, Value] = {}
    for default in key_matchers(detector, {}):
        key = default.key
        value = device.get(key)
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
    """A text that is the same for all values that one exact match can match: it may ignore case."""
    return str(value or "").lower()
