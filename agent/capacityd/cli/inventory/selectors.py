"""TOML selectors. A selector is a resource's line that matches one device, or all devices of a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from capacityd.cli.inventory.found import FoundDevice
from capacityd.discovery.matcher import MatchResult, match_all, unknown_if_uncertain
from capacityd.schema.device import DeviceDetector
from capacityd.schema.matchers import GLOB_CHARACTERS, KeyMatcher, Value
from capacityd.schema.toml_values import toml_value
from capacityd.schema.units import UNITS
from capacityd.schema.value_types import Amount, Flag, HexId, Kind, Text

_ONLY_IN_BRACKETS = GLOB_CHARACTERS | {"|", ",", "\\", "^", "$", "+"}
"""Characters that some keys accept as plain text only in brackets, such as a[,]b. Outside of brackets, such a key
rejects them, because the user may have meant a list of names (SEVERAL_NAMES in schema/mistakes.py) or a regular
expression."""


def match_tests(tests: Sequence[KeyMatcher], device: FoundDevice) -> MatchResult:
    """Whether all these tests match a device. The result's `matches` is None if a value could not be read, or if it
    is uncertain whether the device counts."""
    return unknown_if_uncertain(match_all(tests, device.read), device.uncertain_because)


@dataclass(frozen=True, slots=True)
class TomlSelector:
    """A detector's table that matches one device, or all devices of a kind."""

    toml: str
    """The resource's line, DETECTOR = { … }; "" if no table is known to match."""
    table: Mapping[str, object] = field(default_factory=dict)
    """The table as the TOML parser returns it."""
    count: int | None = None
    """Number of matching devices; None if a value could not be read, or if devices may be missing."""
    reason: str = ""
    """Why toml is empty."""


class DeviceIndex:
    """Indexes a machine's devices by their values, so that selectors for 10,000 devices are found in linear time.

    complete: whether devices contains all devices of the machine.
    """

    def __init__(self, detector: DeviceDetector, devices: Sequence[FoundDevice], *, complete: bool) -> None:
        self.detector = detector
        self.defaults = key_matchers(detector, {})  # the tests of the detector's defaults
        self._complete = complete
        self._devices = devices
        self._by_value: dict[tuple[str, str], list[FoundDevice]] = {}  # key and folded value -> devices with this value
        self._unread: dict[str, list[FoundDevice]] = {}  # key -> devices whose value could not be read
        for device in devices:
            for key in detector.keys:
                if key in device.unread:
                    self._unread.setdefault(key, []).append(device)
                else:
                    self._by_value.setdefault((key, _folded(device.get(key))), []).append(device)
        # The results of select(): wanted keys and values -> selector.
        self._selectors: dict[tuple[tuple[str, Value], ...], TomlSelector] = {}

    def select(self, wanted: Mapping[str, Value]) -> TomlSelector:
        """The selector for devices with these values. wanted: key -> value; "" for a missing text."""
        items = tuple(wanted.items())
        if items not in self._selectors:
            self._selectors[items] = self._new_selector(wanted)
        return self._selectors[items]

    def _new_selector(self, wanted: Mapping[str, Value]) -> TomlSelector:
        table: dict[str, object] = {}
        for key, value in wanted.items():
            # In TOML, "" matches a missing text.
            table[key] = "" if value == "" else exact_match(self.detector.keys[key].kind, value)
        tests = key_matchers(self.detector, table)
        results = [match_tests(tests, device).matches for device in self._candidates(wanted)]
        is_exact = self._complete and None not in results  # None: it is unknown whether a device matches
        toml = toml_line(self.detector.name, table)
        return TomlSelector(toml, table=table, count=results.count(True) if is_exact else None)

    def _candidates(self, wanted: Mapping[str, Value]) -> Sequence[FoundDevice]:
        """The devices that may match, because they have, or may have, the rarest of the wanted values."""
        if not wanted:
            return self._devices
        key, value = min(wanted.items(), key=lambda item: self._number_with(*item))
        return [*self._by_value.get((key, _folded(value)), ()), *self._unread.get(key, ())]

    def _number_with(self, key: str, value: Value) -> int:
        """The number of devices that have, or may have, this value."""
        return len(self._by_value.get((key, _folded(value)), ())) + len(self._unread.get(key, ()))


def unique_selector(index: DeviceIndex, device: FoundDevice) -> TomlSelector:
    """The selector for only this device, with as few of the detector's identifying keys as possible."""
    detector = index.detector
    if reason := _why_unmatchable(index, device):
        return TomlSelector("", reason=reason)
    non_default = _non_default_values(index, device)
    least = _least_identifying_keys(detector)
    identity: dict[str, Value] = {}
    for key in detector.identifying_keys:
        if len(identity) >= least and index.select(identity | non_default).count == 1:
            break
        if exact_match(detector.keys[key].kind, device.get(key)) is not None:  # TOML can match the value
            identity[key] = device.get(key)
    selector = index.select(identity | non_default)
    if selector.count is None or selector.count == 1:
        return selector
    return TomlSelector("", reason=f"{selector.count} devices have the same {' and '.join(detector.identifying_keys)}")


