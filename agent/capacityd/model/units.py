"""Units of measure, and amounts: text that contains a number with a unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Dimension: TypeAlias = Literal["size", "speed", "frequency", "number"]

UNITS: Mapping[Dimension, Mapping[str, int]] = {
    "size": {"B": 1}
    | {f"{p}B": 1000**n for n, p in enumerate("kMGTP", 1)}
    | {f"{p}iB": 1024**n for n, p in enumerate("KMGTP", 1)},
    "speed": {"bit/s": 1} | {f"{p}bit/s": 1000**n for n, p in enumerate("kMGT", 1)},
    "frequency": {"Hz": 1} | {f"{p}Hz": 1000**n for n, p in enumerate("kMG", 1)},
    "number": {},
}
"""Dimension -> unit -> number of base units (bytes, bit/s, Hz). A plain number has no unit."""

_NUMBER = r"[0-9]{1,20}(\.[0-9]{1,20})?"
_AMOUNT = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([A-Za-z/]*)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measure."""

    name: str
    factor: int
    """Number of base units in this unit."""


def is_amount(text: str) -> bool:
    """Whether a text is a number with or without a unit; the unit may be unknown."""
    return _AMOUNT.fullmatch(text) is not None


def amount_pattern(dimension: Dimension) -> str:
    """A regular expression for an amount of this dimension."""
    units = "|".join(UNITS[dimension])
    return rf"{_NUMBER}\s*({units})" if units else _NUMBER


def parse_amount(text: str, dimension: Dimension) -> int:
    """Parses a number with a unit into base units. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    units = UNITS[dimension]
    if match is None:
        raise ValueError(f'"{text}" is not a number{" with a unit" if units else ""}')
    whole, fraction, unit = match[1], match[2] or "", match[3]
    if units and unit not in units:
        problem = f"the unknown unit {unit}" if unit else "no unit"
        raise ValueError(f'"{text}" has {problem}; {expected_unit(unit, units)}')
    if not units and unit:
        raise ValueError(f'"{text}" must be a plain number, without a unit')
    scale: int = 10 ** len(fraction)
    value, rest = divmod(int(whole + fraction) * units.get(unit, 1), scale)
    if rest:
        raise ValueError(f'"{text}" is not a whole number of {"bytes" if dimension == "size" else "units"}')
    return value


def expected_unit(unit: str, units: Iterable[str]) -> str:
    """The end of a message about an unknown unit. The right one may differ in case, or end in another way."""
    word = unit.lower().replace("bps", "bit/s")
    meant = (word, f"{word}/s", f"{word}bit/s", f"{word}b", f"{word}hz") if unit else ()
    near = next((u for u in units if u.lower() in meant), None)
    return f'did you mean "{near}"?' if near else f"must be one of {', '.join(units)}"
