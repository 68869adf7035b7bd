"""The few columns that matter of a detector's devices. Derived from its own declaration: no list knows detectors.

A column for what makes a kind (alike) and for each measure; one for each other key that has a few words or the name of
a driver, unless all devices say the same; flags as words. Not what is in the name already, nor what tells one from
another, which stands in its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from capacityd.inventory import Listed
from capacityd.inventory.names import readable
from capacityd.kinds import Amount, Flag, HexId, Kind
from capacityd.model import DeviceDetector, Value

FEW = 8
"""How many devices of a kind an overview shows."""


@dataclass(frozen=True, slots=True)
class Table:
    """heading: of the columns. rows: of cells. lines: TOML and what it matches. common: what all devices say."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[tuple[str, str], ...]
    common: tuple[str, ...]


def table_of(detector: DeviceDetector, listed: Sequence[Listed], most: int | None = None) -> Table:
    """The devices of a detector. most: how many of those alike are shown, None: all."""
    keys, common = _columns(detector, listed)
    said = _flags(detector, listed)
    rows: list[tuple[str, ...]] = []
    lines: list[tuple[str, str]] = []
    alike = Counter(device.kind.line for device in listed)
    shown: Counter[str] = Counter()
    for device in listed:
        kind = device.kind
        shown[kind.line] += 1
        several = bool(kind.line) and kind.count is not None and kind.count > 1 and kind.line != device.own.line
        if several and shown[kind.line] == 1:
            title = f", {device.title}" if device.title else ""
            lines.append((kind.line, f"all {kind.count}{title}"))
        if most is not None and shown[kind.line] > most:
            if shown[kind.line] == alike[kind.line]:
                more = f"{alike[kind.line] - most} more of these: capacityd devices {detector.name}"
                rows.append(("…", *[""] * len(keys), *[""] * bool(said), more))
            continue
        cells = [_cell(detector.keys[key].kind, device, key) for key in keys]
        rows.append((device.name, *cells, *([said[device.path]] if said else []), device.title))
        if device.own.line:
            lines.append((device.own.line, device.name))
        else:
            lines.append(("", f"{device.name} can't be matched: {device.own.why}"))
    heading = (detector.name.upper(), *(key.upper() for key in keys), *["IS"] * bool(said), "NAME")
    return Table(heading, tuple(rows), tuple(lines), common)


def _flags(detector: DeviceDetector, listed: Sequence[Listed]) -> dict[str, str]:
    """Path of a device -> its flags as words, with a question mark where it can't be told; empty if none has any."""
    flags = [key for key, one in detector.keys.items() if isinstance(one.kind, Flag)]
    found = {}
    for device in listed:
        words = ((key, "?" if key in device.unread else "") for key in flags)
        found[device.path] = " ".join(k + doubt for k, doubt in words if doubt or device.values.get(k) is True)
    return found if any(found.values()) else {}


def _columns(detector: DeviceDetector, listed: Sequence[Listed]) -> tuple[list[str], tuple[str, ...]]:
    keys, common = [], []
    for key, one in detector.keys.items():
        kind = one.kind
        said = {device.values.get(key) for device in listed}
        unread = any(key in device.unread for device in listed)
        if key in detector.words or isinstance(kind, Flag) or (said <= {None, 0} and not unread):
            continue
        if key in detector.alike or isinstance(kind, Amount):
            keys.append(key)
        elif key not in detector.identity and not isinstance(kind, HexId):
            if len(said) > 1 or unread or len(listed) == 1:
                keys.append(key)
            else:
                common.append(f"{key} {_text(kind, said.pop())}")
    return keys, tuple(common)


def _cell(kind: Kind, device: Listed, key: str) -> str:
    return "?" if key in device.unread else _text(kind, device.values.get(key))


def _text(kind: Kind, value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(kind, Amount) and isinstance(value, int):
        return readable(value, kind.dimension)
    return " ".join(value) if isinstance(value, tuple) else str(value)
