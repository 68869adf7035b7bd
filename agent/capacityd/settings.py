"""The kinds of setting that a detector of one number takes: a path, a duration, a command, a whole number.

As in kinds.py, parse raises ValueError with a sentence that says what is wrong and what is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.kinds import network, said

_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|min|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class FilePath:
    """An absolute path. ending: that it must have."""

    ending: str = ""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"must be a path in quotes, not {said(raw)}")
        if not raw.startswith("/") or "\0" in raw:
            raise ValueError(f'"{raw}" must be an absolute path: it begins with "/"')
        if not raw.endswith(self.ending):
            raise ValueError(f'"{raw}" must end with "{self.ending}"')
        return raw


@dataclass(frozen=True, slots=True)
class Duration:
    """A time such as "30s", in seconds once parsed. least, most: seconds."""

    least: float
    most: float

    def parse(self, raw: object) -> float:
        match = _DURATION.fullmatch(raw) if isinstance(raw, str) else None
        if match is None:
            raise ValueError(f'must be a duration such as "30s", "5min" or "2h", not {said(raw)}')
        seconds = float(int(match[1]) * _SECONDS[match[2]])
        if not self.least <= seconds <= self.most:
            raise ValueError(f'"{raw}" must be between {_written(self.least)} and {_written(self.most)}')
        return seconds


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments; no shell reads it."""

    def parse(self, raw: object) -> tuple[str, ...]:
        words = [raw] if isinstance(raw, str) else raw
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise ValueError('must be a list of text such as ["/usr/bin/program", "argument"]')
        if not words[0].startswith("/"):
            raise ValueError(f'the program "{words[0]}" must be an absolute path: it begins with "/"')
        if any("\0" in w for w in words):
            raise ValueError("must not hold a NUL character")
        return tuple(words)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number. least, most: its bounds."""

    least: int
    most: int

    def parse(self, raw: object) -> int:
        if type(raw) is not int:
            raise ValueError(f"must be a whole number, not {said(raw)}")
        if not self.least <= raw <= self.most:
            raise ValueError(f"{raw} must be between {self.least} and {self.most}")
        return raw


@dataclass(frozen=True, slots=True)
class Span:
    """Addresses from the first to the last, as numbers of so many bits. text: as it was written."""

    text: str
    bits: int
    first: int
    last: int

    def usable(self) -> Span:
        """Of a network, those that a machine may have: not its own (of IPv6 that of its routers) nor the broadcast.

        A network of two addresses or of one has neither (RFC 3021, RFC 6164).
        """
        if self.last - self.first < 2:
            return self
        return Span(self.text, self.bits, self.first + 1, self.last - (self.bits == 32))


@dataclass(frozen=True, slots=True)
class Spans:
    """IP addresses: networks in CIDR notation and, unless only networks are wanted, single ones and ranges."""

    networks: bool = False

    def parse(self, raw: object) -> tuple[Span, ...]:
        items = raw if isinstance(raw, list) else [raw]
        if not items:
            raise ValueError("is an empty list")
        return tuple(self._span(item) for item in items)

    def _span(self, raw: object) -> Span:
        example = "192.0.2.0/24" if self.networks else "192.0.2.1-192.0.2.9"
        if not isinstance(raw, str):
            raise ValueError(f'must be text such as "{example}", or a list of them, not {said(raw)}')
        if self.networks and "/" not in raw:
            raise ValueError(f'"{raw}" is no network; write it like "{example}"')
        first, dash, last = raw.partition("-")
        begin, end = network(first.strip()), network(last.strip()) if dash else None
        if end is None:
            return Span(raw, *begin)
        if begin[0] != end[0] or begin[1] > end[1] or "/" in raw:
            raise ValueError(f'"{raw}" is no range; write it like "192.0.2.1-192.0.2.9", the lower address first')
        return Span(raw, begin[0], begin[1], end[2])


def _written(seconds: float) -> str:
    """The duration as one would write it."""
    unit = next((u for u in ("d", "h", "min") if seconds and seconds % _SECONDS[u] == 0), "s")
    return f"{seconds / _SECONDS[unit]:g}{unit}"


SettingKind: TypeAlias = "FilePath | Duration | Command | Whole | Spans"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a detector. default: what holds when it isn't given; required settings have none."""

    kind: SettingKind
    about: str
    default: object = None
    required: bool = False
