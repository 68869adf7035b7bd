"""Matchers, which compare a value of a device with a value in the configuration."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TypeAlias

Value: TypeAlias = str | int | bool | tuple[str, ...] | None
"""A device's value of one key. None, "" and () mean that the device has no value. A tuple contains several values, and
matches if one of its values does."""

IPNetwork: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

GLOB_CHARACTERS = frozenset("*?[")

_GLOB_CLASS = re.compile(r"\[(!.|[^!])[^\]]*\]", re.DOTALL)
"""A class of fnmatch, such as [ab] or [!ab]. A "]" as the first character belongs to the class: []ab]. A "[" without a
"]" after it is a plain character."""
_REGEX = re.compile(r"\^|\$\Z|^\.\*|\.\+|\]\+|\\[bdwsBDWS.]|\([^)]*\|[^)]*\)")
"""Signs of a regular expression: ^, $ at the end, .* at the start, .+, ]+, escapes such as \\d, and alternatives in
parentheses."""
_EXPANSION = re.compile("[{$]")
"""A sign of what a shell or a template expands: {a,b}, ${a} or {{ a }}."""


def is_missing(value: Value) -> bool:
    """Whether the device has no value. False and 0 are values."""
    return value in (None, "", ())


@dataclass(frozen=True, slots=True)
class GlobMatcher:
    """Matches text exactly or as a glob."""

    pattern: str
    """The text or glob; "" matches only a missing value."""
    ignore_case: bool = False
    """Whether the case of a value is ignored. The pattern is then in lower case."""

    def matches(self, value: Value) -> bool:
        if is_missing(value):
            return self.pattern == ""
        if isinstance(value, tuple):
            return any(self.matches(item) for item in value)
        text = str(value)
        if self.ignore_case:
            text = text.lower()
        is_same = text == self.pattern  # also for "a[1]", which as a glob matches only "a1"
        return is_same or fnmatchcase(text, self.pattern)


@dataclass(frozen=True, slots=True)
class RangeMatcher:
    """Matches the whole numbers of a range; a missing value never matches."""

    least: int
    """The smallest number that matches, in base units."""
    most: int | None = None
    """The largest number that matches, in base units; None for no limit."""

    def matches(self, value: Value) -> bool:
        if type(value) is not int:  # isinstance() would accept True and False
            return False
        if self.most is not None and value > self.most:
            return False
        return value >= self.least


@dataclass(frozen=True, slots=True)
class BoolMatcher:
    """Matches only true, or only false."""

    configured: bool

    def matches(self, value: Value) -> bool:
        return value is self.configured


@dataclass(frozen=True, slots=True)
class CidrMatcher:
    """Matches the IP addresses of a network."""

    network: str
    """A network in CIDR notation, or a single address."""

    def matches(self, value: Value) -> bool:
        if not isinstance(value, str):
            return False
        address = ipaddress.ip_address(value)
        return address in parse_network(self.network)


Matcher: TypeAlias = GlobMatcher | RangeMatcher | BoolMatcher | CidrMatcher

OR = " or "
"""The separator between the values of a list in KeyMatcher.text."""


@dataclass(frozen=True, slots=True)
class KeyMatcher:
    """A test of one key in a table."""

    key: str
    """The key in TOML, or TABLE.KEY for a key in the tables attributes, properties, dmi and devicetree."""
    matchers: tuple[Matcher, ...]
    """A value must match at least one matcher."""
    text: str
    """The configured value, for messages."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The texts and globs to match; empty for other types of values."""
        return tuple(matcher.pattern for matcher in self.matchers if isinstance(matcher, GlobMatcher))

    def matches(self, value: Value) -> bool:
        return any(matcher.matches(value) for matcher in self.matchers)


@cache
def parse_network(text: str) -> IPNetwork:
    """Parses a network in CIDR notation, or a single address as a network with one address. Raises ValueError.

    An IPv4-mapped network (::ffff:192.0.2.0/120) becomes an IPv4 network, because the kernel reports its addresses as
    IPv4.
    """
    address, percent_sign, _ = text.partition("%")
    if percent_sign:
        raise ValueError(f'"{text}" contains an interface; write only the address: "{address}"')
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(
            f'"{text}" is not an IP address or network; write it like "192.0.2.7" or "192.0.2.0/24"'
        ) from None
    is_network_address = ipaddress.ip_interface(text).ip == network.network_address
    if not is_network_address:
        raise ValueError(f'"{text}" has bits set after the prefix; did you mean "{network}"?')
    if isinstance(network, ipaddress.IPv6Network):
        ipv4_address = network.network_address.ipv4_mapped
        if ipv4_address is not None:
            prefix_length = network.prefixlen - 96  # without the 96 bits before the IPv4 address
            return ipaddress.IPv4Network((ipv4_address, prefix_length))
    return network


def check_glob(text: str) -> None:
    """Checks a text that is matched exactly or as a glob.

    Raises ValueError for an unprintable character, a "[" without a "]", a regular expression, and a variable, because
    they would match no value.
    """
    if not text.isprintable():
        raise ValueError('contains an unprintable character; write "*" for it')
    # In a class, such as [|], a sign of a regular expression is a plain character. So each class is shortened to "]".
    # "[0-9]+" becomes "]+", which still is a sign of a regular expression.
    with_short_classes = _GLOB_CLASS.sub("]", text)
    if _REGEX.search(with_short_classes):
        raise ValueError(f'"{text}" is a regular expression; write a glob, where "*" is any text, or a list of globs')
    if expansion := _EXPANSION.search(with_short_classes):
        raise ValueError(
            f'"{text}" contains "{expansion[0]}", but braces and variables are not expanded; write a list of texts or '
            f'globs; for the character itself, write "[{expansion[0]}]"'
        )
    without_classes = _GLOB_CLASS.sub("", text)
    if "[" in without_classes:
        raise ValueError(f'"{text}" contains a "[" without a "]"; for the character itself, write "[[]"')
