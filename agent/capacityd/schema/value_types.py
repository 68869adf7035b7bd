"""The types of the values by which devices and machines are matched.

parse() converts a TOML value to matchers. It raises ValueError with the error and its remedy. config/ adds the file,
the line and the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.schema.matchers import (
    BoolMatcher,
    CidrMatcher,
    GlobMatcher,
    Matcher,
    RangeMatcher,
    check_glob,
    parse_network,
)
from capacityd.schema.mistakes import BLANK_AT_END, COMPARISON, NEGATION, SEPARATED_BY_BAR, Mistake
from capacityd.schema.toml_values import describe_toml_value, parse_boolean, parse_texts
from capacityd.schema.units import Dimension, is_amount, parse_amount

_HEX_GLOB = re.compile(r"([0-9a-fA-F]*([*?]|\[[^\]]+\]))+[0-9a-fA-F]*")
"""Hexadecimal digits with at least one *, ? or class, such as 10d[ef]."""
_SIGNS = (">=", "<=", ">", "<", "=")
"""The signs of comparisons."""
_EXAMPLES: Mapping[Dimension, str] = {"size": ">=500GB", "speed": ">=10Gbit/s", "frequency": ">=3GHz", "number": ">=1"}


@dataclass(frozen=True, slots=True)
class Text:
    """Text, matched exactly or as a glob."""

    ignore_case: bool = False
    rejects: tuple[Mistake, ...] = ()
    """Further mistakes to reject. NEGATION, COMPARISON, BLANK_AT_END and SEPARATED_BY_BAR are always rejected."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        return tuple(self._matcher(text) for text in parse_texts(raw, "text"))

    def _matcher(self, text: str) -> Matcher:
        """The matcher for a text. Raises ValueError."""
        check_glob(text)
        for mistake in (NEGATION, COMPARISON, BLANK_AT_END, *self.rejects, SEPARATED_BY_BAR):
            if re.search(mistake.pattern, text):
                raise ValueError(f'"{text}" {mistake.remedy(text)}')
        pattern = text.lower() if self.ignore_case else text
        return GlobMatcher(pattern, self.ignore_case)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words, or a list of them."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        texts = parse_texts(raw, "text")
        for text in texts:
            if text not in self.words:
                valid_words = ", ".join(self.words)
                raise ValueError(f'must be one of {valid_words}; got "{text}"')
        return tuple(GlobMatcher(text) for text in texts)


