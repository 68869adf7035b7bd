"""The kinds of setting that a detector of one number takes: a path, a duration, a command, a whole number.

As in kinds.py, parse raises ValueError with a sentence that says what is wrong and what is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from capacityd.kinds import said

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
            raise ValueError(f'"{raw}" must be between {self.least:g}s and {self.most:g}s')
        return seconds


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments; no shell reads it."""

    def parse(self, raw: object) -> tuple[str, ...]:
        words = [raw] if isinstance(raw, str) else raw
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise ValueError(f'must be a list such as ["/usr/bin/program", "argument"], not {said(raw)}')
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
        if not isinstance(raw, int) or isinstance(raw, bool):
            raise ValueError(f"must be a whole number, not {said(raw)}")
        if not self.least <= raw <= self.most:
            raise ValueError(f"{raw} must be between {self.least} and {self.most}")
        return raw


SettingKind: TypeAlias = "FilePath | Duration | Command | Whole"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a detector. default: what holds when it isn't given; required settings have none."""

    kind: SettingKind
    about: str
    default: object = None
    required: bool = False
