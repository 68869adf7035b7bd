"""Finds the lines of keys and tables in the text of a file, because the TOML parser does not return them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
"""A key in double quotes, in single quotes or without quotes."""
_DOTTED_KEY = rf"{KEY}(?:\s*\.\s*{KEY})*"
_HEADER = re.compile(rf"\s*(?P<brackets>\[\[?)\s*(?P<dotted_key>{_DOTTED_KEY})\s*\]")
_PAIR = re.compile(rf"\s*(?P<dotted_key>{_DOTTED_KEY})\s*=")


class Step(NamedTuple):
    """A table or key in a path."""

    name: str
    """The name without quotes."""
    number: int = 0
    """The number in a list of tables, from 1; 0 outside of lists."""


TomlPath: TypeAlias = tuple[Step, ...]
"""The path of a table or key in a document, from the outermost table."""


@dataclass(frozen=True, slots=True)
class _Definition:
    """A header, or a key at the start of a line."""

    line: int
    table: TomlPath
    """The path of the enclosing table."""
    path: TomlPath
    """The path of the header's table or of the key."""


def line_of(path: TomlPath, text: str) -> int:
    """The line of a table or key.

    If this line is unknown, returns the line of the innermost enclosing table whose line is known, or else 0.
    """
    lines = _first_lines(text)
    for beginning in _beginnings(path):
        for possible_path in (beginning, _list_path(beginning)):  # a table in an inline list has no known line
            if possible_path in lines:
                return lines[possible_path]
    return 0


def earlier_line(text: str, line: int) -> int:
    """The earlier line that defines the same table or key as this line; 0 if there is no such line."""
    rows = text.split("\n")[:line]
    definitions = [*_definitions(rows)]
    if not definitions:
        return 0
    last = definitions[-1]
    if last.line < line:  # the line defines nothing
        return 0
    earlier_lines = _first_lines("\n".join(rows[:-1]))
    for path in _beginnings(last.path):  # "a.b = 1" also defines "a"
        if path == last.table:  # the remaining tables may have earlier headers
            break
        # The first [[a]] repeats an earlier [a]. The second [[a]] does not repeat the first [[a]].
        is_first_of_list = path[-1].number == 1
        repeated_path = _list_path(path) if is_first_of_list else path
        if repeated_path in earlier_lines:
            return earlier_lines[repeated_path]
    return 0


def _beginnings(path: TomlPath) -> list[TomlPath]:
    """The paths of a table or key and of all tables around it, the longest path first."""
    return [path[:length] for length in range(len(path), 0, -1)]


@cache
def _first_lines(text: str) -> Mapping[TomlPath, int]:
    """Path of each table and key -> the first line of the table or key."""
    lines: dict[TomlPath, int] = {}
    for definition in _definitions(text.split("\n")):
        for path in _beginnings(definition.path):  # the header [a.b] also begins the table "a"
            lines.setdefault(path, definition.line)
        lines.setdefault(_list_path(definition.path), definition.line)  # the first [[a]] also begins the list "a"
    return lines


def _list_path(path: TomlPath) -> TomlPath:
    """The path of the list that contains the table at this path; the same path if its last step has no number."""
    *tables_around, last = path
    return (*tables_around, Step(last.name))


def _definitions(rows: Sequence[str]) -> Iterator[_Definition]:
    """Yields each header, and each key at the start of a line."""
    header_counts: dict[tuple[str, ...], int] = {}  # names in a list's header [[a.b]] -> how often it has occurred
    table: TomlPath = ()
    for line, row in enumerate(rows, 1):
        header = _HEADER.match(row)
        pair = _PAIR.match(row)
        if header:
            names = _names(header["dotted_key"])
            if header["brackets"] == "[[":
                header_counts[names] = header_counts.get(names, 0) + 1
            table = ()
            for length, name in enumerate(names, 1):
                number = header_counts.get(names[:length], 0)
                table = (*table, Step(name, number))
            yield _Definition(line, table[:-1], table)
        elif pair:
            keys = [Step(name) for name in _names(pair["dotted_key"])]
            yield _Definition(line, table, (*table, *keys))


def _names(dotted_key: str) -> tuple[str, ...]:
    """The parts of a dotted TOML key, without quotes. Leaves escapes as they are."""
    names: list[str] = []
    for part in re.findall(KEY, dotted_key):
        is_quoted = part[0] in "\"'"
        names.append(part[1:-1] if is_quoted else part)
    return tuple(names)
