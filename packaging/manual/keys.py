"""Generates the sections on configuration keys and detectors from their declarations."""

from __future__ import annotations

from collections.abc import Iterator

import words
from markdown import escaped, table, terms

from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES, WHEN_KEYS, WhenKey
from capacityd.detectors import detector_names, load_detector
from capacityd.schema.device import SUBSYSTEM, Detector, DeviceDetector
from capacityd.schema.setting_types import Setting
from capacityd.schema.toml_values import toml_value
from capacityd.schema.units import UNITS
from capacityd.schema.value_types import Amount, Choice, Flag, HexId, Kind, Network, Text

_TYPES: dict[type, str] = {Text: "text", Flag: "true or false", Network: "address or network"}
_DETECTORS = (
    "Devices can also be matched by `attributes` (files and links of the device in /sys) and `properties` (of udev), "
    'both tables of text by name: `attributes = { numa_node = "0" }`. Every key whose value is a size, a speed, a '
    "frequency or a number can be the `measure`, and so can an attribute or a property that holds a whole number from "
    "0 up: "
    '`measure = "attributes.NAME"`. Without one devices are counted.'
)


def resources() -> Iterator[str]:
    yield from map(escaped, words.RESOURCES)
    yield table((key, entry.type.name, _default(entry), entry.about) for key, entry in RESOURCE_KEYS.items())
    yield "The keys of `when`. All keys must match; a list matches if one of its values does:"
    yield table((key, _when_type(when_key), "", when_key.about) for key, when_key in WHEN_KEYS.items())


def settings() -> Iterator[str]:
    for name, keys in SETTINGS_TABLES.items():
        yield f"#### `[{name}]`"
        yield table((key, entry.type.name, _default(entry), entry.about) for key, entry in keys.items())


def values() -> Iterator[str]:
    yield terms(words.VALUES)
    yield "Units: " + "; ".join(f"of {of} {', '.join(units)}" for of, units in UNITS.items() if units) + "."


def detectors() -> Iterator[str]:
    yield escaped(_DETECTORS)
    for name in detector_names():
        detector = load_detector(name)
        yield f"### {name}"
        yield escaped(f"{detector.about[0].upper()}{detector.about[1:]}.")
        yield table(_keys_of(detector))


def _keys_of(detector: Detector) -> Iterator[tuple[str, str, str, str]]:
    if isinstance(detector, DeviceDetector):
        for key, k in detector.keys.items():
            default = detector.defaults.get(key)
            needed = "; needed" if key == SUBSYSTEM else ""
            yield key, _type(k.kind), "" if default is None else toml_value(default), k.about + needed
    else:
        for key, s in detector.settings.items():
            yield key, s.type.name, _default(s), s.about + ("; needed" if s.required else "")


def _when_type(when_key: WhenKey) -> str:
    return "text" if when_key.is_text else "table of text by name"


def _type(kind: Kind) -> str:
    """Returns a short description of the type of a device's value."""
    match kind:
        case Choice(several):
            return " or ".join(f"`{toml_value(word)}`" for word in several)
        case HexId(digits, prefix):
            return f"id, {'up to ' if prefix else ''}{digits} digits"
        case Amount(dimension):
            return dimension
    return _TYPES[type(kind)]


def _default(of: Setting) -> str:
    return "" if of.default is None else toml_value(of.default)
