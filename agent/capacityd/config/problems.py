"""Errors in a configuration and their places. They are collected while it is read, so that all are reported at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

from capacityd.config.toml import toml_key
from capacityd.model.config import Config
from capacityd.model.errors import ConfigError
from capacityd.model.text import printable

_T = TypeVar("_T")

Step: TypeAlias = tuple[str, int]
"""A part of a path in a file: a name without quotes, and which table of a list it is, 0 if it is the only one."""

MAX_MESSAGE_LENGTH = 600
"""Characters of a message, which may quote text of any length from the file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a file, or a warning. All texts are safe to print, except the names in path."""

    file: str
    message: str
    path: tuple[Step, ...] = ()
    """Of the table and the key."""
    table: str = ""
    """Its header, as in TOML."""
    key: str = ""
    """As in TOML; "" if the error concerns the whole table."""
    line: int = 0
    """In the file; 0 if it is unknown."""

    def __str__(self) -> str:
        """The text without the line, so that an edit elsewhere in the file does not change the reason of a reading."""
        return self._text(self.file)

    def located(self, severity: str = "") -> str:
        """The text with the line, in the format of compilers, so that editors can jump to it."""
        return self._text(f"{self.file}:{self.line}" if self.line else self.file, severity)

    def _text(self, file: str, severity: str = "") -> str:
        table = f"[{self.table}] " if self.table else ""
        key = f"{self.key}: " if self.key else ""
        return f"{file}: {severity}{table}{key}{self.message}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading the files."""

    config: Config
    """All that is valid. The service works with it even if there are problems."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    """What is valid, but probably not meant. Nothing depends on them."""
    files: tuple[str, ...]
    """The files that were read, in order."""
    values: Mapping[str, Mapping[str, Any]]
    """The valid part of their content: table -> key -> TOML value."""
    origins: Mapping[str, str]
    """table.key of each of these values -> its file."""

    def require(self) -> Config:
        """The configuration, which must be valid. Raises ConfigError with a line for each problem."""
        if self.problems:
            raise ConfigError("\n".join(p.located() for p in self.problems))
        return self.config


@dataclass(frozen=True, slots=True)
class Place:
    """A table of a file, which collects the problems in it and in the tables below it."""

    file: str
    path: tuple[Step, ...] = ()
    resource: str = ""
    """The header of the resource that this table belongs to, as in TOML; "" outside of resources."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def table(self) -> str:
        """The path as in TOML, with " #N" for the tables of a list."""
        return ".".join(toml_key(name) + (f" #{number}" if number else "") for name, number in self.path)

    def below(self, name: str, number: int = 0) -> Place:
        """A table in this one. number: which one of a list of tables, 0 if it is the only one."""
        return replace(self, path=(*self.path, (name, number)))

    def of_resource(self, name: str) -> Place:
        """The table of a resource, which collects its problems apart. This place must be the table "resources"."""
        place = self.below(name)
        return replace(place, resource=place.table, problems=[])

    def report(self, key: str, message: str) -> None:
        """Adds a problem at a key, or with "" at the whole table."""
        self.problems.append(
            Problem(
                file=clean(self.file),
                message=clean(message),
                path=(*self.path, (key, 0)) if key else self.path,
                table=clean(self.table),
                key=clean(toml_key(key)) if key else "",
            )
        )

    def parse(self, key: str, parser: Callable[[object], _T], raw: object) -> _T | None:
        """The parsed value of a key; None, and a problem, if it is invalid. parser: raises ValueError for that."""
        try:
            value = parser(raw)
        except ValueError as e:
            self.report(key, str(e))
            return None
        if isinstance(value, str) and not value.isprintable():
            self.report(key, f'"{value}" holds an unprintable character')
            return None
        return value


def clean(text: str) -> str:
    """Text from a file as one printable line of limited length."""
    return printable(text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}…")


def expected(word: str, words: Sequence[str], closeness: float = 0.6) -> str:
    """The end of a message about an unknown word: the word that was probably meant, else all valid words."""
    longer = [w for w in words if w.startswith(f"{word}_")]
    completed = [w for w in longer if w == f"{word}_name"] or longer
    if len(completed) > 1:
        return f"did you mean one of {', '.join(completed)}?"
    near = completed[0] if completed else nearest(word, words, closeness)
    return f'did you mean "{near}"?' if near else f"must be one of {', '.join(words)}"


def nearest(word: str, words: Iterable[str], closeness: float = 0.6) -> str | None:
    """The word that was probably meant, whatever its case. closeness: from 0 (any) to 1 (the same word).

    A mistyped word keeps its first or its last letter: "server" does not mean "observe".
    """
    typed = word[:80].lower()
    candidates = {
        w.lower(): w for w in words if w and typed and (w[0].lower() == typed[0] or w[-1].lower() == typed[-1])
    }
    matches = get_close_matches(typed, candidates, 1, closeness)
    return candidates[matches[0]] if matches else None
