"""The table of a detector's devices, built from the detector's declaration.

It contains a column for each measure, and for each key that is the same for all devices of a model (same_model). Other
text keys get a column unless all devices have the same value. All flags share the column IS. The title (vendor and
model) is the last column, because only titles contain spaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from capacityd.cli.inventory.devices import DeviceEntry
from capacityd.model.device import DeviceDetector
from capacityd.model.matchers import Value
from capacityd.model.value_types import Amount, Flag, HexId, Kind

OVERVIEW_ROWS = 8
"""Maximum number of devices of a kind in an overview."""

_SCALES = {  # dimension -> ratio of a unit to the one before it, and the units
    "size": (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")),
    "speed": (1000, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")),
    "frequency": (1000, ("Hz", "kHz", "MHz", "GHz")),
}


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The output of `devices` for a detector."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    selectors: tuple[tuple[str, str], ...]
    """Pairs of TOML and the devices that it matches. If there is no TOML, the second text says why."""
    common: tuple[str, ...]
    """Keys and values that are the same for all devices."""
    unread: tuple[str, ...] = ()
    """The meaning of each "?" in the table: a key, and why its value could not be read."""


def device_table(detector: DeviceDetector, devices: Sequence[DeviceEntry], limit: int | None = None) -> DeviceTable:
    """The table of a detector's devices. limit: devices of a kind to show at most, None: all."""
    keys, common = _columns(detector, devices)
    flags = _flags(detector, devices)
    columns = [*(key.upper() for key in keys), *(["IS"] if flags else [])]
    rows: list[tuple[str, ...]] = []
    selectors: list[tuple[str, str]] = []
    total = Counter(device.kind.toml for device in devices)
    seen: Counter[str] = Counter()  # number of devices of each kind so far
    for device in devices:
        kind = device.kind
        seen[kind.toml] += 1
        is_first = seen[kind.toml] == 1
        matches_several = kind.toml and kind.count is not None and kind.count > 1
        if is_first and matches_several and kind.toml != device.unique.toml:
            title = f", {device.title}" if device.title else ""
            selectors.append((kind.toml, f"all {kind.count}{title}"))
        if limit is not None and seen[kind.toml] > limit:
            is_last = seen[kind.toml] == total[kind.toml]
            if is_last:
                more = f"{total[kind.toml] - limit} more of these: capacityd devices {detector.name}"
                rows.append(("…", *[""] * len(columns), more))
            continue
        cells = [_cell(detector.keys[key].kind, device, key) for key in keys]
        if flags:
            cells.append(flags[device.path])
        rows.append((device.name, *cells, device.title))
        if device.unique.toml:
            others = "" if device.unique.count == 1 else "; it is unknown whether it also matches others"
            selectors.append((device.unique.toml, f"{device.name}{others}"))
        else:
            selectors.append(("", f"{device.name} cannot be matched: {device.unique.reason}"))
    heading = (detector.name.upper(), *columns, "NAME")
    return DeviceTable(heading, tuple(rows), tuple(selectors), common=common, unread=_unread(devices))


def _unread(devices: Sequence[DeviceEntry]) -> tuple[str, ...]:
    """Each unreadable key, with the first reason."""
    reasons: dict[str, str] = {}
    for device in devices:
        for key, error in device.values.unread.items():
            reasons.setdefault(key, str(error))
    return tuple(f"{key}: {reason}" for key, reason in reasons.items())


def _flags(detector: DeviceDetector, devices: Sequence[DeviceEntry]) -> dict[str, str]:
    """A device's path -> the names of its flags that are true, with "?" if unknown; empty if no device has any flag."""
    flag_keys = [name for name, key in detector.keys.items() if isinstance(key.kind, Flag)]
    flags = {}
    for device in devices:
        names = []
        for key in flag_keys:
            if key in device.values.unread:
                names.append(f"{key}?")
            elif device.values.get(key) is True:
                names.append(key)
        flags[device.path] = ",".join(names)
    return flags if any(flags.values()) else {}


def _columns(detector: DeviceDetector, devices: Sequence[DeviceEntry]) -> tuple[list[str], tuple[str, ...]]:
    """The keys that get a column, and the keys with one common value, as "key value"."""
    columns: list[str] = []
    common: list[str] = []
    for key, declared in detector.keys.items():
        kind = declared.kind
        if key in (detector.vendor_key, detector.model_key) or isinstance(kind, Flag):
            continue  # in the columns NAME and IS
        values = {device.values.get(key) for device in devices}
        unread = any(key in device.values.unread for device in devices)
        if values <= {None, 0} and not unread:
            continue
        if key in detector.same_model or isinstance(kind, Amount):
            columns.append(key)
        elif key not in detector.identity and not isinstance(kind, HexId):
            if len(values) > 1 or unread or len(devices) == 1:
                columns.append(key)
            else:
                common.append(f"{key} {_text(kind, values.pop())}")
    return columns, tuple(common)


def _cell(kind: Kind, device: DeviceEntry, key: str) -> str:
    return "?" if key in device.values.unread else _text(kind, device.values.get(key))


def _text(kind: Kind, value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(kind, Amount) and isinstance(value, int):
        return readable(value, kind.dimension)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def readable(value: int, dimension: str) -> str:
    """A measure in the largest unit that makes it at least 1, with at most one decimal, such as 1.7TiB."""
    ratio, units = _SCALES.get(dimension, (1000, ("",)))
    power = 0
    number = Fraction(value)
    while number >= ratio and power < len(units) - 1:
        power += 1
        number = round(Fraction(value, ratio**power), 1)
    digits = str(number.numerator) if number.denominator == 1 else str(float(number))
    return f"{digits}{units[power]}"
