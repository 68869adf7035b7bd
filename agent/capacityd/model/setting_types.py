"""The types of value that a setting can have: a path, a duration, a command, a number, addresses, a name, a share.

parse raises ValueError with the error and its remedy; config/ adds the file, the line and the key.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.model.config import Reserve
from capacityd.model.matchers import parse_network
from capacityd.model.quantity import LARGEST
from capacityd.model.value_types import describe_toml_value, parse_boolean

LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A label of a DNS name (RFC 1123), as a regular expression."""
_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|min|m|h|d)")
_COMMAND = '["/usr/bin/program", "argument"]'
_SHARE = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,6}))?\s*%")
_SHELL_OPERATORS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})
_SHELL_SYNTAX = re.compile(r"[|&;<>$`*?~\"'\\]")
_SHELL_VARIABLE = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*\}?(/.*)?|\$\(.*\)|`.*`|~(/.*)?")
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class FilePath:
    """An absolute path."""

    ending: str = ""
    """The path must end with this."""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"must be a path in quotes; got {describe_toml_value(raw)}")
        if not raw.startswith("/") or "\0" in raw:
            raise ValueError(f'must be an absolute path; got "{raw}"')
        if not raw.endswith(self.ending):
            raise ValueError(f'must end with "{self.ending}"; got "{raw}"')
        return raw


