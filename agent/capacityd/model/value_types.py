"""The types of value that a device or machine is matched by: TOML value -> matchers.

A key is declared once (type, reader, sentence); the parser, the schema, the matching and the documentation use that
declaration. parse raises ValueError with the error and its remedy; config/ adds the file, the line and the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.model.matchers import (
    GLOB_CHARACTERS,
    BoolMatcher,
    CidrMatcher,
    GlobMatcher,
    Matcher,
    RangeMatcher,
    check_glob,
    parse_network,
)

UNITS: dict[str, dict[str, int]] = {
    "size": {"B": 1}
    | {f"{p}B": 1000**n for n, p in enumerate("kMGTP", 1)}
    | {f"{p}iB": 1024**n for n, p in enumerate("KMGTP", 1)},
    "speed": {"bit/s": 1} | {f"{p}bit/s": 1000**n for n, p in enumerate("kMGT", 1)},
    "frequency": {"Hz": 1} | {f"{p}Hz": 1000**n for n, p in enumerate("kMG", 1)},
    "number": {},
}
"""Dimension -> unit -> base units (bytes, bit/s, Hz) in one. A plain number has no unit."""

_HEX_GLOB = re.compile(r"([0-9a-f*?]|\[[^\]]+\])+")
_EXAMPLES = {"size": ">=500GB", "speed": ">=10Gbit/s", "frequency": ">=3GHz", "number": ">=1"}
_AMOUNT = re.compile(r"(>=|<=|>|<|=|)\s*([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([A-Za-z/]*)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measure."""

    name: str
    factor: int
    """Base units in one."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text, matched exactly or as a glob."""

    fold: bool = False
    """Case does not matter."""
    whole: bool = False
    """An exact name: no glob and no "/"."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        written = _strings(raw, "text")
        for text in written:
            if self.whole and (not text or not GLOB_CHARACTERS.isdisjoint(text) or "/" in text):
                raise ValueError(f'"{text}" must be an exact name, without "/" and the wildcards *, ? and [')
            check_glob(text)
        return tuple(GlobMatcher(text.lower() if self.fold else text, self.fold) for text in written)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        found = _strings(raw, "text")
        for word in found:
            if word not in self.words:
                raise ValueError(f'must be one of {", ".join(self.words)}; got "{word}"')
        return tuple(GlobMatcher(word) for word in found)


@dataclass(frozen=True, slots=True)
class HexId:
    """An ID of hexadecimal digits."""

    digits: int
    """How many digits it has."""
    prefix: bool = False
    """Fewer digits match every ID that begins with them (PCI and USB classes)."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        for item in raw if isinstance(raw, list) else [raw]:
            if type(item) is int:  # TOML's parser does not keep how it was written
                digits = 2 if self.prefix else self.digits
                decimal, hexadecimal = f"{item:0{digits}}", f"{item:0{digits}x}"
                hint = "" if decimal == hexadecimal else f', or "{hexadecimal}" if it was written 0x{hexadecimal}'
                raise ValueError(f'must be in quotes: "{decimal}"{hint}')
        return tuple(self._matcher(written) for written in _strings(raw, "hexadecimal digits"))

    def _matcher(self, written: str) -> Matcher:
        text = written.lower().removeprefix("0x")
        number = f"{'at most ' if self.prefix else ''}{self.digits} hexadecimal digits"
        if ":" in text:
            raise ValueError(f'"{written}" must be one ID of {number}; write a second one as a key of its own')
        check_glob(text)
        if text and not _HEX_GLOB.fullmatch(text):
            raise ValueError(f'"{written}" must be {number}, as in the output of "capacityd devices"')
        if text and GLOB_CHARACTERS.isdisjoint(text):
            if len(text) > self.digits or (len(text) < self.digits and not self.prefix):
                hint = f'; did you mean "{text.zfill(self.digits)}"?' if len(text) < self.digits else ""
                raise ValueError(f'"{written}" must be {number}{hint}')
            if self.prefix and len(text) < self.digits:
                text += "*"
        return GlobMatcher(text, fold=True)


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        return (BoolMatcher(parse_boolean(raw)),)


