"""Units of measure, and amounts. An amount is a text with a number and a unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from capacityd.schema.spelling import suggest_unit

Dimension: TypeAlias = Literal["size", "speed", "frequency", "number"]

UNITS: Mapping[Dimension, Mapping[str, int]] = {
    "size": {
        "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
        "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
    },
    "speed": {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9, "Tbit/s": 10**12},
    "frequency": {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    "number": {},
}  # fmt: skip
"""Dimension -> unit -> number of base units. The base unit comes first: B, bit/s, Hz. A plain number has no unit."""

FACTORS: Mapping[str, int] = {**UNITS["size"], **UNITS["speed"], **UNITS["frequency"]}
"""Unit -> number of base units."""

_AMOUNT = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([A-Za-z/]*)")  # such as 1.5 GB


def is_amount(text: str) -> bool:
    """Whether a text is a number with or without a unit; the unit may be unknown."""
    return _AMOUNT.fullmatch(text) is not None


def parse_amount(text: str, dimension: Dimension) -> int:
    """Parses a number with a unit into base units. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    units = UNITS[dimension]
    if match is None:
        with_unit = " with a unit" if units else ""
        raise ValueError(f'"{text}" is not a number from 0 up{with_unit}')
    whole, decimals, unit = match.groups(default="")
    if units and unit not in units:
        problem = f"the unknown unit {unit}" if unit else "no unit"
        raise ValueError(f'"{text}" has {problem}; {suggest_unit(unit, units)}')
    if not units and unit:
        raise ValueError(f'"{text}" must be a plain number, without a unit')
    # For example, 1.5kB is 15 * 1000 / 10 bytes. The calculation with whole numbers avoids rounding.
    number_without_point = int(f"{whole}{decimals}")
    factor = units[unit] if unit else 1
    divisor: int = 10 ** len(decimals)
    amount, remainder = divmod(number_without_point * factor, divisor)
    if remainder:
        base_unit = "bytes" if dimension == "size" else "units"
        raise ValueError(f'"{text}" is not a whole number of {base_unit}')
    return amount