@dataclass(frozen=True, slots=True)
class Duration:
    """A time such as "30s"; parsed into seconds."""

    least: float
    """In seconds."""
    most: float
    """In seconds."""

    def parse(self, raw: object) -> float:
        match = _DURATION.fullmatch(raw) if isinstance(raw, str) else None
        if match is None:
            raise ValueError(f'must be a duration such as "30s", "5min" or "2h"; got {describe_toml_value(raw)}')
        seconds = float(int(match[1]) * _SECONDS[match[2]])
        if not self.least <= seconds <= self.most:
            raise ValueError(f'must be from {_written(self.least)} to {_written(self.most)}; got "{raw}"')
        return seconds


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments. No shell interprets them."""

    def parse(self, raw: object) -> tuple[str, ...]:
        if isinstance(raw, str) and len(raw.split()) > 1:
            program = ["/bin/sh", "-c", raw] if _SHELL_SYNTAX.search(raw) else raw.split()
            items = ", ".join(f"'{word}'" if '"' in word else f'"{word}"' for word in program)
            raise ValueError(f"must be a list, because no shell splits it: [{items}]")
        words = [raw] if isinstance(raw, str) else raw
        if not isinstance(words, list) or not words:
            raise ValueError(f"must be a list of texts such as {_COMMAND}")
        for word in words:
            if not isinstance(word, str):
                raise ValueError(f"must be a list of texts such as {_COMMAND}; got {describe_toml_value(word)}")
        if not words[0].startswith("/"):
            raise ValueError(f'the program must be an absolute path such as "/usr/bin/program"; got "{words[0]}"')
        if any("\0" in word for word in words):
            raise ValueError("must not hold a NUL character")
        unexpanded = [word for word in words if word in _SHELL_OPERATORS or _SHELL_VARIABLE.fullmatch(word)]
        if unexpanded:
            raise ValueError(f'"{unexpanded[0]}" needs a shell: ["/bin/sh", "-c", "…"]')
        return tuple(words)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    least: int
    most: int

    def parse(self, raw: object) -> int:
        if type(raw) is not int:
            if isinstance(raw, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", raw):
                raise ValueError(f"must be a whole number without quotes: {int(raw)}")
            if isinstance(raw, float) and raw.is_integer() and 0 <= raw < 2**53:
                raise ValueError(f"must be a whole number: {raw:.0f}")
            raise ValueError(f"must be a whole number; got {describe_toml_value(raw)}")
        if not self.least <= raw <= self.most:
            raise ValueError(f"must be a whole number from {self.least} to {self.most}; got {raw}")
        return raw


@dataclass(frozen=True, slots=True)
class AddressRange:
    """IP addresses from the first to the last."""

    text: str
    """As in the configuration."""
    bits: int
    """32 (IPv4) or 128 (IPv6)."""
    first: int
    last: int

    def usable(self) -> AddressRange:
        """Without the network's own address (IPv6: the subnet-router anycast address) and the broadcast address.

        A network of one or two addresses has neither (RFC 3021, RFC 6164).
        """
        if self.last - self.first < 2:
            return self
        return AddressRange(self.text, self.bits, self.first + 1, self.last - (self.bits == 32))


@dataclass(frozen=True, slots=True)
class AddressRanges:
    """IP addresses: networks in CIDR notation, single addresses and ranges."""

    networks: bool = False
    """Only networks."""

    def parse(self, raw: object) -> tuple[AddressRange, ...]:
        items = raw if isinstance(raw, list) else [raw]
        if not items:
            raise ValueError("must not be an empty list")
        return tuple(self._range(item) for item in items)

    def _range(self, raw: object) -> AddressRange:
        example = "192.0.2.0/24" if self.networks else "192.0.2.1-192.0.2.9"
        if not isinstance(raw, str):
            raise ValueError(f'must be text such as "{example}", or a list of such; got {describe_toml_value(raw)}')
        if self.networks and "/" not in raw:
            raise ValueError(f'"{raw}" is not a network; write it like "{example}"')
        first, dash, last = raw.partition("-")
        begin, end = parse_network(first.strip()), parse_network(last.strip()) if dash else None
        if end is None:
            return AddressRange(raw, *begin)
        if begin[0] != end[0] or begin[1] > end[1] or "/" in raw:
            raise ValueError(f'"{raw}" is not a range; write it like "192.0.2.1-192.0.2.9", the lower address first')
        return AddressRange(raw, begin[0], begin[1], end[2])


class Boolean:
    """true or false."""

    def parse(self, raw: object) -> bool:
        return parse_boolean(raw)


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or raw not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)} in quotes; got {describe_toml_value(raw)}")
        return raw


class NodeName:
    """The name of a Node: an RFC 1123 subdomain."""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"must be a name in quotes; got {describe_toml_value(raw)}")
        if len(raw) > 253 or not all(re.fullmatch(LABEL, label) for label in raw.split(".")):
            hint = f'; did you mean "{raw.lower()}"?' if raw != raw.lower() else ""
            raise ValueError(f'"{raw}" is not a valid Node name (RFC 1123 subdomain: a-z, 0-9, "-" and "."){hint}')
        return raw


class ReserveValue:
    """What is kept back: a whole number of units, or a share of the total."""

    def parse(self, raw: object) -> Reserve:
        if type(raw) is int:
            return Reserve(units=Integer(0, LARGEST).parse(raw))
        match = _SHARE.fullmatch(raw) if isinstance(raw, str) else None
        if match is None:
            raise ValueError(
                'must be a whole number in units of the quantity, or a share in quotes such as "10%"; '
                f"got {describe_toml_value(raw)}"
            )
        fraction = match[2] or ""
        part, whole = int(match[1] + fraction), 100 * 10 ** len(fraction)
        if part >= whole:
            raise ValueError(f'must be less than 100%; got "{raw}"')
        divisor = math.gcd(part, whole)
        return Reserve(share=(part // divisor, whole // divisor))


def _written(seconds: float) -> str:
    """The duration in TOML, without quotes."""
    unit = next((u for u in ("d", "h", "min") if seconds and seconds % _SECONDS[u] == 0), "s")
    return f"{seconds / _SECONDS[unit]:g}{unit}"


SettingKind: TypeAlias = (
    "FilePath | Duration | Command | Integer | AddressRanges | Boolean | Word | NodeName | ReserveValue"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A key whose value is parsed without knowledge of other keys."""

    kind: SettingKind
    about: str
    """For the documentation and for messages, in lower case and without a full stop."""
    default: object = None
    """The TOML value that an absent key is equal to; None if there is none."""
    required: bool = False
