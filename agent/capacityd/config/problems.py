"""What is wrong in a configuration and where: collected while it is read, so that all of it is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from capacityd.config.toml import toml_key
from capacityd.printable import printable

_T = TypeVar("_T")

_LONGEST = 600  # characters of a message: what it quotes from the file may be of any length


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. table, key: where in the file, as TOML writes them; "" where it has none. All is safe to print.

    line: in the file, 0 if it is not known.
    """

    file: str
    table: str
    key: str
    message: str
    line: int = 0

    def __str__(self) -> str:
        table = f"[{self.table}] " if self.table else ""
        key = f"{self.key}: " if self.key else ""
        return f"{self.file}: {table}{key}{self.message}"

    def located(self) -> str:
        """The same with the line, as compilers say it and editors jump to it."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}{str(self)[len(self.file) :]}"


@dataclass(frozen=True, slots=True)
class Place:
    """A table of a file, and where its mistakes go. table: as TOML writes it; resource: that of the resource in it."""

    file: str
    found: list[Problem]
    table: str = ""
    resource: str = ""

    def below(self, name: str, number: int = 0) -> Place:
        """A table in this one. number: which one, if it is one of a list of tables."""
        table = f"{self.table}.{toml_key(name)}" if self.table else toml_key(name)
        return Place(self.file, self.found, f"{table} #{number}" if number else table, self.resource)

    def of_resource(self, name: str) -> Place:
        """The table of a resource, with this one for "resources"."""
        place = self.below(name)
        return Place(self.file, self.found, place.table, place.table)

    def wrong(self, key: str, message: str) -> None:
        """Notes a mistake at a key, or with "" of the whole table."""
        self.found.append(problem(self.file, message, self.table, toml_key(key) if key else ""))

    def take(self, key: str, parse: Callable[[object], _T], raw: object) -> _T | None:
        """What parse makes of a value; None, and noted, if it raises ValueError."""
        try:
            value = parse(raw)
        except ValueError as e:
            self.wrong(key, str(e))
            return None
        if isinstance(value, str) and not value.isprintable():
            self.wrong(key, f'"{value}" holds a character that can\'t be printed')
            return None
        return value


def problem(file: str, message: str, table: str = "", key: str = "") -> Problem:
    """A mistake whose every part may come straight from the file."""
    return Problem(clean(file), clean(table), clean(key), clean(message))


def clean(text: str) -> str:
    """Text from a file as it may stand in one line on a terminal."""
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def did_you_mean(word: str, words: Iterable[str], closeness: float = 0.6) -> str:
    """A question to end a message with, "" if nothing is near."""
    near = nearest(word, words, closeness)
    return f'; did you mean "{near}"?' if near else ""


def nearest(word: str, words: Iterable[str], closeness: float = 0.6) -> str | None:
    """The word that was probably meant, whatever its case."""
    from difflib import get_close_matches  # only where there is a mistake

    known = {w.lower(): w for w in words}
    found = get_close_matches(word[:80].lower(), known, 1, closeness)
    return known[found[0]] if found else None
