"""Prints the devices of a detector: a table, built from the detector's declaration, and the TOML for each device.

The table has a column for each measure, and for each key that identifies a model (model_keys). Other text keys get a
column if their values differ. All flags share the column IS. The title (vendor and model) is the last column, because
only titles contain spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from capacityd.cli.inventory.devices import DeviceEntry, DeviceListing
from capacityd.cli.inventory.found import FoundDevice
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


def print_devices(listing: DeviceListing) -> None:
    """Prints a table, and below it the TOML for each device."""
    detector = listing.detector
    entries = listing.entries
    print_line(f"{detector.name}: {_count_text(listing)}  ({detector.about})")
    if not entries:
        return
    columns = [key for key in detector.keys if _has_column(detector, key, entries)]
    has_flags = any(_flags_text(detector, entry.device) for entry in entries)
    flag_columns = ["is"] if has_flags else []
    header = [detector.name, *columns, *flag_columns, "name"]
    rows = []
    for entry in entries:
        device = entry.device
        cells = [_cell(detector.keys[key].kind, device, key) for key in columns]
        if has_flags:
            cells.append(_flags_text(detector, device))
        rows.append((device.name, *cells, device.title))
    print_table(rows, [name.upper() for name in header])
    for key, reason in _unread_reasons(entries).items():
        print_line(f"?: could not be read: {key}: {reason}")
    print_line()
    _print_selectors(entries)
    print_line()


def _count_text(listing: DeviceListing) -> str:
    number = len(listing.entries)
    if listing.error:
        return f"at least {number}" if number else "unknown"
    return str(number) if number else "none"


def _has_column(detector: DeviceDetector, key: str, entries: Sequence[DeviceEntry]) -> bool:
    """Whether the table has a column for a key of the detector."""
    kind = detector.keys[key].kind
    if key in (detector.vendor_name_key, detector.model_name_key) or isinstance(kind, Flag):
        return False  # in the columns NAME and IS
    values = {entry.device.get(key) for entry in entries}
    is_unread = any(key in entry.device.unread for entry in entries)
    if not any(values) and not is_unread:
        return False  # no device has the key, or the measure is 0 on all devices
    if key in detector.model_keys or isinstance(kind, Amount):
        return True
    if key in detector.identifying_keys or isinstance(kind, HexId):
        return False  # the TOML below the table contains the key if needed
    return is_unread or len(values) > 1


def _flags_text(detector: DeviceDetector, device: FoundDevice) -> str:
    """The names of the device's true flags, and of its unknown flags with "?"."""
    names = []
    for key, declared in detector.keys.items():
        if not isinstance(declared.kind, Flag):
            continue
        if key in device.unread:
            names.append(f"{key}?")
        elif device.get(key) is True:
            names.append(key)
    return ",".join(names)


def _cell(kind: Kind, device: FoundDevice, key: str) -> str:
    if key in device.unread:
        return "?"
    return _value_text(kind, device.get(key))


def _value_text(kind: Kind, value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(kind, Amount) and isinstance(value, int):
        return readable(value, kind.dimension)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _unread_reasons(entries: Sequence[DeviceEntry]) -> dict[str, str]:
    """Each unreadable key -> the first reason."""
    reasons: dict[str, str] = {}
    for entry in entries:
        for key, reason in entry.device.unread.items():
            reasons.setdefault(key, reason)
    return reasons


def _print_selectors(entries: Sequence[DeviceEntry]) -> None:
    """Prints a line of TOML for each device, and before the first device of a kind a line for the kind."""
    lines = list(_selector_lines(entries))
    longest = max(len(toml) for toml, _ in lines)
    for toml, comment in lines:
        line = f"{toml:<{longest}}  # {comment}" if toml else f"# {comment}"
        print_line(line)


def _selector_lines(entries: Sequence[DeviceEntry]) -> Iterator[tuple[str, str]]:
    """Yields TOML and a comment for each kind with several devices, and for each device. The TOML is "" for a device
    that no TOML matches, and the comment says why."""
    printed_kinds: set[str] = set()
    for entry in entries:
        kind = entry.kind_selector
        has_several_devices = kind.count is not None and kind.count > 1
        if has_several_devices and kind.toml not in printed_kinds:
            printed_kinds.add(kind.toml)
            title_after_comma = f", {entry.device.title}" if entry.device.title else ""
            yield kind.toml, f"all {kind.count}{title_after_comma}"
        unique = entry.unique_selector
        if not unique.toml:
            yield "", f"{entry.device.name} cannot be matched: {unique.reason}"
        elif unique.count == 1:
            yield unique.toml, entry.device.name
        else:
            yield unique.toml, f"{entry.device.name}; it is unknown whether it also matches others"


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
