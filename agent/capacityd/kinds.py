"""The kinds of value that a configuration can hold for a key, how each is written in TOML, and how it matches.

One declaration of a key (kind, reader, sentence) serves the parser, the schema, the matching and the documentation.
A kind's parse raises ValueError with a sentence that says what is wrong and what is right; config/ adds the place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

Value: TypeAlias = "str | int | bool | tuple[str, ...] | None"
"""What a device says under one key. None or "": it has no such thing. A tuple: it has several (any may match)."""

UNITS: dict[str, dict[str, int]] = {
    "size": {"B": 1}
    | {f"{p}B": 1000**n for n, p in enumerate("kMGTP", 1)}
    | {f"{p}iB": 1024**n for n, p in enumerate("KMGTP", 1)},
    "speed": {"bit/s": 1} | {f"{p}bit/s": 1000**n for n, p in enumerate("kMGT", 1)},
    "number": {},
}
"""Dimension -> unit -> how many base units (bytes, bit/s) it has. A plain number has no unit."""

_AMOUNT = re.compile(r"(>=|<=|>|<|=|)\s*([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([A-Za-z/]*)")
_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measure. factor: base units in one."""

    name: str
    factor: int


@dataclass(frozen=True, slots=True)
class Glob:
    """Matches text exactly or as a shell pattern; "" matches only what is missing. fold: case does not matter."""

    pattern: str
    fold: bool = False

    def matches(self, value: Value) -> bool:
        if isinstance(value, tuple):
            return any(self.matches(v) for v in value) if value else self.pattern == ""
        if value is None or value == "":
            return self.pattern == ""
        text = str(value).lower() if self.fold else str(value)
        return text == self.pattern or (not _GLOB.isdisjoint(self.pattern) and fnmatchcase(text, self.pattern))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Matches a number of base units that all comparisons hold for; what is missing never matches."""

    comparisons: tuple[tuple[str, int], ...]

    def matches(self, value: Value) -> bool:
        if type(value) is not int:
            return False
        return all(_holds(value, sign, bound) for sign, bound in self.comparisons)


@dataclass(frozen=True, slots=True)
class Is:
    """Matches yes or no."""

    wanted: bool

    def matches(self, value: Value) -> bool:
        return value is self.wanted


@dataclass(frozen=True, slots=True)
class Within:
    """Matches IP addresses of so many bits from the first to the last."""

    bits: int
    first: int
    last: int

    def matches(self, value: Value) -> bool:
        if not isinstance(value, str):
            return False
        bits, first, _ = network(value)
        return bits == self.bits and self.first <= first <= self.last


Pattern: TypeAlias = "Glob | Bounds | Is | Within"


@dataclass(frozen=True, slots=True)
class Test:
    """One key of a table and the patterns of which any must match. text: what was asked for, as one would say it."""

    __test__ = False  # not a test case, whatever pytest makes of the name

    key: str
    patterns: tuple[Pattern, ...]
    text: str

    def matches(self, value: Value) -> bool:
        return any(p.matches(value) for p in self.patterns)


@dataclass(frozen=True, slots=True)
class Text:
    """Text, matched exactly or as a glob. fold: without regard to case. whole: a name to the letter, no glob."""

    fold: bool = False
    whole: bool = False

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        for written in _strings(raw, "text") if self.whole else ():
            if not written or not _GLOB.isdisjoint(written) or "/" in written:
                raise ValueError(
                    f'"{written}" must be a whole name, to the letter: it has no "/", and *, ? and [ do not work'
                )
        return tuple(Glob(s.lower() if self.fold else s, self.fold) for s in _strings(raw, "text"))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        found = _strings(raw, "text")
        for word in found:
            if word not in self.words:
                raise ValueError(f'"{word}" is none of: {", ".join(self.words)}')
        return tuple(Glob(s) for s in found)


@dataclass(frozen=True, slots=True)
class HexId:
    """An id of hexadecimal digits. prefix: fewer digits match all ids that begin with them (PCI and USB classes)."""

    digits: int
    prefix: bool = False

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        what = "an id of hexadecimal digits"
        for item in raw if isinstance(raw, list) else [raw]:
            if type(item) is int:  # how it was written can't be told any more
                digits = 2 if self.prefix else self.digits
                this, other = f"{item:0{digits}}", f"{item:0{digits}x}"
                hint = "" if this == other else f', or "{other}" if it was written 0x{other}'
                raise ValueError(f'must be {what} in quotes: "{this}"{hint}')
        return tuple(self._pattern(s) for s in _strings(raw, what))

    def _pattern(self, written: str) -> Pattern:
        text = written.lower().removeprefix("0x")
        if text and _GLOB.isdisjoint(text):
            if not re.fullmatch("[0-9a-f]+", text):
                raise ValueError(f'"{written}" is not an id: it may hold the digits 0-9 and a-f')
            if len(text) > self.digits or (len(text) < self.digits and not self.prefix):
                hint = f'; did you mean "{text.zfill(self.digits)}"?' if len(text) < self.digits else ""
                most = "at most " if self.prefix else ""
                raise ValueError(f'"{written}" is not an id of {most}{self.digits} hexadecimal digits{hint}')
            if self.prefix and len(text) < self.digits:
                text += "*"
        return Glob(text, fold=True)


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        if not isinstance(raw, bool):
            raise ValueError(f"must be true or false, not {said(raw)}")
        return (Is(raw),)


@dataclass(frozen=True, slots=True)
class Amount:
    """A measure: a number with a unit of its dimension, compared. A comma joins comparisons that must all hold."""

    dimension: str

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        if self.dimension == "number" and type(raw) is int:
            raw = str(raw)
        return tuple(self._bounds(s) for s in _strings(raw, f'a comparison such as "{self.example}"'))

    @property
    def example(self) -> str:
        return {"size": ">=500GB", "speed": ">=10Gbit/s", "number": ">=1"}[self.dimension]

    def _bounds(self, written: str) -> Pattern:
        return Bounds(tuple(self._comparison(part.strip(), written) for part in written.split(",")))

    def _comparison(self, part: str, written: str) -> tuple[str, int]:
        match = _AMOUNT.fullmatch(part)
        if match is None:
            raise ValueError(f'"{written}" is not a comparison; write it like "{self.example}"')
        return match[1] or "=", amount(part[len(match[1]) :].strip(), self.dimension)

    def amount(self, raw: object) -> int:
        """A TOML value without a comparison (a fallback), in base units."""
        if self.dimension == "number" and type(raw) is int and raw >= 0:
            return raw
        if not isinstance(raw, str):
            raise ValueError(f'must be written like "{self.example.lstrip(">=")}", not {said(raw)}')
        return amount(raw.strip(), self.dimension)


@dataclass(frozen=True, slots=True)
class Network:
    """An IP address, or a network in CIDR notation for all that are in it."""

    def parse(self, raw: object) -> tuple[Pattern, ...]:
        return tuple(Within(*network(s)) for s in _strings(raw, 'an address or a network such as "192.0.2.0/24"'))


Kind: TypeAlias = "Text | Choice | HexId | Flag | Amount | Network"


def network(text: str) -> tuple[int, int, int]:
    """The bits of an address, the first and the last one of a network or single address. Raises ValueError."""
    import ipaddress  # 10 ms that only these need

    try:
        found = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f'"{text}" is no IP address or network; write it like "192.0.2.7" or "192.0.2.0/24"') from None
    first = int(found.network_address)
    if "/" in text and int(ipaddress.ip_interface(text)) != first:
        raise ValueError(f'"{text}" is an address inside of a network; did you mean "{found}"?')
    return found.max_prefixlen, first, int(found.broadcast_address)


def amount(text: str, dimension: str) -> int:
    """A number with a unit, in base units. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    units = UNITS[dimension]
    if match is None or match[1]:
        raise ValueError(f'"{text}" is not a number with a unit')
    whole, fraction, unit = match[2], match[3] or "", match[4]
    if units and unit not in units:
        near = next((u for u in units if u.lower() == unit.lower()), None)
        hint = f'; did you mean "{near}"?' if near else ""
        what = f'the unit "{unit}"' if unit else "no unit"
        raise ValueError(f'"{text}" has {what}; units of {dimension} are {", ".join(units)}{hint}')
    if not units and unit:
        raise ValueError(f'"{text}": this is a plain number, it has no unit')
    scale: int = 10 ** len(fraction)
    value, rest = divmod(int(whole + fraction) * units.get(unit, 1), scale)
    if rest:
        raise ValueError(f'"{text}" is not a whole number of {"bytes" if dimension == "size" else "units"}')
    return value


def said(raw: object) -> str:
    """A TOML value as an error message names it."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int | float):
        return f"the number {raw}"
    if isinstance(raw, str):
        return f'the text "{raw}"'
    return "a list" if isinstance(raw, list) else "a table" if isinstance(raw, dict) else f"the value {raw}"


def _strings(raw: object, what: str) -> list[str]:
    found: list[str] = []
    items = raw if isinstance(raw, list) else [raw]
    if not items:
        raise ValueError("is an empty list, which nothing can match")
    for item in items:
        if type(item) is int:
            raise ValueError(f'must be {what} in quotes: "{item}", not the number {item}')
        if not isinstance(item, str):
            raise ValueError(f"must be {what} in quotes, or a list of them, not {said(item)}")
        found.append(item)
    return found


def _holds(value: int, sign: str, bound: int) -> bool:
    if sign == ">=":
        return value >= bound
    if sign == "<=":
        return value <= bound
    if sign == ">":
        return value > bound
    return value < bound if sign == "<" else value == bound
