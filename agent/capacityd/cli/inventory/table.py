"""Prints the devices of a detector: a table, built from the detector's declaration, and the TOML for each device.

The table has a column for each measure, and for each key that identifies a model (model_keys). Other text keys get a
column unless all devices have the same value. All flags share the column IS. The title (vendor and model) is the last
column, because only titles contain spaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from capacityd.cli.inventory.devices import DeviceEntry, DeviceListing
from capacityd.cli.inventory.found import FoundDevice
from capacityd.cli.inventory.selectors import TomlSelector
from capacityd.cli.output.terminal import print_line, print_table
from capacityd.schema.device import DeviceDetector
from capacityd.schema.matchers import Value
from capacityd.schema.units import Dimension
from capacityd.schema.value_types import Amount, Flag, HexId, Kind

_SCALES: Mapping[Dimension, tuple[int, tuple[str, ...]]] = {
    "size": (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")),
    "speed": (1000, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")),
    "frequency": (1000, ("Hz", "kHz", "MHz", "GHz")),
    "number": (1000, ("",)),
}
"""Dimension -> ratio of each unit to the previous unit, and the units."""


def print_devices(listing: DeviceListing, limit: int | None) -> None:
    """Prints a table, and below it the TOML for each device. limit: maximum number of devices of a kind, or None."""
    detector, entries = listing.detector, listing.entries
    print_line(f"{detector.name}: {_count(listing)}  ({detector.about})")
    if not entries:
        return
    keys, common = _columns(detector, entries)
    flags = _flags(detector, entries)
    columns = [*(key.upper() for key in keys), *(["IS"] if flags else [])]
    rows: list[tuple[str, ...]] = []
    selectors: list[tuple[str, str]] = []  # TOML ("" if there is none), and a comment
    # The TOML of a kind identifies the kind. All devices without such TOML ("") count as one kind.
    total = Counter(entry.kind_selector.toml for entry in entries)
    seen: Counter[str] = Counter()  # number of devices of each kind so far
    for entry in entries:
        kind_toml = entry.kind_selector.toml
        title = entry.device.title
        seen[kind_toml] += 1
        is_first = seen[kind_toml] == 1
        if is_first and _matches_several(entry.kind_selector):
            title_after_comma = f", {title}" if title else ""
            selectors.append((kind_toml, f"all {entry.kind_selector.count}{title_after_comma}"))
        if limit is None or seen[kind_toml] <= limit:
            cells = [_cell(detector.keys[key].kind, entry.device, key) for key in keys]
            if flags:
                cells.append(flags[entry.device.path])
            rows.append((entry.device.name, *cells, title))
            selectors.append(_selector_of_device(entry))
        elif seen[kind_toml] == total[kind_toml]:  # the last device of the kind
            more = f"{total[kind_toml] - limit} more of these: capacityd devices {detector.name}"
            rows.append(("…", *[""] * len(columns), more))
    print_table(rows, (detector.name.upper(), *columns, "NAME"))
    if common:
        print_line(f"all: {', '.join(common)}")
    for key, reason in _unread(entries).items():
        print_line(f"?: could not be read: {key}: {reason}")
    print_line()
    longest = max(len(toml) for toml, _ in selectors)
    for toml, comment in selectors:
        print_line(f"{toml:<{longest}}  # {comment}" if toml else f"# {comment}")
    print_line()


def _count(listing: DeviceListing) -> str:
    number = len(listing.entries)
    if listing.error:
        return f"at least {number}" if number else "unknown"
    return str(number) if number else "none"


def _matches_several(selector: TomlSelector) -> bool:
    """Whether the selector is known to match more than one device."""
    return bool(selector.toml) and selector.count is not None and selector.count > 1


def _selector_of_device(entry: DeviceEntry) -> tuple[str, str]:
    """The TOML that matches the device, and a comment. If the TOML is "", the comment says why."""
    name = entry.device.name
    selector = entry.unique_selector
    if not selector.toml:
        return "", f"{name} cannot be matched: {selector.reason}"
    others = "" if selector.count == 1 else "; it is unknown whether it also matches others"
    return selector.toml, f"{name}{others}"


def _unread(entries: Sequence[DeviceEntry]) -> dict[str, str]:
    """Each unreadable key -> the first reason."""
    reasons: dict[str, str] = {}
    for entry in entries:
        for key, unread in entry.device.unread.items():
            reasons.setdefault(key, unread.reason)
    return reasons


def _flags(detector: DeviceDetector, entries: Sequence[DeviceEntry]) -> dict[str, str]:
    """A device's path -> the names of its true flags, and of unknown flags with "?". Empty if no device has any."""
    flag_keys = [name for name, key in detector.keys.items() if isinstance(key.kind, Flag)]
    flags = {}
    for device in (entry.device for entry in entries):
        names = []
        for key in flag_keys:
            if key in device.unread:
                names.append(f"{key}?")
            elif device.get(key) is True:
                names.append(key)
        flags[device.path] = ",".join(names)
    return flags if any(flags.values()) else {}


def _columns(detector: DeviceDetector, entries: Sequence[DeviceEntry]) -> tuple[list[str], list[str]]:
    """The keys that get a column, and a text "KEY VALUE" for each key with the same value on all devices."""
    columns: list[str] = []
    common: list[str] = []
    for key, declared in detector.keys.items():
        kind = declared.kind
        if key in (detector.vendor_name_key, detector.model_name_key) or isinstance(kind, Flag):
            continue  # in the columns NAME and IS
        values = {entry.device.get(key) for entry in entries}
        unread = any(key in entry.device.unread for entry in entries)
        if not any(values) and not unread:
            continue  # no device has the key, or the measure is 0 on all devices
        if key in detector.model_keys or isinstance(kind, Amount):
            columns.append(key)
        elif key in detector.identifying_keys or isinstance(kind, HexId):
            continue  # the TOML below the table contains the key if needed
        elif len(values) > 1 or unread or len(entries) == 1:  # a single device has no value in common with others
            columns.append(key)
        else:
            common.append(f"{key} {_value_text(kind, values.pop())}")
    return columns, common


def _cell(kind: Kind, device: FoundDevice, key: str) -> str:
    return "?" if key in device.unread else _value_text(kind, device.get(key))


def _value_text(kind: Kind, value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(kind, Amount) and isinstance(value, int):
        return readable(value, kind.dimension)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def readable(value: int, dimension: Dimension) -> str:
    """A measure in the largest unit in which it is at least 1, with at most one decimal, such as 1.7TiB."""
    ratio, units = _SCALES[dimension]
    power = 0
    number = Fraction(value)
    # Compared after rounding: 1023.99 KiB is 1MiB, not 1024KiB.
    while number >= ratio and power < len(units) - 1:
        power += 1
        number = round(Fraction(value, ratio**power), 1)
    digits = str(number.numerator) if number.denominator == 1 else str(float(number))
    return f"{digits}{units[power]}"