@dataclass(frozen=True, slots=True)
class HexId:
    """An ID of hexadecimal digits."""

    digits: int
    """The number of digits of a complete ID."""
    prefix_matches: bool = False
    """Whether an ID of only 2 or 4 digits matches every ID that begins with these digits (PCI and USB classes)."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        items = raw if isinstance(raw, list) else [raw]
        for item in items:
            if type(item) is int:
                raise ValueError(f"must be in quotes: {self._in_quotes(item)}")
        return tuple(self._matcher(text) for text in parse_texts(raw, "hexadecimal digits"))

    def _in_quotes(self, number: int) -> str:
        """The one or two IDs that a number without quotes may mean: for the parser, 10 and 0xa are the same number."""
        decimal = self._with_zeros(f"{number}")
        hexadecimal = self._with_zeros(f"{number:x}")
        if decimal == hexadecimal:
            return f'"{decimal}"'
        return f'"{decimal}", or "{hexadecimal}" if it was written 0x{hexadecimal}'

    def _matcher(self, text: str) -> Matcher:
        """The matcher for an ID, the beginning of an ID, or a glob. Raises ValueError."""
        valid_length = f"{self.digits} hexadecimal digits"
        if self.prefix_matches:
            valid_length = f"2, 4 or {valid_length}"  # 2 or 4 are the beginning of a class
        if ":" in text:
            raise ValueError(f'"{text}" must be one ID of {valid_length}; write a second one as a separate key')
        check_glob(text)
        pattern = text.lower().removeprefix("0x")
        is_glob = _HEX_GLOB.fullmatch(pattern) is not None
        if pattern == "" or is_glob:  # "" matches a missing ID
            return GlobMatcher(pattern, ignore_case=True)
        if not re.fullmatch("[0-9a-f]+", pattern):
            raise ValueError(f'"{text}" must be {valid_length}, as in the output of "capacityd devices"')
        length = len(pattern)
        if length == self.digits:
            return GlobMatcher(pattern, ignore_case=True)
        prefix_lengths = (2, 4) if self.prefix_matches else ()
        if length in prefix_lengths:
            return GlobMatcher(f"{pattern}*", ignore_case=True)
        if length > self.digits:
            raise ValueError(f'"{text}" must be {valid_length}')
        raise ValueError(f'"{text}" must be {valid_length}; did you mean "{self._with_zeros(pattern)}"?')

    def _with_zeros(self, short_id: str) -> str:
        """The ID that was probably meant: with leading zeros, which some programs leave out."""
        if not self.prefix_matches:
            return short_id.zfill(self.digits)
        next_even_length = len(short_id) + len(short_id) % 2
        return short_id.zfill(next_even_length)  # a PCI or USB class may have 2, 4 or 6 digits


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        return (BoolMatcher(parse_boolean(raw)),)


@dataclass(frozen=True, slots=True)
class Amount:
    """A measure, matched by comparisons such as ">=1GB,<2GB". All comparisons separated by commas must hold."""

    dimension: Dimension

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        items = raw if isinstance(raw, list) else [raw]
        if self.dimension == "number":
            items = [_integer_as_text(item) for item in items]
        texts = parse_texts(items, f'a comparison such as "{_EXAMPLES[self.dimension]}"')
        return tuple(self._range_matcher(text) for text in texts)

    def _range_matcher(self, text: str) -> Matcher:
        """The matcher for comparisons separated by commas. Raises ValueError if no number can match all of them."""
        lower_limits = [0]
        upper_limits: list[int] = []
        for comparison in text.split(","):
            sign, bound = self._sign_and_bound(comparison.strip(), text)
            if sign == ">":
                lower_limits.append(bound + 1)
            if sign in (">=", "="):
                lower_limits.append(bound)
            if sign == "<":
                upper_limits.append(bound - 1)
            if sign in ("<=", "="):
                upper_limits.append(bound)
        least = max(lower_limits)
        most = min(upper_limits, default=None)
        if most is not None and least > most:
            raise ValueError(f'"{text}" matches nothing; to match either comparison, write a list')
        return RangeMatcher(least, most)

    def _sign_and_bound(self, comparison: str, text: str) -> tuple[str, int]:
        """The sign of a comparison, and its bound in base units. text: all comparisons, for messages."""
        amount = comparison.lstrip("<>=")
        sign = comparison.removesuffix(amount)
        if sign == "":
            sign = "="
        amount = amount.strip()
        if sign not in _SIGNS or not is_amount(amount):
            raise ValueError(f'"{text}" is not a comparison; write it like "{_EXAMPLES[self.dimension]}"')
        return sign, parse_amount(amount, self.dimension)

    def amount(self, raw: object) -> int:
        """Parses an amount without a sign, such as a fallback, into base units. Raises ValueError."""
        if self.dimension == "number" and type(raw) is int and raw >= 0:
            return raw
        if not isinstance(raw, str):
            example = _EXAMPLES[self.dimension].removeprefix(">=")
            raise ValueError(f'must be written like "{example}"; got {describe_toml_value(raw)}')
        return parse_amount(raw.strip(), self.dimension)


def _integer_as_text(item: object) -> object:
    """An integer as text; any other TOML value unchanged."""
    return str(item) if type(item) is int else item


@dataclass(frozen=True, slots=True)
class Network:
    """An IP address, or a network in CIDR notation, which matches every address in it."""

    def parse(self, raw: object) -> tuple[Matcher, ...]:
        texts = parse_texts(raw, 'an address or a network such as "192.0.2.0/24"')
        return tuple(CidrMatcher(str(parse_network(text))) for text in texts)


Kind: TypeAlias = "Text | Choice | HexId | Flag | Amount | Network"
