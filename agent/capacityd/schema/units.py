"""Units of measure, and amounts. An amount is a text with a number and a unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

Dimension: TypeAlias = Literal["size", "speed", "frequency", "number"]

UNITS: Mapping[Dimension, Mapping[str, int]] = {
    "size": {"B": 1}
    | {f"{prefix}B": 1000**power for power, prefix in enumerate("kMGTP", start=1)}
    | {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", start=1)},
    "speed": {"bit/s": 1} | {f"{prefix}bit/s": 1000**power for power, prefix in enumerate("kMGT", start=1)},
    "frequency": {"Hz": 1} | {f"{prefix}Hz": 1000**power for power, prefix in enumerate("kMG", start=1)},
    "number": {},
}
"""Dimension -> unit -> number of base units. The base unit comes first: B, bit/s, Hz. A plain number has no unit."""

FACTORS: Mapping[str, int] = {unit: factor for units in UNITS.values() for unit, factor in units.items()}
"""Unit -> number of base units."""

_AMOUNT = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([A-Za-z/]*)")


def is_amount(text: str) -> bool:
    """Whether a text is a number with or without a unit; the unit may be unknown."""
    return _AMOUNT.fullmatch(text) is not None


def parse_amount(text: str, dimension: Dimension) -> int:
    """Parses a number with a unit into base units. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    units = UNITS[dimension]
    if match is None:
        raise ValueError(f'"{text}" is not a number from 0 up{" with a unit" if units else ""}')
    whole, decimals, unit = match.groups(default="")
    if units and unit not in units:
        problem = f"the unknown unit {unit}" if unit else "no unit"
        raise ValueError(f'"{text}" has {problem}; {expected_unit(unit, units)}')
    if not units and unit:
        raise ValueError(f'"{text}" must be a plain number, without a unit')
    # For example, 1.5kB is 15 * 1000 / 10 bytes. Whole numbers avoid rounding.
    scale: int = 10 ** len(decimals)
    value, rest = divmod(int(whole + decimals) * units.get(unit, 1), scale)
    if rest:
        raise ValueError(f'"{text}" is not a whole number of {"bytes" if dimension == "size" else "units"}')
    return value


def expected_unit(unit: str, units: Iterable[str]) -> str:
    """The end of a message about an unknown unit. Suggests the unit that was probably meant, or else all valid units.

    unit: the unknown unit, or "" for a missing unit. units: the valid units. A unit was probably meant if it differs
    only in case, is written with "bps" instead of "bit/s", or lacks its end.
    """
    word = unit.lower().replace("bps", "bit/s")
    spellings = (word, f"{word}/s", f"{word}bit/s", f"{word}b", f"{word}hz") if unit else ()
    meant = next((known for known in units if known.lower() in spellings), None)
    return f'did you mean "{meant}"?' if meant else f"must be one of {', '.join(units)}"
