"""What is in a machine, as a detector sees it: each device with the line of TOML that matches exactly it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.model import Device, DeviceDetector, Value
from capacityd.reading import value_of


@dataclass(frozen=True, slots=True)
class Listed:
    """A device. values: what it says under each key, without those it lacks. line: the TOML that matches it alone."""

    name: str
    path: str
    values: dict[str, Value]
    summary: str
    line: str


def listing(host: Host, detector: DeviceDetector) -> list[Listed]:
    """All devices of a detector. Leaves out what can't be read. Raises HostError if there is no looking at all."""
    known = [(device, _values(host, detector, device)) for device in detector.find(host)]
    alone = _Alone([values for _, values in known])
    return [
        Listed(device.name, device.path, values, _summary(values), _line(detector, values, alone))
        for device, values in known
    ]


class _Alone:
    """Tells whether a choice of keys fits one device only; each choice is counted once for all devices."""

    def __init__(self, devices: Sequence[dict[str, Value]]) -> None:
        self._devices = devices
        self._counted: dict[tuple[str, ...], Counter[tuple[Value, ...]]] = {}

    def fits(self, chosen: dict[str, Value]) -> bool:
        """Whether there is just one device that says this."""
        keys = tuple(chosen)
        if keys not in self._counted:
            saying = (tuple(values.get(key) for key in keys) for values in self._devices)
            self._counted[keys] = Counter(saying)
        return self._counted[keys][tuple(chosen.values())] == 1


def _values(host: Host, detector: DeviceDetector, device: Device) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key in detector.keys:
        try:
            value = value_of(host, detector, device, key)
        except HostError:
            continue
        if value not in (None, "", ()):
            found[key] = value
    return found


def _line(detector: DeviceDetector, values: dict[str, Value], alone: _Alone) -> str:
    """As much of the identity as tells it from the others, and what a default would leave out."""
    least = 1
    while detector.identity[:least] == detector.alike[:least] and least < len(detector.alike):
        least += 1  # an id of a vendor alone says nothing, though it may be the only one today
    chosen: dict[str, Value] = {}
    for key in detector.identity:
        if len(chosen) >= least and alone.fits(chosen):
            break
        if key in values:
            chosen[key] = values[key]
    for key, default in detector.defaults.items():
        if key in values and key not in chosen and not _holds(detector, key, default, values[key]):
            chosen[key] = values[key]
    inner = ", ".join(f"{key} = {_toml(value)}" for key, value in chosen.items())
    return f"{detector.name} = {{ {inner} }}" if inner else f"{detector.name} = {{}}"


def _holds(detector: DeviceDetector, key: str, default: object, value: Value) -> bool:
    return any(pattern.matches(value) for pattern in detector.keys[key].kind.parse(default))


def _summary(values: dict[str, Value]) -> str:
    return ", ".join(f"{key} {_said(value)}" for key, value in values.items())


def _said(value: Value) -> str:
    return " ".join(value) if isinstance(value, tuple) else _toml(value) if isinstance(value, bool) else str(value)


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    text = "".join(f"[{char}]" if char in "*?[" else char for char in str(value))
    return json.dumps(text, ensure_ascii=False)
