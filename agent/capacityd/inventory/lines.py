"""The line of TOML that matches one device, or all of its kind, and how many of a machine's devices a line matches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from capacityd.kinds import UNITS, Amount, Flag, HexId, Kind, Text
from capacityd.model import DeviceDetector, Value


@dataclass(frozen=True, slots=True)
class Said:
    """What a device says under each key that it has, and why the others could not be read."""

    values: Mapping[str, Value]
    unread: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """TOML for a resource, "" if there is none: why. count: how many devices it matches, None: that can't be told.
    asked: what it asks for, key by key, as TOML's parser gives it."""

    line: str
    count: int | None
    why: str = ""
    asked: Mapping[str, object] = field(default_factory=dict)


class Census:
    """A machine's devices as often as they say the same: each choice of keys is counted once for all lines."""

    def __init__(self, detector: DeviceDetector, devices: Sequence[Said]) -> None:
        self.detector = detector
        self._devices = devices
        self._counted: dict[tuple[str, ...], tuple[Counter[tuple[Hashable, ...]], list[Said]]] = {}

    def count(self, chosen: Mapping[str, Value]) -> int | None:
        """How many devices say this and pass the defaults of the other keys. None: of some it can't be told."""
        keys = tuple(chosen)
        if keys not in self._counted:
            certain: Counter[tuple[Hashable, ...]] = Counter()
            doubtful = []
            for device in self._devices:
                passes = self._passes(device, keys)
                if passes and device.unread.keys().isdisjoint(keys):
                    certain[tuple(self._folded(key, device.values.get(key)) for key in keys)] += 1
                elif passes is not False:
                    doubtful.append(device)
            self._counted[keys] = certain, doubtful
        certain, doubtful = self._counted[keys]
        asked = {key: self._folded(key, value) for key, value in chosen.items()}
        if any(self._may_say(device, asked) for device in doubtful):
            return None
        return certain[tuple(asked.values())]

    def _may_say(self, device: Said, asked: Mapping[str, Hashable]) -> bool:
        return all(k in device.unread or self._folded(k, device.values.get(k)) == v for k, v in asked.items())

    def _passes(self, device: Said, but: Sequence[str]) -> bool | None:
        """Whether it passes the defaults of all keys but these; None if that can't be told."""
        asked = [key for key in self.detector.defaults if key not in but]
        if any(key not in device.unread and not passes(self.detector, key, device.values.get(key)) for key in asked):
            return False
        return None if any(key in device.unread for key in asked) else True

    def _folded(self, key: str, value: Value) -> Hashable:
        """As the key's kind compares it; what is missing is all the same."""
        kind = self.detector.keys[key].kind
        if value is None or value == "" or value == ():
            return None
        folds = isinstance(kind, HexId) or (isinstance(kind, Text) and kind.fold)
        return value.lower() if folds and isinstance(value, str) else (type(value).__name__, value)


def passes(detector: DeviceDetector, key: str, value: Value) -> bool:
    """Whether a value passes the key's default."""
    return any(p.matches(value) for p in detector.keys[key].kind.parse(detector.defaults[key]))


def identity_of(census: Census, device: Said) -> Line:
    """As much of the identity as tells a device from the others, and what a default would leave out."""
    detector = census.detector
    base, why = _beside_defaults(detector, device)
    if why:
        return Line("", None, why)
    least = 1
    while detector.identity[:least] == detector.alike[:least] and least < len(detector.alike):
        least += 1  # an id of a vendor alone says nothing, though it may be the only one today
    chosen: dict[str, Value] = {}
    for key in detector.identity:
        if len(chosen) >= least and census.count(chosen | base) == 1:
            break
        if written(detector.keys[key].kind, device.values.get(key)) is not None:
            chosen[key] = device.values[key]
    return _line(census, chosen | base)


def kind_of(census: Census, device: Said) -> Line:
    """What a device has in common with those alike. Names what is missing only where it makes a difference."""
    detector = census.detector
    base, why = _beside_defaults(detector, device)
    unread = [f"{key}: {device.unread[key]}" for key in detector.alike if key in device.unread]
    if why or unread:
        return Line("", None, why or unread[0])
    had = [k for k in detector.alike if written(detector.keys[k].kind, device.values.get(k)) is not None]
    chosen = {k: device.values[k] for k in had} | base
    absent: dict[str, Value] = {
        k: "" for k in detector.alike if k not in device.values and isinstance(detector.keys[k].kind, Text | HexId)
    }
    short, exact = _line(census, chosen), _line(census, chosen | absent)
    return short if chosen and short.count is not None and short.count == exact.count else exact


def _beside_defaults(detector: DeviceDetector, device: Said) -> tuple[dict[str, Value], str]:
    """The keys in which the device is not what the defaults ask for; or why no table can match it for certain."""
    base: dict[str, Value] = {}
    for key, default in detector.defaults.items():
        value = device.values.get(key)
        if key in device.unread:
            return {}, f"{key}: {device.unread[key]}"
        if passes(detector, key, value):
            continue
        kind = detector.keys[key].kind
        if value is None and isinstance(kind, Text | HexId):
            base[key] = ""
        elif written(kind, value) is not None:
            base[key] = value
        else:
            return {}, f"it has no {key}, and only {key} = {json.dumps(default)} is looked for"
    return base, ""


def _line(census: Census, chosen: Mapping[str, Value]) -> Line:
    keys = census.detector.keys
    asked = {key: "" if value == "" else written(keys[key].kind, value) for key, value in chosen.items()}
    return Line(toml_line(census.detector.name, asked), census.count(chosen), asked=asked)


def toml_line(detector: str, asked: Mapping[str, object]) -> str:
    """A line for a resource."""
    # JSON writes true, false, text without control characters and lists as TOML does.
    inner = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in asked.items())
    return f"{detector} = {{ {inner} }}" if inner else f"{detector} = {{}}"


def written(kind: Kind, value: Value) -> str | bool | None:
    """What a configuration must ask for to match this value and nothing else; None if there is no way to."""
    if isinstance(kind, Flag):
        return value if isinstance(value, bool) else None
    if isinstance(kind, Amount) and isinstance(value, int):
        return f"{value}{next(iter(UNITS[kind.dimension]), '')}"
    if not isinstance(value, str) or not value:
        return None
    text = "".join(f"[{char}]" if char in "*?[" else char for char in value)
    try:
        fits = any(pattern.matches(value) for pattern in kind.parse(text))
    except ValueError:
        fits = False
    return text if fits else None
