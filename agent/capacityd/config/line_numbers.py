"""Finds the lines of keys and tables in the text of a file, because the TOML parser does not return them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias

Step: TypeAlias = tuple[str, int]
"""A table or key in a path: its name without quotes, and its number. The number is the position in a list of tables,
from 1. It is 0 outside of lists, and in a list with only one table."""

_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED_KEY = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(?P<brackets>\[\[?)\s*(?P<dotted_key>{_DOTTED_KEY})\s*\]")
_PAIR = re.compile(rf"\s*(?P<dotted_key>{_DOTTED_KEY})\s*=")
_PART = re.compile(_KEY)


def line_of(path: tuple[Step, ...], text: str) -> int:
    """The line of a table or key. If unknown, the line of the innermost enclosing table whose line is known, or 0."""
    lines = _lines(text)
    for length in range(len(path), 0, -1):
        *parents, (name, number) = path[:length]
        if line := lines.get((*parents, (name, number))):
            return line
        if line := lines.get((*parents, (name, 0))):  # in an inline list, only the line of the whole list is known
            return line
    return 0


def earlier_line(text: str, line: int) -> int:
    """The earlier line that defines the same table or key as this line; 0 if there is no such line."""
    rows = text.split("\n")[:line]
    definitions_in_line = ((table, path) for number, table, path in _definitions(rows) if number == line)
    table, path = next(definitions_in_line, ((), ()))
    earlier = _lines("\n".join(rows[:-1]))
    defined_paths = [path[:length] for length in range(len(path), len(table), -1)]  # "a.b = 1" also defines "a"
    return next((earlier[defined] for defined in defined_paths if defined in earlier), 0)


@cache
def _lines(text: str) -> Mapping[tuple[Step, ...], int]:
    """The first line of each table and key: path -> line."""
    lines: dict[tuple[Step, ...], int] = {}
    for line, table, path in _definitions(text.split("\n")):
        for length in range(len(table) + 1, len(path) + 1):  # a dotted key "a.b = 1" also begins the table "a"
            lines.setdefault(path[:length], line)
        # Number 0 means the whole list, which begins at its first table. Outside of lists, the number already is 0.
        lines.setdefault((*path[:-1], (path[-1][0], 0)), line)
    for path, line in [*lines.items()]:  # the header [a.b] also begins the table "a"
        top_table, _ = path[0]
        # "resources" gets no line, because line_of() would return that line for a resource whose line is unknown.
        shortest = 2 if top_table == "resources" else 1
        for length in range(shortest, len(path)):
            lines.setdefault(path[:length], line)
    return lines


def _definitions(rows: Sequence[str]) -> Iterator[tuple[int, tuple[Step, ...], tuple[Step, ...]]]:
    """Yields line, path of the enclosing table, and full path for each header and each key at the start of a line.

    The first of several tables [[a]] has number 1, the second has 2.
    """
    numbered_lists = _numbered_lists(rows)
    counts: dict[tuple[str, ...], int] = {}  # number of tables in each list so far
    table: tuple[Step, ...] = ()
    for line, row in enumerate(rows, 1):
        if header := _HEADER.match(row):
            names = _names(header["dotted_key"])
            if header["brackets"] == "[[":
                counts[names] = counts.get(names, 0) + 1
            table = ()
            for length, name in enumerate(names, 1):
                names_so_far = names[:length]
                number = counts.get(names_so_far, 0) if names_so_far in numbered_lists else 0
                table = (*table, (name, number))
            yield line, table[:-1], table
        elif pair := _PAIR.match(row):
            yield line, table, (*table, *((name, 0) for name in _names(pair["dotted_key"])))


def _numbered_lists(rows: Sequence[str]) -> set[tuple[str, ...]]:
    """The dotted keys of the lists with several tables. Messages show a list of one table as a single table."""
    headers = [header for row in rows if (header := _HEADER.match(row))]
    lists = [_names(header["dotted_key"]) for header in headers if header["brackets"] == "[["]
    return {names for names in lists if lists.count(names) > 1}


def _names(dotted_key: str) -> tuple[str, ...]:
    """The parts of a dotted TOML key, without quotes."""
    return tuple(map(_without_quotes, _PART.findall(dotted_key)))


def _without_quotes(key: str) -> str:
    if key[0] not in "\"'":
        return key
    try:
        return str(json.loads(key)) if key[0] == '"' else key[1:-1]  # JSON has nearly all escapes of TOML
    except ValueError:
        return key[1:-1]