def _least_identifying_keys(detector: DeviceDetector) -> int:
    """The minimum number of identifying keys in a selector for one device.

    If the identifying keys begin with keys of the model, a selector contains all of these keys. A part of the model is
    too vague, even if it matches only one device now. So if the model has further keys, the selector also contains the
    next identifying key.

    For pci, the minimum is vendor and device, which are all keys of the model. For udev, it is subsystem, which is one
    of several keys of the model, and name.
    """
    shared = 0
    for key, model_key in zip(detector.identifying_keys, detector.model_keys, strict=False):
        if key != model_key:
            break
        shared += 1
    is_whole_model = shared == len(detector.model_keys)
    return max(1, shared if is_whole_model else shared + 1)


def kind_selector(index: DeviceIndex, device: FoundDevice) -> TomlSelector:
    """The selector for all devices of the same kind. It contains KEY = "" for a missing key only if that excludes
    devices of another kind."""
    detector = index.detector
    if reason := _why_unmatchable(index, device):
        return TomlSelector("", reason=reason)
    for key in detector.model_keys:
        if key in device.unread:
            return TomlSelector("", reason=f"{key}: {device.unread[key].reason}")
    non_default = _non_default_values(index, device)
    values = {key: _wanted_value(detector, device, key) for key in detector.model_keys}
    # A selector contains no value that is None, because TOML can't match such a value.
    present = {key: value for key, value in values.items() if value is not None and value != ""}
    lacking = {key: value for key, value in values.items() if value == ""}
    exact = index.select(present | non_default | lacking)
    if not present and not non_default:
        return exact  # an empty table would also match other kinds that are added later
    short = index.select(present | non_default)
    matches_the_same = short.count is not None and short.count == exact.count
    return short if matches_the_same else exact


def key_matchers(detector: DeviceDetector, table: Mapping[str, object]) -> tuple[KeyMatcher, ...]:
    """The tests of a table, and of the detector's defaults for keys that the table lacks. table: key -> TOML value."""
    with_defaults = {**detector.defaults, **table}
    return tuple(
        KeyMatcher(key, matchers=detector.keys[key].kind.parse(raw), text=str(raw))
        for key, raw in with_defaults.items()
    )


def toml_line(detector: str, table: Mapping[str, object]) -> str:
    """The line DETECTOR = { … }."""
    return f"{detector} = {toml_value(table)}"


def exact_match(kind: Kind, value: Value) -> str | bool | None:
    """The TOML value that matches exactly this value of a device; None if no TOML value does."""
    if isinstance(kind, Flag):
        return value if isinstance(value, bool) else None
    if isinstance(kind, Amount) and isinstance(value, int):
        base_unit = next(iter(UNITS[kind.dimension]), "")  # the first unit; plain numbers have no unit
        return f"{value}{base_unit}"
    if not isinstance(value, str) or not value:
        return None
    # As few brackets as possible: "|" and others get brackets only if the key rejects them without brackets.
    for special in (GLOB_CHARACTERS, _ONLY_IN_BRACKETS):
        text = "".join(f"[{char}]" if char in special else char for char in value)
        with suppress(ValueError):  # the key does not accept the text
            matchers = kind.parse(text)
            return text if any(matcher.matches(value) for matcher in matchers) else None
    return None


def _wanted_value(detector: DeviceDetector, device: FoundDevice, key: str) -> Value:
    """The device's value for a selector: "" for a missing text, and None for a value that TOML can't match."""
    kind = detector.keys[key].kind
    value = device.get(key)
    if value is None and isinstance(kind, Text | HexId):
        return ""
    return value if exact_match(kind, value) is not None else None


def _why_unmatchable(index: DeviceIndex, device: FoundDevice) -> str:
    """Why no table is known to match the device; "" if a table matches it."""
    detector = index.detector
    if device.uncertain_because:
        return device.uncertain_because
    for default in index.defaults:
        key = default.key
        if key in device.unread:
            return f"{key}: {device.unread[key].reason}"
        if not default.matches(device.get(key)) and _wanted_value(detector, device, key) is None:
            return f"it has no {key}, and the default is {key} = {toml_value(detector.defaults[key])}"
    return ""


def _non_default_values(index: DeviceIndex, device: FoundDevice) -> dict[str, Value]:
    """The values that a table must name because the detector's defaults would exclude the device."""
    keys = [default.key for default in index.defaults if not default.matches(device.get(default.key))]
    return {key: _wanted_value(index.detector, device, key) for key in keys}


def _folded(value: Value) -> str:
    """A value as DeviceIndex stores it: in lower case, because keys may ignore case; "" for a missing value."""
    return str(value or "").lower()