@dataclass(frozen=True, slots=True)
class Amount:
    """A measure, compared with numbers that have a unit. All comparisons between commas must hold."""

    dimension: str
    """A key of UNITS."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        items = raw if isinstance(raw, list) else [raw]
        if self.dimension == "number":
            items = [str(item) if type(item) is int else item for item in items]
        for item in items:
            if not isinstance(item, str):
                raise ValueError(
                    f'must be a comparison in quotes such as "{self.example}"; got {describe_toml_value(item)}'
                )
        return tuple(self._range(text) for text in _strings(items, "a comparison"))

    @property
    def example(self) -> str:
        return _EXAMPLES[self.dimension]

    def _range(self, written: str) -> Matcher:
        comparisons = tuple(self._comparison(part.strip(), written) for part in written.split(","))
        lowest = max((n + (sign == ">") for sign, n in comparisons if sign in (">", ">=", "=")), default=None)
        highest = min((n - (sign == "<") for sign, n in comparisons if sign in ("<", "<=", "=")), default=None)
        if lowest is not None and highest is not None and lowest > highest:
            raise ValueError(f'"{written}" matches nothing; for either of them write a list')
        return RangeMatcher(comparisons)

    def _comparison(self, part: str, written: str) -> tuple[str, int]:
        match = _AMOUNT.fullmatch(part)
        if match is None:
            raise ValueError(f'"{written}" is not a comparison; write it like "{self.example}"')
        return match[1] or "=", parse_amount(part[len(match[1]) :].strip(), self.dimension)

    def amount(self, raw: object) -> int:
        """A TOML value without a comparison (a fallback), in base units. Raises ValueError."""
        if self.dimension == "number" and type(raw) is int and raw >= 0:
            return raw
        if not isinstance(raw, str):
            raise ValueError(f'must be written like "{self.example.lstrip(">=")}"; got {describe_toml_value(raw)}')
        return parse_amount(raw.strip(), self.dimension)


@dataclass(frozen=True, slots=True)
class Network:
    """An IP address, or a network in CIDR notation, which matches every address in it."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        return tuple(
            CidrMatcher(*parse_network(s)) for s in _strings(raw, 'an address or a network such as "192.0.2.0/24"')
        )


Kind: TypeAlias = "Text | Choice | HexId | Flag | Amount | Network"


def parse_amount(text: str, dimension: str) -> int:
    """A number with a unit, in base units. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    units = UNITS[dimension]
    if match is None or match[1]:
        raise ValueError(f'"{text}" is not a number{" with a unit" if units else ""}')
    whole, fraction, unit = match[2], match[3] or "", match[4]
    if units and unit not in units:
        near = _nearest_unit(unit, units)
        hint = f'did you mean "{near}"?' if near else f"it must be one of {', '.join(units)}"
        raise ValueError(f'"{text}" has {f"the unknown unit {unit}" if unit else "no unit"}; {hint}')
    if not units and unit:
        raise ValueError(f'"{text}" must be a plain number, without a unit')
    scale: int = 10 ** len(fraction)
    value, rest = divmod(int(whole + fraction) * units.get(unit, 1), scale)
    if rest:
        raise ValueError(f'"{text}" is not a whole number of {"bytes" if dimension == "size" else "units"}')
    return value


def parse_boolean(raw: object) -> bool:
    """A TOML value that must be true or false. Raises ValueError."""
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        raise ValueError(f"must be true or false, without quotes: {raw.lower()}")
    raise ValueError(f"must be true or false; got {describe_toml_value(raw)}")


def describe_toml_value(raw: object) -> str:
    """A TOML value as an error message quotes it."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return f'"{raw}"'
    return "a list" if isinstance(raw, list) else "a table" if isinstance(raw, dict) else str(raw)


def _nearest_unit(unit: str, units: Iterable[str]) -> str | None:
    """The unit that was probably meant: in another case, without its end, or with "bps"."""
    word = unit.lower().replace("bps", "bit/s")
    return next(
        (u for u in units if unit and u.lower() in (word, f"{word}/s", f"{word}bit/s", f"{word}b", f"{word}hz")), None
    )


def _strings(raw: object, what: str) -> list[str]:
    found: list[str] = []
    items = raw if isinstance(raw, list) else [raw]
    if not items:
        raise ValueError("must not be an empty list")
    for item in items:
        if type(item) is int:
            raise ValueError(f'must be {what} in quotes: "{item}"')
        if not isinstance(item, str):
            raise ValueError(f"must be {what} in quotes, or a list of such; got {describe_toml_value(item)}")
        found.append(item)
    return found
