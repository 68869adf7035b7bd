"""Finds the lines of keys and tables in the text of a file, because the TOML parser does not return them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from capacityd.config.problems import Problem, Step, clean
from capacityd.config.toml import parse_toml
from capacityd.model.errors import ConfigError

_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED_KEY = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(?P<brackets>\[\[?)\s*(?P<dotted_key>{_DOTTED_KEY})\s*\]")
_PAIR = re.compile(rf"\s*(?P<dotted_key>{_DOTTED_KEY})\s*=")
_PART = re.compile(_KEY)


def numbered(problems: Iterable[Problem], texts: Mapping[str, str]) -> tuple[Problem, ...]:
    """The problems with their line numbers, 0 if unknown. texts: file -> its text."""
    lines_of_files = {clean(file): _lines(text) for file, text in texts.items()}
    result = []
    for problem in problems:
        lines = lines_of_files.get(problem.file, {})
        result.append(problem if problem.line else replace(problem, line=_line(problem.path, lines)))
    return tuple(result)


def _line(path: tuple[Step, ...], lines: Mapping[tuple[Step, ...], int]) -> int:
    """The line of a table or key, or else of the innermost table around it whose line is known, or else 0."""
    for length in range(len(path), 0, -1):
        *parents, (name, number) = path[:length]
        if line := lines.get((*parents, (name, number))):
            return line
        if line := lines.get((*parents, (name, 0))):  # in an inline list, only the line of the whole list is known
            return line
    return 0


def _lines(text: str) -> dict[tuple[Step, ...], int]:
    """The first line of each table and key: path -> line.

    Each step of a path has a number: the first table [[a]] has number 1, the second has 2. The number is 0 outside of
    lists, and in a list with only one table.
    """
    rows = text.split("\n")
    numbered_lists = _numbered_lists(rows)
    counts: dict[tuple[str, ...], int] = {}  # number of tables in each list so far
    table: tuple[Step, ...] = ()
    lines: dict[tuple[Step, ...], int] = {}
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
            lines.setdefault(table, line)
            # The list as a whole has number 0, and begins at its first table. Outside of lists, this changes nothing.
            lines.setdefault((*table[:-1], (names[-1], 0)), line)
        elif pair := _PAIR.match(row):
            path = table
            for name in _names(pair["dotted_key"]):  # a dotted key "a.b = 1" also begins the table "a"
                path = (*path, (name, 0))
                lines.setdefault(path, line)
    for path, line in [*lines.items()]:  # the header [a.b] also begins the table "a"
        top_table, _ = path[0]
        # "resources" gets no line: otherwise a resource whose line is not found would get another resource's line.
        shortest = 2 if top_table == "resources" else 1
        for length in range(shortest, len(path)):
            lines.setdefault(path[:length], line)
    return lines


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
        return str(parse_toml(f"a = {key}")["a"])  # the parser also decodes escapes
    except ConfigError:  # the file is not TOML
        return key[1:-1]
