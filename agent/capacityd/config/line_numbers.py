"""Finds the lines of keys and tables in the text of a file, because the TOML parser does not return them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

Step: TypeAlias = tuple[str, int]
"""A table or key in a path: its name without quotes, and its number in a list of tables, from 1. The number is 0
outside of lists."""

_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED_KEY = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(?P<brackets>\[\[?)\s*(?P<dotted_key>{_DOTTED_KEY})\s*\]")
_PAIR = re.compile(rf"\s*(?P<dotted_key>{_DOTTED_KEY})\s*=")
_PART = re.compile(_KEY)


@dataclass(frozen=True, slots=True)
class _Definition:
    """A header, or a key at the start of a line."""

    line: int
    table: tuple[Step, ...]
    """The path of the enclosing table."""
    path: tuple[Step, ...]
    """The full path."""


def line_of(path: tuple[Step, ...], text: str) -> int:
    """The line of a table or key. If unknown, the line of the innermost enclosing table whose line is known, or 0."""
    lines = _first_lines(text)
    for length in range(len(path), 0, -1):
        part = path[:length]
        line = lines.get(part) or lines.get(_whole_list(part))  # an inline list has only one line
        if line:
            return line
    return 0


def earlier_line(text: str, line: int) -> int:
    """The earlier line that defines the same table or key as this line; 0 if there is no such line."""
    rows = text.split("\n")[:line]
    definitions = [*_definitions(rows)]
    if not definitions or definitions[-1].line < line:  # this line defines nothing
        return 0
    earlier_lines = _first_lines("\n".join(rows[:-1]))
    path = definitions[-1].path
    for length in range(len(path), len(definitions[-1].table), -1):  # "a.b = 1" also defines "a"
        part = path[:length]
        _, number = part[-1]
        # The first [[a]] repeats an earlier [a]. The second [[a]] does not repeat the first.
        earlier = earlier_lines.get(_whole_list(part) if number == 1 else part)
        if earlier:
            return earlier
    return 0


@cache
def _first_lines(text: str) -> Mapping[tuple[Step, ...], int]:
    """Path of each table and key -> its first line."""
    lines: dict[tuple[Step, ...], int] = {}
    for definition in _definitions(text.split("\n")):
        path = definition.path
        for length in range(1, len(path) + 1):  # the header [a.b] also begins the table "a"
            lines.setdefault(path[:length], definition.line)
        lines.setdefault(_whole_list(path), definition.line)
    return lines


def _whole_list(path: tuple[Step, ...]) -> tuple[Step, ...]:
    """The path of the list that contains the table at this path. Outside of lists, the same path."""
    *parents, (name, _) = path
    return (*parents, (name, 0))


def _definitions(rows: Sequence[str]) -> Iterator[_Definition]:
    """Yields each header, and each key at the start of a line."""
    counts: dict[tuple[str, ...], int] = {}  # names of a list -> number of its tables so far
    table: tuple[Step, ...] = ()
    for line, row in enumerate(rows, 1):
        header = _HEADER.match(row)
        pair = _PAIR.match(row)
        if header:
            names = _names(header["dotted_key"])
            if header["brackets"] == "[[":
                counts[names] = counts.get(names, 0) + 1
            table = ()
            for length, name in enumerate(names, 1):
                number = counts.get(names[:length], 0)
                table = (*table, (name, number))
            yield _Definition(line, table[:-1], table)
        elif pair:
            keys = [(name, 0) for name in _names(pair["dotted_key"])]
            yield _Definition(line, table, (*table, *keys))


def _names(dotted_key: str) -> tuple[str, ...]:
    """The parts of a dotted TOML key, without quotes. Leaves escapes as they are."""
    parts = _PART.findall(dotted_key)
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in parts)
